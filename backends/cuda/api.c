/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/api.h"

#include "backends/driver_open.h"

const attune_host_services *attune_cuda_host;

static _Atomic(struct attune_driver_table *) opened;

static const struct attune_driver_function functions[] = {
#define CUDA_FUNCTION(name, symbol, arguments) {symbol, offsetof(struct attune_cuda_api, name), false},
#include "backends/cuda/cuda_api.def"
#undef CUDA_FUNCTION
};

static attune_status initialise(struct attune_driver_table *table) {
    const struct attune_cuda_api *api = (const struct attune_cuda_api *)table;
    const CUresult result = api->Init(0);
    if (result == CUDA_ERROR_NO_DEVICE) {
        return attune_cuda_host->fail(ATTUNE_UNAVAILABLE, "%s is there, but there is no device (cuInit)", table->path);
    }
    return attune_cuda_check(api, result, "cuInit") == ATTUNE_OK ? ATTUNE_OK : ATTUNE_UNAVAILABLE;
}

static const struct attune_driver driver = {
#define ATTUNE_DRIVER ATTUNE_DRIVER_LIBRARIES
#include "backends/cuda/driver.def"
#undef ATTUNE_DRIVER
    .functions = functions,
    .function_count = sizeof functions / sizeof functions[0],
    .table_bytes = sizeof(struct attune_cuda_api),
    .start = initialise,
    .older = "the driver is too old, or a stub",
    .opened = "initialised CUDA",
};

attune_status attune_cuda_api_open(const struct attune_cuda_api **out_api) {
    const struct attune_driver_table *table = NULL;
    const attune_status status = attune_driver_open(&driver, attune_cuda_host, &opened, &table);
    if (status == ATTUNE_OK) {
        *out_api = (const struct attune_cuda_api *)table;
    }
    return status;
}

bool attune_cuda_api_is_forked(const struct attune_cuda_api *api) {
    return attune_driver_is_forked(&api->driver);
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
