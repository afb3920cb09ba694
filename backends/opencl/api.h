/*
 * OpenCL, opened at run time. Nothing here or elsewhere links it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_API_H
#define ATTUNE_OPENCL_API_H

/* What every implementation since 1.2 has, and the shared memory of 2.0 where it is there. */
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "backends/driver.h"

struct attune_opencl_api {
    struct attune_driver_table driver;
#define CL_FUNCTION(result, name, arguments) result(CL_API_CALL *name) arguments;
#define CL_FUNCTION_2_0                      CL_FUNCTION
#include "backends/opencl/cl_api.def"
#undef CL_FUNCTION
#undef CL_FUNCTION_2_0
};

/* Services of the host that queried the backend first; the same for all queries of a process. */
extern const attune_host_services *attune_opencl_host;

/* Opens the library, the first time; the same one from then on. UNAVAILABLE names the library or the symbol that is
 * missing; a failure is tried again at the next call. UNAVAILABLE, too, in a fork of the process that opened it. */
attune_status attune_opencl_api_open(const struct attune_opencl_api **out_api);

/* Whether this process is a fork of the one that opened the library, which then answers no call. */
bool attune_opencl_api_is_forked(const struct attune_opencl_api *api);

/* ATTUNE_OK for CL_SUCCESS; otherwise fails with the status that the error means, and a sentence that begins with what
 * was tried. */
attune_status attune_opencl_check(cl_int result, const char *what);

#endif
