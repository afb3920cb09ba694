/*
 * Where a tensor's data lies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <string.h>

#include "backends/opencl/device.h"

/* ---- Memory objects ---- */

struct question {
    cl_mem_info fact;
    size_t size;
    void *answer;
};

static attune_status ask(const struct attune_opencl_api *api, cl_mem memory, const struct question *questions,
                         size_t count) {
    for (size_t index = 0; index < count; index++) {
        const struct question *question = &questions[index];
        const cl_int result = api->GetMemObjectInfo(memory, question->fact, question->size, question->answer, NULL);
        if (result == CL_INVALID_MEM_OBJECT) {
            return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is no cl_mem", (void *)memory);
        }
        const attune_status status = attune_opencl_check(result, "clGetMemObjectInfo");
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

struct object_facts {
    cl_context context;
    cl_mem_object_type type;
    cl_mem parent; /* of a sub-buffer, which begins at offset of it */
    size_t offset;
    size_t bytes;
};

static attune_status look_up(const struct attune_opencl_api *api, cl_mem memory, struct object_facts *out_facts) {
    const struct question questions[] = {
        {CL_MEM_CONTEXT, sizeof out_facts->context, &out_facts->context},
        {CL_MEM_TYPE, sizeof out_facts->type, &out_facts->type},
        {CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), (void *)&out_facts->parent},
        {CL_MEM_OFFSET, sizeof out_facts->offset, &out_facts->offset},
        {CL_MEM_SIZE, sizeof out_facts->bytes, &out_facts->bytes},
    };
    return ask(api, memory, questions, sizeof questions / sizeof questions[0]);
}

static attune_status check_object(const struct attune_opencl_device *device, const void *data,
                                  const struct object_facts *facts) {
    const int32_t alignment = device->limits.alignment_bytes;
    if (facts->type != CL_MEM_OBJECT_BUFFER) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is a cl_mem, but no buffer", data);
    }
    if (facts->context != device->context) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "%p is a cl_mem of another cl_context than the device's", data);
    }
    if (facts->parent != NULL && alignment > 0 && facts->offset % (size_t)alignment != 0) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "%p is a sub-buffer from byte %zu on: must be a multiple of %d bytes, the "
                                        "CL_DEVICE_MEM_BASE_ADDR_ALIGN of %s",
                                        data, facts->offset, (int)alignment, device->name);
    }
    return ATTUNE_OK;
}

/* The host's memory that a whole object was made over; NULL if it has memory of its own. */
static attune_status find_host(const struct attune_opencl_api *api, cl_mem whole, void **out_host) {
    cl_mem_flags flags = 0;
    void *host = NULL;
    const struct question questions[] = {
        {CL_MEM_FLAGS, sizeof flags, &flags},
        {CL_MEM_HOST_PTR, sizeof host, (void *)&host},
    };
    const attune_status status = ask(api, whole, questions, sizeof questions / sizeof questions[0]);
    *out_host = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : NULL;
    return status;
}

/* An object over memory of the host is as aligned as that is, and may share it with another one: its place is its
 * address. Any other is a space of its own. */
static attune_status range_of_object(const struct attune_opencl_device *device, const void *data,
                                     attune_memory_range *out_range) {
    const cl_mem memory = (cl_mem)(uintptr_t)data;
    struct object_facts facts = {0};
    void *host = NULL;
    attune_status status = look_up(device->api, memory, &facts);
    if (status == ATTUNE_OK) {
        status = check_object(device, data, &facts);
    }
    const cl_mem whole = facts.parent == NULL ? memory : facts.parent;
    if (status == ATTUNE_OK) {
        status = find_host(device->api, whole, &host);
    }
    if (status == ATTUNE_OK) {
        const uint64_t space = host == NULL ? (uint64_t)(uintptr_t)whole : 0;
        *out_range = (attune_memory_range){space, (uint64_t)(uintptr_t)host + facts.offset, facts.bytes};
    }
    return status;
}

/* ---- Addresses ---- */

/* Whether an address is that of shared virtual memory which the caller has allocated: what OpenCL tells of a memory
 * object that is made over it. How much there is, it does not tell. */
static attune_status find_shared(const struct attune_opencl_device *device, const void *data, bool *out_is_shared) {
    const struct attune_opencl_api *api = device->api;
    cl_int result = CL_SUCCESS;
    cl_bool is_shared = CL_FALSE;
    cl_mem over = api->CreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, 1,
                                    (void *)(uintptr_t)data, &result);
    attune_status status = attune_opencl_check(result, "clCreateBuffer over the address");
    if (status != ATTUNE_OK) {
        return status;
    }
    status =
        attune_opencl_check(api->GetMemObjectInfo(over, CL_MEM_USES_SVM_POINTER, sizeof is_shared, &is_shared, NULL),
                            "CL_MEM_USES_SVM_POINTER");
    (void)api->ReleaseMemObject(over);
    *out_is_shared = is_shared != CL_FALSE;
    return status;
}

static attune_status range_of_shared(const struct attune_opencl_device *device, const void *data,
                                     attune_memory_range *out_range) {
    bool is_shared = false;
    if (!device->has_svm) {
        return attune_opencl_host->fail(ATTUNE_UNSUPPORTED, "%s has no shared virtual memory", device->name);
    }
    const attune_status status = find_shared(device, data, &is_shared);
    if (status != ATTUNE_OK) {
        return status;
    }
    *out_range = (attune_memory_range){0, (uint64_t)(uintptr_t)data, UINT64_MAX};
    return is_shared ? ATTUNE_OK
                     : attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                                "%p is not what clSVMAlloc gave for the device's cl_context "
                                                "(byte_offset leads into it)",
                                                data);
}

/* In one space with all addresses. No memory object is at NULL. */
static attune_status range_of_block(const struct attune_opencl_block *block, const void *data,
                                    attune_memory_range *out_range) {
    const uintptr_t address = (uintptr_t)data;
    if (block->mapped != NULL) {
        return attune_opencl_host->fail(
            ATTUNE_INVALID_ARGUMENT, "%p is pinned host memory: the device's own has to be copied from or to it", data);
    }
    *out_range = (attune_memory_range){0, address, block->begin + block->bytes - address};
    return ATTUNE_OK;
}

/* ---- Any pointer ---- */

bool attune_opencl_may_be_object(const struct attune_opencl_device *device, const void *data) {
    return !device->has_dispatch || memcmp(data, device->device, sizeof(void *)) == 0;
}

bool attune_opencl_is_address(struct attune_opencl_device *device, attune_pointer pointer) {
    struct attune_opencl_block block;
    return pointer.memory == ATTUNE_MEMORY_SVM || attune_opencl_block_find(device, pointer.data, &block);
}

attune_status attune_opencl_memory_range(void *handle, attune_memory kind, const void *data,
                                         attune_memory_range *out_range) {
    struct attune_opencl_device *device = handle;
    struct attune_opencl_block block;
    const attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (attune_opencl_block_find(device, data, &block)) {
        return range_of_block(&block, data, out_range);
    }
    if (kind == ATTUNE_MEMORY_SVM) {
        return range_of_shared(device, data, out_range);
    }
    if (!attune_opencl_may_be_object(device, data)) {
        return attune_opencl_host->fail(
            ATTUNE_INVALID_ARGUMENT,
            "%p is no cl_mem, nor memory of attune_memory_alloc; what clSVMAlloc gave is taken for a tensor that says "
            "ATTUNE_MEMORY_SVM, and for no copy, fill or workspace",
            data);
    }
    return range_of_object(device, data, out_range);
}
