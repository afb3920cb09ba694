/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DEFAULT_LIBRARY "libcuda.so.1"

const attune_host_services *attune_cuda_host;

/* Two threads that come first may both open the library; the second's table is freed. So no lock is held while a
 * vendor's initialisers run. The library is never closed: its threads would outlive it. */
static _Atomic(struct attune_cuda_api *) opened_api;

/* ---- Forks ---- */

/* Counts the forks between this process and the one that loaded attune. */
static atomic_uint fork_generation;

static void count_fork(void) {
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, count_fork);
}

bool attune_cuda_api_is_forked(const struct attune_cuda_api *api) {
    return atomic_load(&fork_generation) != api->fork_generation;
}

/* ---- Opening ---- */

static attune_status load_symbols(struct attune_cuda_api *api) {
    void *symbol = NULL;
    /* POSIX lets a void * from dlsym be a function pointer; ISO C only lets it be copied. */
#define CUDA_FUNCTION(name, symbol_name, arguments)                                                                    \
    symbol = dlsym(api->library, symbol_name);                                                                         \
    if (symbol == NULL) {                                                                                              \
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s has no %s: the driver is too old, or a stub", api->path, \
                                      symbol_name);                                                                    \
    }                                                                                                                  \
    memcpy(&api->name, &symbol, sizeof symbol);
#include "backends/cuda/cuda_api.def"
#undef CUDA_FUNCTION
    return ATTUNE_OK;
}

static attune_status open_library(struct attune_cuda_api *api) {
    const char *configured = attune_cuda_host->config_get("ATTUNE_CUDA_LIBRARY");
    api->path = configured[0] != '\0' ? configured : DEFAULT_LIBRARY;
    api->library = dlopen(api->path, RTLD_NOW | RTLD_LOCAL);
    if (api->library == NULL) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s", dlerror());
    }
    const attune_status status = load_symbols(api);
    if (status != ATTUNE_OK) {
        return status;
    }
    const CUresult result = api->Init(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s is there, but there is no device (cuInit)", api->path);
    }
    return attune_cuda_check(api, result, "cuInit") == ATTUNE_OK ? ATTUNE_OK : ATTUNE_UNAVAILABLE;
}

static attune_status make_api(struct attune_cuda_api **out_api) {
    static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&forks_watched, watch_forks);
    struct attune_cuda_api *api = attune_cuda_host->alloc(sizeof *api);
    if (api == NULL) {
        return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "the driver's function table, %zu bytes", sizeof *api);
    }
    api->fork_generation = atomic_load(&fork_generation);
    const attune_status status = open_library(api);
    if (status != ATTUNE_OK) {
        attune_cuda_host->free(api);
        return status;
    }
    *out_api = api;
    return ATTUNE_OK;
}

attune_status attune_cuda_api_open(const struct attune_cuda_api **out_api) {
    struct attune_cuda_api *api = atomic_load(&opened_api);
    if (api == NULL) {
        struct attune_cuda_api *made = NULL;
        const attune_status status = make_api(&made);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (atomic_compare_exchange_strong(&opened_api, &api, made)) {
            api = made;
        } else {
            attune_cuda_host->free(made);
        }
    }
    if (attune_cuda_api_is_forked(api)) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "this process is a fork of one that had initialised CUDA");
    }
    *out_api = api;
    return ATTUNE_OK;
}

/* ---- What the driver says ---- */

static attune_status status_of(CUresult result) {
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return ATTUNE_OUT_OF_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return ATTUNE_UNAVAILABLE;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        return ATTUNE_UNSUPPORTED;
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
        return ATTUNE_DEVICE_LOST;
    default:
        return ATTUNE_INTERNAL;
    }
}

attune_status attune_cuda_check(const struct attune_cuda_api *api, CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) {
        return ATTUNE_OK;
    }
    const char *name = NULL;
    const char *text = NULL;
    if (api->GetErrorName(result, &name) != CUDA_SUCCESS || api->GetErrorString(result, &text) != CUDA_SUCCESS) {
        return attune_cuda_host->fail(status_of(result), "%s: error %d", what, (int)result);
    }
    return attune_cuda_host->fail(status_of(result), "%s: %s (%s)", what, name, text);
}
