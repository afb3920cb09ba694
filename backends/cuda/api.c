/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/api.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#define DEFAULT_LIBRARY "libcuda.so.1"

const attune_host_services *attune_cuda_host;

/* Two threads that come first may both open the library; the driver counts references, and the second's table is freed.
 * So no lock is held while a vendor's initialisers run. */
static _Atomic(struct attune_cuda_api *) opened_api;

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
    attune_status status = load_symbols(api);
    if (status != ATTUNE_OK) {
        return status;
    }
    const CUresult result = api->Init(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s is there, but there is no device (cuInit)", api->path);
    }
    status = attune_cuda_check(api, result, "cuInit");
    return status == ATTUNE_OK ? ATTUNE_OK : ATTUNE_UNAVAILABLE;
}

attune_status attune_cuda_api_open(const struct attune_cuda_api **out_api) {
    struct attune_cuda_api *api = atomic_load(&opened_api);
    if (api == NULL) {
        api = attune_cuda_host->alloc(sizeof *api);
        if (api == NULL) {
            return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "the driver's function table, %zu bytes", sizeof *api);
        }
        const attune_status status = open_library(api);
        if (status != ATTUNE_OK) {
            if (api->library != NULL) {
                dlclose(api->library);
            }
            attune_cuda_host->free(api);
            return status;
        }
        struct attune_cuda_api *expected = NULL;
        if (!atomic_compare_exchange_strong(&opened_api, &expected, api)) {
            dlclose(api->library);
            attune_cuda_host->free(api);
            api = expected;
        }
    }
    *out_api = api;
    return ATTUNE_OK;
}

static attune_status status_of(CUresult result) {
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return ATTUNE_OUT_OF_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
        return ATTUNE_UNAVAILABLE;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
        return ATTUNE_UNSUPPORTED;
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
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
