/*
 * The stub's memory: host memory behind handles, and shared memory at addresses.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/stub_opencl_internal.h"

#define ALIGNMENT 128

struct _cl_mem {
    struct stub_object object;
    cl_mem parent; /* retained */
    size_t offset;
    size_t bytes;
    cl_mem_flags flags;
    char *host; /* the caller's with CL_MEM_USE_HOST_PTR */
};

struct svm {
    struct stub_object object;
    char *host;
    size_t bytes;
    struct svm *next;
};

static struct svm *svms;

/* ---- Objects ---- */

bool stub_is_shared(const void *at, size_t bytes) {
    pthread_mutex_lock(&stub_lock);
    const struct svm *block = svms;
    while (block != NULL &&
           !((const char *)at >= block->host && (const char *)at + bytes <= block->host + block->bytes)) {
        block = block->next;
    }
    pthread_mutex_unlock(&stub_lock);
    return block != NULL;
}

static char *host_alloc(size_t bytes) {
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

static cl_mem make_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host) {
    cl_mem made = stub_object_make(STUB_MEMORY, sizeof *made, context);
    made->flags = flags;
    made->bytes = bytes;
    made->host = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : host_alloc(bytes);
    if ((flags & CL_MEM_COPY_HOST_PTR) != 0) {
        memcpy(made->host, host, bytes);
    }
    return made;
}

cl_mem stub_memory_create(cl_context context, size_t bytes) {
    return make_buffer(context, CL_MEM_READ_WRITE, bytes, NULL);
}

cl_mem stub_memory_part(cl_mem memory, size_t offset, size_t bytes) {
    cl_mem made = stub_object_make(STUB_MEMORY, sizeof *made, memory->object.context);
    stub_object_retain(memory);
    made->flags = memory->flags;
    made->parent = memory;
    made->offset = offset;
    made->bytes = bytes;
    made->host = memory->host + offset;
    return made;
}

void stub_memory_free(cl_mem memory) {
    if (memory->parent != NULL) {
        stub_object_release(memory->parent);
    } else if ((memory->flags & CL_MEM_USE_HOST_PTR) == 0) {
        free(memory->host);
    }
}

STUB_EXPORT cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                              cl_int *result) {
    STUB_BEGIN_MAKING("clCreateBuffer", result);
    if (!stub_object_is(context, STUB_CONTEXT)) {
        *result = CL_INVALID_CONTEXT;
        return NULL;
    }
    if (bytes == 0 || bytes > STUB_ALLOCATION_BYTES) {
        *result = CL_INVALID_BUFFER_SIZE;
        return NULL;
    }
    return make_buffer(context, flags, bytes, host);
}

STUB_EXPORT cl_int CL_API_CALL clReleaseMemObject(cl_mem memory) {
    const cl_int result = stub_count_call("clReleaseMemObject");
    STUB_REQUIRE(stub_object_is(memory, STUB_MEMORY), CL_INVALID_MEM_OBJECT);
    stub_object_release(memory);
    return result;
}

STUB_EXPORT cl_int CL_API_CALL clGetMemObjectInfo(cl_mem memory, cl_mem_info fact, size_t capacity, void *value,
                                                  size_t *size) {
    STUB_BEGIN("clGetMemObjectInfo");
    STUB_REQUIRE(stub_object_is(memory, STUB_MEMORY), CL_INVALID_MEM_OBJECT);
    const cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;
    const void *host = (memory->flags & CL_MEM_USE_HOST_PTR) != 0 ? memory->host : NULL;
    const cl_bool uses_svm = host != NULL && stub_is_shared(host, 1);
    switch (fact) {
    case CL_MEM_TYPE:
        return stub_answer(&type, sizeof type, capacity, value, size);
    case CL_MEM_FLAGS:
        return stub_answer(&memory->flags, sizeof memory->flags, capacity, value, size);
    case CL_MEM_HOST_PTR:
        return stub_answer((const void *)&host, sizeof host, capacity, value, size);
    case CL_MEM_CONTEXT:
        return stub_answer(&memory->object.context, sizeof memory->object.context, capacity, value, size);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return stub_answer(&memory->parent, sizeof(cl_mem), capacity, value, size);
    case CL_MEM_OFFSET:
        return stub_answer(&memory->offset, sizeof memory->offset, capacity, value, size);
    case CL_MEM_SIZE:
        return stub_answer(&memory->bytes, sizeof memory->bytes, capacity, value, size);
    case CL_MEM_USES_SVM_POINTER:
        return stub_answer(&uses_svm, sizeof uses_svm, capacity, value, size);
    default:
        return CL_INVALID_VALUE;
    }
}

/* ---- Copies ---- */

/* The host's address of bytes of a memory object, NULL if they are not all in it. */
static char *address(cl_command_queue queue, cl_mem memory, size_t offset, size_t bytes) {
    const bool fits = stub_object_is(memory, STUB_MEMORY) && stub_queue_fits(queue, memory->object.context) &&
                      offset <= memory->bytes && bytes <= memory->bytes - offset;
    return fits ? memory->host + offset : NULL;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                                   size_t offset, size_t bytes, void *host, cl_uint waits,
                                                   const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueReadBuffer");
    const char *from = address(queue, memory, offset, bytes);
    STUB_REQUIRE(from != NULL && !blocking, CL_INVALID_VALUE);
    memcpy(host, from, bytes);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                                    size_t offset, size_t bytes, const void *host, cl_uint waits,
                                                    const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueWriteBuffer");
    char *to = address(queue, memory, offset, bytes);
    STUB_REQUIRE(to != NULL && !blocking, CL_INVALID_VALUE);
    memcpy(to, host, bytes);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueCopyBuffer(cl_command_queue queue, cl_mem source, cl_mem destination,
                                                   size_t source_offset, size_t destination_offset, size_t bytes,
                                                   cl_uint waits, const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueCopyBuffer");
    const char *from = address(queue, source, source_offset, bytes);
    char *to = address(queue, destination, destination_offset, bytes);
    STUB_REQUIRE(from != NULL && to != NULL, CL_INVALID_VALUE);
    memmove(to, from, bytes);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern,
                                                   size_t pattern_bytes, size_t offset, size_t bytes, cl_uint waits,
                                                   const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueFillBuffer");
    char *to = address(queue, memory, offset, bytes);
    STUB_REQUIRE(to != NULL && pattern_bytes == 1, CL_INVALID_VALUE);
    memset(to, *(const unsigned char *)pattern, bytes);
    return CL_SUCCESS;
}

/* ---- Mappings ---- */

static void count_mapping(int change) {
    pthread_mutex_lock(&stub_lock);
    stub_opencl.live[STUB_MAPPING] += change;
    pthread_mutex_unlock(&stub_lock);
}

STUB_EXPORT void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                                 cl_map_flags flags, size_t offset, size_t bytes, cl_uint waits,
                                                 const cl_event *wait_list, cl_event *event, cl_int *result) {
    (void)flags, (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN_MAKING("clEnqueueMapBuffer", result);
    char *mapped = address(queue, memory, offset, bytes);
    if (mapped == NULL || !blocking || (memory->flags & CL_MEM_ALLOC_HOST_PTR) == 0) {
        *result = CL_INVALID_VALUE;
        return NULL;
    }
    count_mapping(1);
    return mapped;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory, void *mapped,
                                                       cl_uint waits, const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    const cl_int result = stub_count_call("clEnqueueUnmapMemObject");
    STUB_REQUIRE(address(queue, memory, 0, 1) == mapped, CL_INVALID_VALUE);
    count_mapping(-1);
    return result;
}

/* ---- Shared memory ---- */

void *stub_shared_create(cl_context context, size_t bytes) {
    struct svm *made = stub_object_make(STUB_SVM, sizeof *made, context);
    made->host = host_alloc(bytes);
    made->bytes = bytes;
    pthread_mutex_lock(&stub_lock);
    made->next = svms;
    svms = made;
    pthread_mutex_unlock(&stub_lock);
    return made->host;
}

STUB_EXPORT void *CL_API_CALL clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t bytes, cl_uint alignment) {
    (void)flags, (void)alignment;
    const bool is_given = stub_count_call("clSVMAlloc") == CL_SUCCESS && stub_object_is(context, STUB_CONTEXT);
    return is_given ? stub_shared_create(context, bytes) : NULL;
}

void stub_shared_release(void *memory) {
    pthread_mutex_lock(&stub_lock);
    struct svm **link = &svms;
    while (*link != NULL && (*link)->host != memory) {
        link = &(*link)->next;
    }
    struct svm *block = *link;
    if (block != NULL) {
        *link = block->next;
    }
    pthread_mutex_unlock(&stub_lock);
    if (block != NULL) {
        free(block->host);
        stub_object_release(block);
    }
}

STUB_EXPORT void CL_API_CALL clSVMFree(cl_context context, void *memory) {
    (void)context;
    (void)stub_count_call("clSVMFree");
    stub_shared_release(memory);
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void *destination,
                                                  const void *source, size_t bytes, cl_uint waits,
                                                  const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueSVMMemcpy");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    STUB_REQUIRE(!blocking && (stub_is_shared(destination, bytes) || stub_is_shared(source, bytes)), CL_INVALID_VALUE);
    memmove(destination, source, bytes);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueSVMMemFill(cl_command_queue queue, void *memory, const void *pattern,
                                                   size_t pattern_bytes, size_t bytes, cl_uint waits,
                                                   const cl_event *wait_list, cl_event *event) {
    (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueSVMMemFill");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    STUB_REQUIRE(stub_is_shared(memory, bytes) && pattern_bytes == 1, CL_INVALID_VALUE);
    memset(memory, *(const unsigned char *)pattern, bytes);
    return CL_SUCCESS;
}
