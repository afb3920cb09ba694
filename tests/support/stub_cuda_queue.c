/*
 * The stub's streams and events, modules and launches: everything is done at once, and kernels compute nothing unless
 * stub_kernel_run is set.
 *
 * STUB_CUDA_OLD leaves a symbol out, as an older driver does.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/stub_cuda_internal.h"

#define FAT_BINARY_MAGIC 0xBA55ED50u

struct CUevent_st {
    CUcontext context;
    int64_t recorded_at; /* 0: never */
};

struct CUfunc_st {
    CUcontext context;
    char name[64];
    int shared_bytes_max; /* dynamic */
};

#define MODULE_FUNCTIONS_MAX 4

struct CUmod_st {
    struct CUfunc_st functions[MODULE_FUNCTIONS_MAX];
    int function_count;
};

void (*stub_kernel_run)(const char *kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void *parameters);

static int64_t clock_ticks;
static pthread_mutex_t kernel_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Streams and events ---- */

CUstream stub_stream_create(CUcontext context) {
    CUstream made = stub_handle_add(sizeof *made, &stub_cuda.live.streams);
    made->context = context;
    return made;
}

void stub_stream_destroy(CUstream stream) {
    (void)stub_handle_remove(stream, &stub_cuda.live.streams);
}

static bool is_default(CUstream stream) {
    return stream == NULL || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

bool stub_stream_fits(CUstream stream) {
    return is_default(stream) || (stub_handle_is_alive(stream) && stream->context == stub_current());
}

static bool event_fits(CUevent event) {
    return stub_handle_is_alive(event) && event->context == stub_current();
}

STUB_EXPORT CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
    (void)flags;
    STUB_BEGIN("cuStreamCreate");
    STUB_REQUIRE_CONTEXT();
    *stream = stub_stream_create(stub_current());
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
    const CUresult result = stub_count_call("cuStreamDestroy");
    STUB_REQUIRE(stub_stream_fits(stream) && stub_handle_remove(stream, &stub_cuda.live.streams),
                 CUDA_ERROR_INVALID_HANDLE);
    return result;
}

STUB_EXPORT CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
    STUB_BEGIN("cuStreamSynchronize");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(stub_stream_fits(stream), CUDA_ERROR_INVALID_HANDLE);
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *context) {
    STUB_BEGIN("cuStreamGetCtx");
    STUB_REQUIRE(is_default(stream) || stub_handle_is_alive(stream), CUDA_ERROR_INVALID_HANDLE);
    *context = is_default(stream) ? stub_current() : stream->context;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    STUB_BEGIN("cuStreamIsCapturing");
    STUB_REQUIRE(stub_stream_fits(stream), CUDA_ERROR_INVALID_HANDLE);
    *status = stub_cuda.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    STUB_BEGIN("cuStreamWaitEvent");
    STUB_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
    STUB_REQUIRE(stub_stream_fits(stream) && stub_handle_is_alive(event), CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
    (void)flags;
    STUB_BEGIN("cuEventCreate");
    STUB_REQUIRE_CONTEXT();
    CUevent made = stub_handle_add(sizeof *made, &stub_cuda.live.events);
    made->context = stub_current();
    *event = made;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuEventDestroy(CUevent event) {
    const CUresult result = stub_count_call("cuEventDestroy");
    STUB_REQUIRE(stub_handle_remove(event, &stub_cuda.live.events), CUDA_ERROR_INVALID_HANDLE);
    return result;
}

STUB_EXPORT CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
    STUB_BEGIN("cuEventRecord");
    STUB_REQUIRE(stub_stream_fits(stream) && event_fits(event), CUDA_ERROR_INVALID_HANDLE);
    pthread_mutex_lock(&stub_lock);
    event->recorded_at = ++clock_ticks;
    pthread_mutex_unlock(&stub_lock);
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuEventSynchronize(CUevent event) {
    STUB_BEGIN("cuEventSynchronize");
    STUB_REQUIRE(event_fits(event), CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
}

/* cuda.h has meant its second form since 13.0; the backend asks for the first. */
#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);

STUB_EXPORT CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    STUB_BEGIN("cuEventElapsedTime");
    STUB_REQUIRE(event_fits(start) && event_fits(end), CUDA_ERROR_INVALID_HANDLE);
    *milliseconds = (float)(end->recorded_at - start->recorded_at);
    return CUDA_SUCCESS;
}

/* ---- Modules and launches ---- */

STUB_EXPORT CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
    unsigned magic = 0;
    STUB_BEGIN("cuModuleLoadData");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    memcpy(&magic, image, sizeof magic);
    STUB_REQUIRE(magic == FAT_BINARY_MAGIC, CUDA_ERROR_INVALID_IMAGE);
    CUmodule made = stub_handle_add(sizeof *made, &stub_cuda.live.modules);
    stub_cuda.modules_loaded++;
    *module = made;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuModuleUnload(CUmodule module) {
    const CUresult result = stub_count_call("cuModuleUnload");
    STUB_REQUIRE(stub_handle_remove(module, &stub_cuda.live.modules), CUDA_ERROR_INVALID_HANDLE);
    return result;
}

STUB_EXPORT CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    STUB_BEGIN("cuModuleGetFunction");
    STUB_REQUIRE(stub_handle_is_alive(module), CUDA_ERROR_INVALID_HANDLE);
    STUB_REQUIRE(strncmp(name, "attune_", strlen("attune_")) == 0, CUDA_ERROR_NOT_FOUND);
    STUB_REQUIRE(module->function_count < MODULE_FUNCTIONS_MAX, CUDA_ERROR_NOT_FOUND);
    struct CUfunc_st *made = &module->functions[module->function_count++];
    *made = (struct CUfunc_st){stub_current(), "", STUB_SHARED_BYTES_DEFAULT};
    snprintf(made->name, sizeof made->name, "%s", name);
    *function = made;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    (void)attribute;
    STUB_BEGIN("cuFuncGetAttribute");
    STUB_REQUIRE(function->context == stub_current(), CUDA_ERROR_INVALID_HANDLE);
    *value = 0;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    STUB_BEGIN("cuFuncSetAttribute");
    STUB_REQUIRE(function->context == stub_current(), CUDA_ERROR_INVALID_HANDLE);
    STUB_REQUIRE(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES && value <= STUB_SHARED_BYTES_MAX,
                 CUDA_ERROR_INVALID_VALUE);
    function->shared_bytes_max = value;
    stub_cuda.shared_raised++;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **parameters,
                                              void **extra) {
    STUB_BEGIN("cuLaunchKernelEx");
    STUB_REQUIRE(function->context == stub_current() && stub_stream_fits(config->hStream), CUDA_ERROR_INVALID_HANDLE);
    STUB_REQUIRE(config->gridDimX > 0 && config->gridDimY == 1 && config->gridDimZ == 1 && config->blockDimY == 1 &&
                     config->blockDimZ == 1,
                 CUDA_ERROR_INVALID_VALUE);
    STUB_REQUIRE((int)config->sharedMemBytes <= function->shared_bytes_max, CUDA_ERROR_INVALID_VALUE);
    STUB_REQUIRE(parameters != NULL && parameters[0] != NULL && extra == NULL, CUDA_ERROR_INVALID_VALUE);
    pthread_mutex_lock(&stub_lock);
    stub_cuda.launches++;
    stub_cuda.last_launch = (struct stub_cuda_launch){function->context->device, config->hStream, config->gridDimX,
                                                      config->blockDimX, config->sharedMemBytes};
    pthread_mutex_unlock(&stub_lock);
    if (stub_kernel_run != NULL) {
        pthread_mutex_lock(&kernel_lock);
        stub_kernel_run(function->name, config->gridDimX, config->blockDimX, config->sharedMemBytes, parameters[0]);
        pthread_mutex_unlock(&kernel_lock);
    }
    return CUDA_SUCCESS;
}

#if !defined(STUB_CUDA_OLD)
STUB_EXPORT CUresult CUDAAPI cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
                                                    void *address, const cuuint64_t *shape,
                                                    const cuuint64_t *stride_bytes, const cuuint32_t *box,
                                                    const cuuint32_t *element_stride, CUtensorMapInterleave interleave,
                                                    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                                    CUtensorMapFloatOOBfill fill) {
    (void)type;
    (void)shape;
    (void)stride_bytes;
    (void)box;
    (void)element_stride;
    (void)interleave;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    STUB_BEGIN("cuTensorMapEncodeTiled");
    STUB_REQUIRE(rank >= 1 && rank <= 5 && (uintptr_t)address % 16 == 0, CUDA_ERROR_INVALID_VALUE);
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}
#endif
