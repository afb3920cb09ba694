/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/opencl/device.h"

#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/enumerate.h"
#include "backends/opencl/kernel.h"

attune_status attune_opencl_enter(const struct attune_opencl_device *device) {
    return attune_opencl_api_is_forked(device->api)
               ? attune_opencl_host->fail(ATTUNE_DEVICE_LOST,
                                          "this process is a fork of the one that opened the device")
               : ATTUNE_OK;
}

/* ---- Limits ---- */

enum fact {
    PROCESSORS,
    LOCAL_BYTES,
    WORK_GROUP_SIZE,
    L2_BYTES,
    MEMORY_BYTES,
    ALIGNMENT_BITS,
    VECTOR_FLOATS,
    HAS_COMPILER,
    IS_AVAILABLE,
    IS_LITTLE_ENDIAN,
    FACT_COUNT
};

static const struct {
    cl_device_info fact;
    const char *lack; /* what the device is refused for if the fact is 0; NULL: 0 will do */
} facts_asked[FACT_COUNT] = {
    [PROCESSORS] = {CL_DEVICE_MAX_COMPUTE_UNITS, "compute units"},
    [LOCAL_BYTES] = {CL_DEVICE_LOCAL_MEM_SIZE, "local memory"},
    [WORK_GROUP_SIZE] = {CL_DEVICE_MAX_WORK_GROUP_SIZE, "work-groups"},
    [L2_BYTES] = {CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, NULL},
    [MEMORY_BYTES] = {CL_DEVICE_GLOBAL_MEM_SIZE, "memory"},
    [ALIGNMENT_BITS] = {CL_DEVICE_MEM_BASE_ADDR_ALIGN, "an alignment"},
    [VECTOR_FLOATS] = {CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT, NULL},
    [HAS_COMPILER] = {CL_DEVICE_COMPILER_AVAILABLE, "a compiler"},
    [IS_AVAILABLE] = {CL_DEVICE_AVAILABLE, "its availability"},
    [IS_LITTLE_ENDIAN] = {CL_DEVICE_ENDIAN_LITTLE, "little-endian memory"},
};

static attune_status read_facts(const struct attune_opencl_device *device, uint64_t facts[FACT_COUNT]) {
    for (int fact = 0; fact < FACT_COUNT; fact++) {
        const attune_status status =
            attune_opencl_device_number(device->api, device->device, facts_asked[fact].fact, &facts[fact]);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (facts[fact] == 0 && facts_asked[fact].lack != NULL) {
            return attune_opencl_host->fail(ATTUNE_UNAVAILABLE, "%s lacks %s", device->name, facts_asked[fact].lack);
        }
    }
    return ATTUNE_OK;
}

static void set_limits(struct attune_opencl_device *device, const uint64_t facts[FACT_COUNT]) {
    attune_device_limits *limits = &device->limits;
    snprintf(limits->architecture, sizeof limits->architecture, "opencl");
    limits->processors = (int32_t)facts[PROCESSORS];
    limits->shared_memory_bytes = (int64_t)facts[LOCAL_BYTES];
    limits->work_group_size_max = (int64_t)facts[WORK_GROUP_SIZE];
    limits->l2_cache_bytes = (int64_t)facts[L2_BYTES];
    limits->memory_bytes = (int64_t)facts[MEMORY_BYTES];
    limits->alignment_bytes = (int32_t)(facts[ALIGNMENT_BITS] / 8);
    /* is_cpu stays false: to the planner it says that on-chip memory is a cache, which may be exceeded. Local memory is
     * a limit on every device of OpenCL. attune_device_info has what the device is. */
    attune_opencl_host->limits_override(limits);
}

attune_status attune_opencl_device_limits(void *handle, attune_device_limits *out_limits) {
    const struct attune_opencl_device *device = handle;
    const size_t struct_size = out_limits->struct_size;
    const size_t both_have = struct_size < sizeof device->limits ? struct_size : sizeof device->limits;
    memcpy(out_limits, &device->limits, both_have);
    out_limits->struct_size = struct_size;
    return ATTUNE_OK;
}

/* Shared virtual memory of the coarse kind at least. A device before 2.0 does not know the question. */
static bool has_svm(const struct attune_opencl_device *device) {
    const struct attune_opencl_api *api = device->api;
    cl_device_svm_capabilities kinds = 0;
    return api->SVMAlloc != NULL && api->SVMFree != NULL && api->EnqueueSVMMemcpy != NULL &&
           api->EnqueueSVMMemFill != NULL && api->SetKernelArgSVMPointer != NULL &&
           api->GetDeviceInfo(device->device, CL_DEVICE_SVM_CAPABILITIES, sizeof kinds, &kinds, NULL) == CL_SUCCESS &&
           (kinds & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
}

/* Of llvmpipe, Mesa's driver for CPUs: LP_MAX_TGSI_LOOP_ITERATIONS, shared by all loops of a work-item. */
static attune_status check_loops(const struct attune_opencl_device *device) {
    static const char of_llvmpipe[] = "llvmpipe";
    return strncmp(device->name, of_llvmpipe, strlen(of_llvmpipe)) != 0
               ? ATTUNE_OK
               : attune_opencl_host->fail(
                     ATTUNE_UNAVAILABLE,
                     "%s ends the loops of a work-item after 65,535 rounds in all, without a word: "
                     "its results are wrong",
                     device->name);
}

/* ---- Opening ---- */

static attune_status learn(struct attune_opencl_device *device) {
    attune_device_info info = {.struct_size = sizeof info};
    uint64_t facts[FACT_COUNT];
    attune_status status = attune_opencl_describe(device->api, device->device, &info);
    if (status != ATTUNE_OK) {
        return status;
    }
    memcpy(device->name, info.name, sizeof device->name);
    memcpy(device->driver, info.driver, sizeof device->driver);
    device->is_cpu = info.is_cpu;
    status = check_loops(device);
    if (status == ATTUNE_OK) {
        status = read_facts(device, facts);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    set_limits(device, facts);
    device->vector_floats = (int32_t)facts[VECTOR_FLOATS];
    device->has_svm = has_svm(device);
    device->has_dispatch = attune_opencl_has_dispatch(device->api, device->device);
    return attune_opencl_device_text(device->api, device->device, CL_DEVICE_VERSION, &device->version);
}

static void free_device(struct attune_opencl_device *device) {
    (void)pthread_mutex_destroy(&device->programs_lock);
    (void)pthread_mutex_destroy(&device->blocks_lock);
    attune_opencl_host->free(device->version);
    attune_opencl_host->free(device);
}

static attune_status make_device(const struct attune_opencl_api *api, cl_device_id native,
                                 struct attune_opencl_device **out_device) {
    struct attune_opencl_device *made = attune_opencl_host->alloc(sizeof *made);
    if (made == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a device handle of %zu bytes", sizeof *made);
    }
    made->api = api;
    made->device = native;
    (void)pthread_mutex_init(&made->programs_lock, NULL);
    (void)pthread_mutex_init(&made->blocks_lock, NULL);
    const attune_status status = learn(made);
    if (status != ATTUNE_OK) {
        free_device(made);
        return status;
    }
    *out_device = made;
    return ATTUNE_OK;
}

static attune_status open_queue(struct attune_opencl_device *device) {
    cl_int result = CL_SUCCESS;
    device->queue =
        device->api->CreateCommandQueue(device->context, device->device, CL_QUEUE_PROFILING_ENABLE, &result);
    return attune_opencl_check(result, "clCreateCommandQueue");
}

/* Takes the context, which it releases on an error. */
static attune_status finish_device(struct attune_opencl_device *device, cl_context context, void **out_device) {
    device->context = context;
    const attune_status status = open_queue(device);
    if (status != ATTUNE_OK) {
        (void)device->api->ReleaseContext(context);
        free_device(device);
        return status;
    }
    *out_device = device;
    return ATTUNE_OK;
}

attune_status attune_opencl_device_open(int32_t index, void **out_device) {
    const struct attune_opencl_api *api = NULL;
    cl_device_id native = NULL;
    struct attune_opencl_device *device = NULL;
    attune_status status = attune_opencl_find_device(index, &api, &native);
    if (status == ATTUNE_OK) {
        status = make_device(api, native, &device);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    cl_int result = CL_SUCCESS;
    cl_context context = api->CreateContext(NULL, 1, &native, NULL, NULL, &result);
    status = attune_opencl_check(result, "clCreateContext");
    if (status != ATTUNE_OK) {
        free_device(device);
        return status;
    }
    return finish_device(device, context, out_device);
}

/* Whether the context is one, and has the device. */
static attune_status check_context(const struct attune_opencl_device *device, cl_context context) {
    cl_device_id devices[ATTUNE_OPENCL_CONTEXT_DEVICES_MAX];
    size_t size = 0;
    if (!attune_opencl_may_be_object(device, context)) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "native.context is not a cl_context of the platform of native.device");
    }
    const cl_int result = device->api->GetContextInfo(context, CL_CONTEXT_DEVICES, sizeof devices, devices, &size);
    attune_status status = attune_opencl_check(result, "native.context is not a cl_context: clGetContextInfo");
    if (status != ATTUNE_OK) {
        return result == CL_INVALID_CONTEXT ? ATTUNE_INVALID_ARGUMENT : status;
    }
    size_t at = 0;
    while (at < size / sizeof devices[0] && devices[at] != device->device) {
        at++;
    }
    return at < size / sizeof devices[0]
               ? ATTUNE_OK
               : attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "native.device is not a device of native.context");
}

static attune_status take_context(const struct attune_opencl_device *device, cl_context context) {
    const attune_status status = check_context(device, context);
    return status == ATTUNE_OK ? attune_opencl_check(device->api->RetainContext(context), "clRetainContext") : status;
}

attune_status attune_opencl_device_wrap(void *handle, int32_t *out_index, void **out_device) {
    const struct {
        cl_context context;
        cl_device_id device;
    } *native = handle;
    if (native->context == NULL || native->device == NULL) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "native.%s is NULL",
                                        native->context == NULL ? "context" : "device");
    }
    const struct attune_opencl_api *api = NULL;
    struct attune_opencl_device *device = NULL;
    attune_status status = attune_opencl_api_open(&api);
    if (status == ATTUNE_OK) {
        status = attune_opencl_find_index(api, native->device, out_index);
    }
    if (status == ATTUNE_OK) {
        status = make_device(api, native->device, &device);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = take_context(device, native->context);
    if (status != ATTUNE_OK) {
        free_device(device);
        return status;
    }
    return finish_device(device, native->context, out_device);
}

void attune_opencl_device_close(void *handle) {
    struct attune_opencl_device *device = handle;
    attune_opencl_programs_release(device);
    if (!attune_opencl_api_is_forked(device->api)) {
        (void)device->api->ReleaseCommandQueue(device->queue);
        (void)device->api->ReleaseContext(device->context);
    }
    free_device(device);
}
