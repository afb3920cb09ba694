/*
 * A CUDA driver without a device, for machines without one: device memory is host memory behind addresses that point
 * nowhere, streams run at once, and kernels compute nothing. It is strict where the driver is: contexts, handles and
 * limits must be right. Any of its calls can be made to fail; see stub_cuda.h. This file: calls, devices, contexts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/stub_cuda_internal.h"

#define DEPTH_MAX 16

struct entry {
    struct entry *next;
    void *handle;
};

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *handles;
static struct CUctx_st primary[STUB_CUDA_DEVICES_MAX] = {{0}, {1}, {2}, {3}};

static _Thread_local CUcontext stack[DEPTH_MAX];
static _Thread_local int stack_depth;

/* ---- Calls ---- */

CUresult stub_count_call(const char *function) {
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&stub_lock);
    stub_cuda.calls++;
    const bool is_named = stub_cuda.fail_function != NULL && strcmp(stub_cuda.fail_function, function) == 0;
    if (stub_cuda.calls == stub_cuda.fail_at || is_named) {
        stub_cuda.failed = function;
        result = stub_cuda.fail_with;
    }
    pthread_mutex_unlock(&stub_lock);
    return result;
}

bool stub_breaks_capture(void) {
    stub_cuda.capture_broken = stub_cuda.capture_broken || stub_cuda.capturing;
    return stub_cuda.capturing;
}

/* ---- Handles ---- */

void *stub_handle_add(size_t bytes, int *count) {
    void *made = calloc(1, bytes);
    struct entry *entry = malloc(sizeof *entry);
    pthread_mutex_lock(&stub_lock);
    *entry = (struct entry){handles, made};
    handles = entry;
    *count += 1;
    pthread_mutex_unlock(&stub_lock);
    return made;
}

bool stub_handle_is_alive(const void *handle) {
    pthread_mutex_lock(&stub_lock);
    const struct entry *entry = handles;
    while (entry != NULL && entry->handle != handle) {
        entry = entry->next;
    }
    pthread_mutex_unlock(&stub_lock);
    return entry != NULL;
}

bool stub_handle_remove(void *handle, int *count) {
    pthread_mutex_lock(&stub_lock);
    struct entry **link = &handles;
    while (*link != NULL && (*link)->handle != handle) {
        link = &(*link)->next;
    }
    struct entry *entry = *link;
    if (entry != NULL) {
        *link = entry->next;
        *count -= 1;
        free(handle);
    }
    pthread_mutex_unlock(&stub_lock);
    free(entry);
    return entry != NULL;
}

/* ---- The test's own calls ---- */

CUcontext stub_current(void) {
    return stack_depth == 0 ? NULL : stack[stack_depth - 1];
}

static int depth(void) {
    return stack_depth;
}

static void make_current(CUcontext context) {
    stack[0] = context;
    stack_depth = context != NULL;
}

static CUcontext context_create(int device) {
    CUcontext made = malloc(sizeof *made);
    made->device = device;
    return made;
}

static void context_destroy(CUcontext context) {
    free(context);
}

static CUcontext context_primary(int device) {
    return &primary[device];
}

static void forget_all(void) {
    while (handles != NULL) {
        struct entry *entry = handles;
        handles = entry->next;
        free(entry->handle);
        free(entry);
    }
    stub_memory_forget_all();
    stub_cuda.live = (struct stub_cuda_live){0};
}

struct stub_cuda stub_cuda = {
    .devices = 2,
    .compute_capability = 90,
    .fail_with = CUDA_ERROR_INVALID_VALUE,
    .context_primary = context_primary,
    .context_create = context_create,
    .context_destroy = context_destroy,
    .stream_create = stub_stream_create,
    .stream_destroy = stub_stream_destroy,
    .make_current = make_current,
    .current = stub_current,
    .depth = depth,
    .forget_all = forget_all,
};

/* ---- The driver ---- */

STUB_EXPORT CUresult CUDAAPI cuInit(unsigned int flags) {
    STUB_BEGIN("cuInit");
    STUB_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
    return stub_cuda.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

STUB_EXPORT CUresult CUDAAPI cuDriverGetVersion(int *version) {
    STUB_BEGIN("cuDriverGetVersion");
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name) {
    static _Thread_local char text[32];
    STUB_BEGIN("cuGetErrorName");
    snprintf(text, sizeof text, "STUB_ERROR_%d", (int)error);
    *name = text;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text) {
    (void)error;
    STUB_BEGIN("cuGetErrorString");
    *text = "made to fail";
    return CUDA_SUCCESS;
}

/* ---- Devices and contexts ---- */

static bool is_device(CUdevice device) {
    return device >= 0 && device < stub_cuda.devices;
}

STUB_EXPORT CUresult CUDAAPI cuDeviceGetCount(int *count) {
    STUB_BEGIN("cuDeviceGetCount");
    *count = stub_cuda.devices;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    STUB_BEGIN("cuDeviceGet");
    STUB_REQUIRE(is_device(ordinal), CUDA_ERROR_INVALID_DEVICE);
    *device = ordinal;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDeviceGetName(char *name, int length, CUdevice device) {
    STUB_BEGIN("cuDeviceGetName");
    snprintf(name, (size_t)length, "Stub %d", device);
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    STUB_BEGIN("cuDeviceTotalMem");
    STUB_REQUIRE(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    *bytes = STUB_MEMORY_BYTES;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    STUB_BEGIN("cuDeviceGetAttribute");
    STUB_REQUIRE(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = stub_cuda.compute_capability / 10;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = stub_cuda.compute_capability % 10;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = 4;
        break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        *value = 32;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *value = STUB_SHARED_BYTES_MAX;
        break;
    default:
        *value = 1 << 20;
    }
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    STUB_BEGIN("cuDevicePrimaryCtxRetain");
    STUB_REQUIRE(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    pthread_mutex_lock(&stub_lock);
    stub_cuda.live.retained++;
    pthread_mutex_unlock(&stub_lock);
    *context = &primary[device];
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
    const CUresult result = stub_count_call("cuDevicePrimaryCtxRelease");
    STUB_REQUIRE(is_device(device), CUDA_ERROR_INVALID_DEVICE);
    pthread_mutex_lock(&stub_lock);
    stub_cuda.live.retained--;
    pthread_mutex_unlock(&stub_lock);
    return result;
}

static CUresult push(CUcontext context) {
    STUB_REQUIRE(context != NULL && stack_depth < DEPTH_MAX, CUDA_ERROR_INVALID_CONTEXT);
    stack[stack_depth++] = context;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
    STUB_BEGIN("cuCtxPushCurrent");
    return push(context);
}

STUB_EXPORT CUresult CUDAAPI cuCtxPopCurrent(CUcontext *context) {
    const CUresult result = stub_count_call("cuCtxPopCurrent");
    STUB_REQUIRE(stack_depth > 0, CUDA_ERROR_INVALID_CONTEXT);
    *context = stack[--stack_depth];
    return result;
}

STUB_EXPORT CUresult CUDAAPI cuCtxGetDevice(CUdevice *device) {
    STUB_BEGIN("cuCtxGetDevice");
    STUB_REQUIRE_CONTEXT();
    *device = stub_current()->device;
    return CUDA_SUCCESS;
}
