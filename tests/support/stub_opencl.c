/*
 * An OpenCL library without a device, for machines without one: queues run at once, and kernels compute nothing. It is
 * strict where drivers are: contexts, handles and sizes must be right. Any of its calls can be made to fail; see
 * stub_opencl.h. This file: calls, objects, devices, contexts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/stub_opencl_internal.h"

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stub_object *objects;

static struct _cl_platform_id platforms[STUB_OPENCL_PLATFORMS_MAX] = {{0}, {1}};
static const char dispatch; /* its address is what would be a table of functions */
static struct _cl_device_id devices[STUB_OPENCL_PLATFORMS_MAX][STUB_OPENCL_DEVICES] = {
    {{&dispatch, 0, 0, NULL}, {&dispatch, 0, 1, NULL}}, {{&dispatch, 1, 0, NULL}, {&dispatch, 1, 1, NULL}}};
static struct _cl_device_id part = {&dispatch, 0, 0, &devices[0][0]};

/* ---- Calls ---- */

cl_int stub_count_call(const char *function) {
    cl_int result = CL_SUCCESS;
    pthread_mutex_lock(&stub_lock);
    stub_opencl.calls++;
    const bool is_named = stub_opencl.fail_function != NULL && strcmp(stub_opencl.fail_function, function) == 0;
    if (stub_opencl.calls == stub_opencl.fail_at || is_named) {
        stub_opencl.failed = function;
        result = stub_opencl.fail_with;
    }
    pthread_mutex_unlock(&stub_lock);
    return result;
}

cl_int stub_answer(const void *fact, size_t bytes, size_t capacity, void *value, size_t *size) {
    STUB_REQUIRE(value == NULL || capacity >= bytes, CL_INVALID_VALUE);
    if (value != NULL) {
        memcpy(value, fact, bytes);
    }
    if (size != NULL) {
        *size = bytes;
    }
    return CL_SUCCESS;
}

/* ---- Objects ---- */

void *stub_object_make(enum stub_opencl_kind kind, size_t bytes, cl_context context) {
    struct stub_object *made = calloc(1, bytes);
    made->dispatch = &dispatch;
    made->kind = kind;
    made->references = 1;
    made->context = context;
    pthread_mutex_lock(&stub_lock);
    made->next = objects;
    objects = made;
    stub_opencl.live[kind]++;
    pthread_mutex_unlock(&stub_lock);
    return made;
}

bool stub_object_is(const void *object, enum stub_opencl_kind kind) {
    pthread_mutex_lock(&stub_lock);
    const struct stub_object *at = objects;
    while (at != NULL && at != object) {
        at = at->next;
    }
    const bool is_alive = at != NULL && at->kind == kind;
    pthread_mutex_unlock(&stub_lock);
    return is_alive;
}

void stub_object_retain(void *object) {
    pthread_mutex_lock(&stub_lock);
    ((struct stub_object *)object)->references++;
    pthread_mutex_unlock(&stub_lock);
}

void stub_object_release(void *handle) {
    struct stub_object *object = handle;
    pthread_mutex_lock(&stub_lock);
    const bool is_last = --object->references == 0;
    if (is_last) {
        struct stub_object **link = &objects;
        while (*link != object) {
            link = &(*link)->next;
        }
        *link = object->next;
        stub_opencl.live[object->kind]--;
    }
    pthread_mutex_unlock(&stub_lock);
    if (!is_last) {
        return;
    }
    switch (object->kind) {
    case STUB_MEMORY:
        stub_memory_free(handle);
        break;
    case STUB_PROGRAM:
        stub_program_free(handle);
        break;
    case STUB_KERNEL:
        stub_kernel_free(handle);
        break;
    default:
        break;
    }
    free(object);
}

/* ---- The test's own calls ---- */

static cl_device_id get_device(int platform, int index) {
    return &devices[platform][index];
}

static cl_device_id part_of(cl_device_id device) {
    part.parent = device;
    return &part;
}

bool stub_context_has(cl_context context, cl_device_id device) {
    return context->devices[0] == device || (context->count > 1 && context->devices[1] == device);
}

static cl_context context_create(cl_device_id device) {
    cl_context made = stub_object_make(STUB_CONTEXT, sizeof *made, NULL);
    if (stub_opencl.beside != NULL) {
        made->devices[made->count++] = stub_opencl.beside;
    }
    made->devices[made->count++] = device;
    return made;
}

static cl_command_queue queue_create(cl_context context, cl_device_id device, cl_command_queue_properties properties) {
    cl_command_queue made = stub_object_make(STUB_QUEUE, sizeof *made, context);
    made->device = device;
    made->properties = properties;
    return made;
}

struct stub_opencl stub_opencl = {
    .platforms = 1,
    .extensions = "",
    .devices = STUB_OPENCL_DEVICES,
    .fail_with = CL_INVALID_VALUE,
    .kernel_work_group = 256,
    .device = get_device,
    .part_of = part_of,
    .context_create = context_create,
    .queue_create = queue_create,
    .memory_create = stub_memory_create,
    .memory_part = stub_memory_part,
    .shared_create = stub_shared_create,
    .shared_release = stub_shared_release,
    .release = stub_object_release,
};

/* ---- Platforms and devices ---- */

#define PLATFORM_NOT_FOUND (-1001)

STUB_EXPORT cl_int CL_API_CALL clGetPlatformIDs(cl_uint capacity, cl_platform_id *out, cl_uint *count) {
    STUB_BEGIN("clGetPlatformIDs");
    STUB_REQUIRE(stub_opencl.platforms > 0, PLATFORM_NOT_FOUND);
    if (count != NULL) {
        *count = (cl_uint)stub_opencl.platforms;
    }
    for (int index = 0; out != NULL && index < stub_opencl.platforms && index < (int)capacity; index++) {
        out[index] = &platforms[index];
    }
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info fact, size_t capacity,
                                                 void *value, size_t *size) {
    (void)platform;
    STUB_BEGIN("clGetPlatformInfo");
    STUB_REQUIRE(fact == CL_PLATFORM_EXTENSIONS, CL_INVALID_VALUE);
    return stub_answer(stub_opencl.extensions, strlen(stub_opencl.extensions) + 1, capacity, value, size);
}

STUB_EXPORT cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint capacity,
                                              cl_device_id *out, cl_uint *count) {
    STUB_BEGIN("clGetDeviceIDs");
    STUB_REQUIRE(type == CL_DEVICE_TYPE_ALL, CL_INVALID_DEVICE_TYPE);
    STUB_REQUIRE(stub_opencl.devices > 0, CL_DEVICE_NOT_FOUND);
    if (count != NULL) {
        *count = (cl_uint)stub_opencl.devices;
    }
    for (int index = 0; out != NULL && index < stub_opencl.devices && index < (int)capacity; index++) {
        out[index] = &devices[platform->index][index];
    }
    return CL_SUCCESS;
}

static bool is_device(cl_device_id device) {
    for (int platform = 0; platform < STUB_OPENCL_PLATFORMS_MAX; platform++) {
        for (int index = 0; index < STUB_OPENCL_DEVICES; index++) {
            if (device == &devices[platform][index]) {
                return true;
            }
        }
    }
    return device == &part;
}

static cl_int answer_text(const char *text, size_t capacity, void *value, size_t *size) {
    return stub_answer(text, strlen(text) + 1, capacity, value, size);
}

static cl_int answer_number(cl_device_info fact, cl_uint number, size_t capacity, void *value, size_t *size) {
    number = fact == stub_opencl.lacking ? 0 : number;
    return stub_answer(&number, sizeof number, capacity, value, size);
}

static cl_int answer_wide(cl_device_info fact, cl_ulong number, size_t capacity, void *value, size_t *size) {
    number = fact == stub_opencl.lacking ? 0 : number;
    return stub_answer(&number, sizeof number, capacity, value, size);
}

static cl_int answer_texts(cl_device_id device, cl_device_info fact, size_t capacity, void *value, size_t *size) {
    char name[32];
    switch (fact) {
    case CL_DEVICE_NAME:
        (void)snprintf(name, sizeof name, "  Stub %d.%d ", device->platform, device->index);
        return answer_text(stub_opencl.name == NULL ? name : stub_opencl.name, capacity, value, size);
    case CL_DRIVER_VERSION:
        return answer_text("7.1", capacity, value, size);
    case CL_DEVICE_VERSION:
        return answer_text("OpenCL 2.0 stub", capacity, value, size);
    default:
        return CL_INVALID_VALUE;
    }
}

STUB_EXPORT cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info fact, size_t capacity, void *value,
                                               size_t *size) {
    STUB_BEGIN("clGetDeviceInfo");
    STUB_REQUIRE(is_device(device), CL_INVALID_DEVICE);
    switch (fact) {
    case CL_DEVICE_PLATFORM: {
        const cl_platform_id platform = &platforms[device->platform];
        return stub_answer(&platform, sizeof(cl_platform_id), capacity, value, size);
    }
    case CL_DEVICE_PARENT_DEVICE:
        return stub_answer(&device->parent, sizeof device->parent, capacity, value, size);
    case CL_DEVICE_TYPE:
        return answer_wide(fact, CL_DEVICE_TYPE_GPU, capacity, value, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return answer_number(fact, 4, capacity, value, size);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return answer_wide(fact, 48 * 1024, capacity, value, size);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        return answer_wide(fact, 1 << 20, capacity, value, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
        return answer_wide(fact, STUB_MEMORY_BYTES, capacity, value, size);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return answer_wide(fact, STUB_ALLOCATION_BYTES, capacity, value, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer_wide(fact, 1024, capacity, value, size);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN:
        return answer_number(fact, 1024, capacity, value, size);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
    case CL_DEVICE_COMPILER_AVAILABLE:
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
        return answer_number(fact, CL_TRUE, capacity, value, size);
    case CL_DEVICE_SVM_CAPABILITIES:
        return answer_wide(fact, CL_DEVICE_SVM_COARSE_GRAIN_BUFFER, capacity, value, size);
    default:
        return answer_texts(device, fact, capacity, value, size);
    }
}

/* ---- Contexts ---- */

STUB_EXPORT cl_context CL_API_CALL
clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *given,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data, cl_int *result) {
    (void)properties, (void)notify, (void)data;
    STUB_BEGIN_MAKING("clCreateContext", result);
    if (count != 1 || !is_device(given[0])) {
        *result = CL_INVALID_VALUE;
        return NULL;
    }
    return context_create(given[0]);
}

STUB_EXPORT cl_int CL_API_CALL clRetainContext(cl_context context) {
    STUB_BEGIN("clRetainContext");
    STUB_REQUIRE(stub_object_is(context, STUB_CONTEXT), CL_INVALID_CONTEXT);
    stub_object_retain(context);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clReleaseContext(cl_context context) {
    const cl_int result = stub_count_call("clReleaseContext");
    STUB_REQUIRE(stub_object_is(context, STUB_CONTEXT), CL_INVALID_CONTEXT);
    stub_object_release(context);
    return result;
}

STUB_EXPORT cl_int CL_API_CALL clGetContextInfo(cl_context context, cl_context_info fact, size_t capacity, void *value,
                                                size_t *size) {
    STUB_BEGIN("clGetContextInfo");
    STUB_REQUIRE(stub_object_is(context, STUB_CONTEXT), CL_INVALID_CONTEXT);
    STUB_REQUIRE(fact == CL_CONTEXT_DEVICES, CL_INVALID_VALUE);
    return stub_answer((const void *)context->devices, context->count * sizeof context->devices[0], capacity, value,
                       size);
}
