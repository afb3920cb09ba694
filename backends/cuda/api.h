/*
 * The CUDA driver, opened at run time. Nothing here or elsewhere links it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_API_H
#define ATTUNE_CUDA_API_H

#include <cuda.h>

#include "backends/driver.h"

struct attune_cuda_api {
    struct attune_driver_table driver;
#define CUDA_FUNCTION(name, symbol, arguments) CUresult(CUDAAPI *name) arguments;
#include "backends/cuda/cuda_api.def"
#undef CUDA_FUNCTION
};

/* Services of the host that queried the backend first; the same for all queries of a process. */
extern const attune_host_services *attune_cuda_host;

/* Opens the driver and initialises it, the first time; the same driver from then on. UNAVAILABLE names the library or
 * the symbol that is missing, or what cuInit said; a failure is tried again at the next call. UNAVAILABLE, too, in a
 * fork of the process that opened it. */
attune_status attune_cuda_api_open(const struct attune_cuda_api **out_api);

/* Whether this process is a fork of the one that opened the driver, which then answers no call. */
bool attune_cuda_api_is_forked(const struct attune_cuda_api *api);

/* ATTUNE_OK for CUDA_SUCCESS; otherwise fails with the status that the driver's error means, and a sentence that begins
 * with what was tried. */
attune_status attune_cuda_check(const struct attune_cuda_api *api, CUresult result, const char *what);

#endif
