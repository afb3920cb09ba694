/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/kernel.h"

/* Counts the forks between this process and the one that loaded attune. */
static atomic_uint fork_generation;

static void count_fork(void) {
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, count_fork);
}

attune_status attune_cuda_enter(const struct attune_cuda_device *device) {
    if (atomic_load(&fork_generation) != device->fork_generation) {
        return attune_cuda_host->fail(ATTUNE_DEVICE_LOST, "this process is a fork of the one that opened the device");
    }
    return attune_cuda_check(device->api, device->api->CtxPushCurrent(device->context), "cuCtxPushCurrent");
}

void attune_cuda_leave(const struct attune_cuda_device *device) {
    CUcontext popped = NULL;
    (void)device->api->CtxPopCurrent(&popped);
}

static int attribute(const struct attune_cuda_api *api, CUdevice device, CUdevice_attribute which) {
    int value = 0;
    return api->DeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

static int compute_capability(const struct attune_cuda_api *api, CUdevice device) {
    return 10 * attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
           attribute(api, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
}

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
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s is there, but it sees no device", api->path);
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
    const attune_status status = find_device(index, &api, &device);
    if (status != ATTUNE_OK) {
        return status;
    }
    int version = 0;
    size_t bytes = 0;
    (void)api->DriverGetVersion(&version);
    (void)api->DeviceTotalMem(&bytes, device);
    out_info->memory_bytes = bytes;
    snprintf(out_info->driver, sizeof out_info->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return attune_cuda_check(api, api->DeviceGetName(out_info->name, (int)sizeof out_info->name, device),
                             "cuDeviceGetName");
}

static attune_status make_device(const struct attune_cuda_api *api, CUdevice device, CUcontext context,
                                 bool owns_context, void **out_device) {
    static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&forks_watched, watch_forks);
    struct attune_cuda_device *made = attune_cuda_host->alloc(sizeof *made);
    struct attune_cuda_function *functions = attune_cuda_host->alloc(ATTUNE_CUDA_ROWS * sizeof *functions);
    if (made == NULL || functions == NULL) {
        attune_cuda_host->free(functions);
        attune_cuda_host->free(made);
        return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "a device handle");
    }
    made->api = api;
    made->device = device;
    made->context = context;
    made->owns_context = owns_context;
    made->fork_generation = atomic_load(&fork_generation);
    made->compute_capability = compute_capability(api, device);
    made->shared_memory_bytes = attribute(api, device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    made->functions = functions;
    (void)pthread_mutex_init(&made->functions_lock, NULL);
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
    status = attune_cuda_check(api, api->CtxPushCurrent(native), "native is not a CUcontext: cuCtxPushCurrent");
    if (status != ATTUNE_OK) {
        return ATTUNE_INVALID_ARGUMENT;
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
    if (attune_cuda_enter(device) == ATTUNE_OK) {
        attune_cuda_functions_release(device);
        attune_cuda_leave(device);
        if (device->owns_context) {
            (void)device->api->DevicePrimaryCtxRelease(device->device);
        }
    }
    (void)pthread_mutex_destroy(&device->functions_lock);
    attune_cuda_host->free(device->functions);
    attune_cuda_host->free(device);
}

attune_status attune_cuda_device_limits(void *handle, attune_device_limits *out_limits) {
    const struct attune_cuda_device *device = handle;
    const struct attune_cuda_api *api = device->api;
    const CUdevice id = device->device;
    snprintf(out_limits->architecture, sizeof out_limits->architecture, "sm_%d", device->compute_capability);
    out_limits->processors = attribute(api, id, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out_limits->warp_width = attribute(api, id, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    out_limits->shared_memory_bytes = device->shared_memory_bytes;
    out_limits->register_file_bytes =
        4 * (int64_t)attribute(api, id, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    out_limits->l2_cache_bytes = attribute(api, id, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    out_limits->work_group_size_max = attribute(api, id, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    out_limits->alignment_bytes = 256;
    size_t bytes = 0;
    (void)api->DeviceTotalMem(&bytes, id);
    out_limits->memory_bytes = (int64_t)bytes;
    /* 128 lanes of f32 in each multiprocessor since compute capability 8.6 and in 9.x; 64 in 8.0 (CUDA C++ Programming
     * Guide, "Arithmetic Instructions"). */
    const double lanes = device->compute_capability == 80 ? 64.0 : 128.0;
    out_limits->peak_flops =
        2.0 * lanes * out_limits->processors * 1e3 * attribute(api, id, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    /* Double data rate: two transfers a clock. */
    out_limits->peak_bytes_per_second = 2.0 * 1e3 * attribute(api, id, CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                                        attribute(api, id, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
    return ATTUNE_OK;
}
