/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/kernel.h"

/* ---- The current context ---- */

attune_status attune_cuda_enter(const struct attune_cuda_device *device) {
    if (attune_cuda_api_is_forked(device->api)) {
        return attune_cuda_host->fail(ATTUNE_DEVICE_LOST, "this process is a fork of the one that opened the device");
    }
    return attune_cuda_check(device->api, device->api->CtxPushCurrent(device->context), "cuCtxPushCurrent");
}

bool attune_cuda_try_enter(const struct attune_cuda_device *device) {
    return !attune_cuda_api_is_forked(device->api) && device->api->CtxPushCurrent(device->context) == CUDA_SUCCESS;
}

void attune_cuda_leave(const struct attune_cuda_device *device) {
    CUcontext popped = NULL;
    (void)device->api->CtxPopCurrent(&popped);
}

/* ---- What is there ---- */

static attune_status find_device(int32_t index, const struct attune_cuda_api **out_api, CUdevice *out_device) {
    const struct attune_cuda_api *api = NULL;
    attune_status status = attune_cuda_api_open(&api);
    if (status != ATTUNE_OK) {
        return status;
    }
    int count = 0;
    status = attune_cuda_check(api, api->DeviceGetCount(&count), "cuDeviceGetCount");
    if (status != ATTUNE_OK) {
        return status;
    }
    if (count == 0) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s is there, but it sees no device", api->driver.path);
    }
    if (index < 0 || index >= count) {
        return attune_cuda_host->fail(ATTUNE_NOT_FOUND, "device %d; there are %d, counted from 0", index, count);
    }
    *out_api = api;
    return attune_cuda_check(api, api->DeviceGet(out_device, index), "cuDeviceGet");
}

attune_status attune_cuda_enumerate(int32_t index, attune_device_info *out_info) {
    const struct attune_cuda_api *api = NULL;
    CUdevice device = 0;
    int version = 0;
    size_t bytes = 0;
    attune_status status = find_device(index, &api, &device);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(api, api->DriverGetVersion(&version), "cuDriverGetVersion");
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(api, api->DeviceTotalMem(&bytes, device), "cuDeviceTotalMem");
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(api, api->DeviceGetName(out_info->name, (int)sizeof out_info->name, device),
                                   "cuDeviceGetName");
    }
    if (status == ATTUNE_OK) {
        out_info->memory_bytes = bytes;
        snprintf(out_info->driver, sizeof out_info->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    }
    return status;
}

/* ---- Limits ---- */

enum fact {
    CAPABILITY_MAJOR,
    CAPABILITY_MINOR,
    PROCESSORS,
    WARP_WIDTH,
    SHARED_MEMORY_BYTES,
    REGISTERS,
    L2_BYTES,
    WORK_GROUP_SIZE,
    CLOCK_KHZ,
    MEMORY_CLOCK_KHZ,
    MEMORY_BUS_BITS,
    FACT_COUNT
};

static const struct {
    CUdevice_attribute attribute;
    const char *what;
    bool may_be_unknown; /* no plan depends on it */
} facts_asked[FACT_COUNT] = {
    [CAPABILITY_MAJOR] = {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "the compute capability", false},
    [CAPABILITY_MINOR] = {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "the compute capability", false},
    [PROCESSORS] = {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, "the multiprocessors", false},
    [WARP_WIDTH] = {CU_DEVICE_ATTRIBUTE_WARP_SIZE, "the warp width", false},
    [SHARED_MEMORY_BYTES] = {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, "the shared memory", false},
    [REGISTERS] = {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, "the registers", false},
    [L2_BYTES] = {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, "the L2 cache", false},
    [WORK_GROUP_SIZE] = {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "the work-group size", false},
    [CLOCK_KHZ] = {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, "the clock", true},
    [MEMORY_CLOCK_KHZ] = {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, "the memory's clock", true},
    [MEMORY_BUS_BITS] = {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, "the memory's bus", true},
};

static attune_status read_facts(const struct attune_cuda_api *api, CUdevice device, int facts[FACT_COUNT]) {
    for (int fact = 0; fact < FACT_COUNT; fact++) {
        const CUresult result = api->DeviceGetAttribute(&facts[fact], facts_asked[fact].attribute, device);
        if (result == CUDA_SUCCESS) {
            continue;
        }
        facts[fact] = 0;
        if (!facts_asked[fact].may_be_unknown) {
            return attune_cuda_check(api, result, facts_asked[fact].what);
        }
    }
    return ATTUNE_OK;
}

static void set_limits(struct attune_cuda_device *device, const int facts[FACT_COUNT], size_t memory_bytes) {
    attune_device_limits *limits = &device->limits;
    device->compute_capability = 10 * facts[CAPABILITY_MAJOR] + facts[CAPABILITY_MINOR];
    device->processors = facts[PROCESSORS];
    device->shared_memory_bytes = facts[SHARED_MEMORY_BYTES];

    snprintf(limits->architecture, sizeof limits->architecture, "sm_%d", device->compute_capability);
    limits->processors = facts[PROCESSORS];
    limits->warp_width = facts[WARP_WIDTH];
    limits->shared_memory_bytes = facts[SHARED_MEMORY_BYTES];
    limits->register_file_bytes = 4 * (int64_t)facts[REGISTERS];
    limits->l2_cache_bytes = facts[L2_BYTES];
    limits->work_group_size_max = facts[WORK_GROUP_SIZE];
    limits->memory_bytes = (int64_t)memory_bytes;
    limits->alignment_bytes = 256; /* CUDA C++ Programming Guide, "Size and Alignment Requirement" */
    /* 64 lanes of f32 in each multiprocessor to compute capability 8.0, 128 since 8.6 (CUDA C++ Programming Guide,
     * "Arithmetic Instructions"). */
    const double lanes = device->compute_capability <= 80 ? 64.0 : 128.0;
    limits->peak_flops = 2.0 * lanes * facts[PROCESSORS] * 1e3 * facts[CLOCK_KHZ];
    /* Double data rate: two transfers a clock. */
    limits->peak_bytes_per_second = 2.0 * 1e3 * facts[MEMORY_CLOCK_KHZ] * facts[MEMORY_BUS_BITS] / 8.0;
    attune_cuda_host->limits_override(limits);
}

/* CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization": since 9.0, and in what is captured
 * since CUDA 12.3. */
static bool launches_overlap(const struct attune_cuda_device *device, int version) {
    return device->compute_capability >= 90 && version >= 12030;
}

static attune_status read_limits(struct attune_cuda_device *device) {
    int facts[FACT_COUNT];
    int version = 0;
    size_t memory_bytes = 0;
    attune_status status = read_facts(device->api, device->device, facts);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->DriverGetVersion(&version), "cuDriverGetVersion");
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->DeviceTotalMem(&memory_bytes, device->device),
                                   "cuDeviceTotalMem");
    }
    if (status == ATTUNE_OK) {
        set_limits(device, facts, memory_bytes);
        device->launches_overlap = launches_overlap(device, version);
    }
    return status;
}

attune_status attune_cuda_device_limits(void *handle, attune_device_limits *out_limits) {
    const struct attune_cuda_device *device = handle;
    const size_t struct_size = out_limits->struct_size;
    const size_t both_have = struct_size < sizeof device->limits ? struct_size : sizeof device->limits;
    memcpy(out_limits, &device->limits, both_have);
    out_limits->struct_size = struct_size;
    return ATTUNE_OK;
}

/* ---- Opening ---- */

static void free_device(struct attune_cuda_device *device) {
    (void)pthread_mutex_destroy(&device->functions_lock);
    attune_cuda_host->free(device->functions);
    attune_cuda_host->free(device);
}

static attune_status make_device(const struct attune_cuda_api *api, CUdevice device, CUcontext context,
                                 bool owns_context, void **out_device) {
    struct attune_cuda_device *made = attune_cuda_host->alloc(sizeof *made);
    struct attune_cuda_function *functions = attune_cuda_host->alloc(ATTUNE_CUDA_ROWS * sizeof *functions);
    if (made == NULL || functions == NULL) {
        attune_cuda_host->free(functions);
        attune_cuda_host->free(made);
        return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "a device handle of %zu bytes", sizeof *made);
    }
    made->api = api;
    made->device = device;
    made->context = context;
    made->owns_context = owns_context;
    made->functions = functions;
    (void)pthread_mutex_init(&made->functions_lock, NULL);
    const attune_status status = read_limits(made);
    if (status != ATTUNE_OK) {
        free_device(made);
        return status;
    }
    *out_device = made;
    return ATTUNE_OK;
}

attune_status attune_cuda_device_open(int32_t index, void **out_device) {
    const struct attune_cuda_api *api = NULL;
    CUdevice device = 0;
    attune_status status = find_device(index, &api, &device);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUcontext context = NULL;
    status = attune_cuda_check(api, api->DevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    if (status != ATTUNE_OK) {
        return status;
    }
    status = make_device(api, device, context, true, out_device);
    if (status != ATTUNE_OK) {
        (void)api->DevicePrimaryCtxRelease(device);
    }
    return status;
}

attune_status attune_cuda_device_wrap(void *native, int32_t *out_index, void **out_device) {
    const struct attune_cuda_api *api = NULL;
    attune_status status = attune_cuda_api_open(&api);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUcontext popped = NULL;
    CUdevice device = 0;
    const CUresult pushed = api->CtxPushCurrent(native);
    status = attune_cuda_check(api, pushed, "native is not a CUcontext: cuCtxPushCurrent");
    if (status != ATTUNE_OK) {
        return pushed == CUDA_ERROR_INVALID_CONTEXT || pushed == CUDA_ERROR_INVALID_VALUE ? ATTUNE_INVALID_ARGUMENT
                                                                                          : status;
    }
    status = attune_cuda_check(api, api->CtxGetDevice(&device), "cuCtxGetDevice");
    (void)api->CtxPopCurrent(&popped);
    if (status != ATTUNE_OK) {
        return status;
    }
    *out_index = (int32_t)device; /* a CUdevice is its ordinal */
    return make_device(api, device, native, false, out_device);
}

void attune_cuda_device_close(void *handle) {
    struct attune_cuda_device *device = handle;
    if (attune_cuda_try_enter(device)) {
        attune_cuda_functions_release(device);
        attune_cuda_leave(device);
    }
    if (device->owns_context && !attune_cuda_api_is_forked(device->api)) {
        (void)device->api->DevicePrimaryCtxRelease(device->device);
    }
    free_device(device);
}
