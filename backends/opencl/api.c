/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/opencl/api.h"

#include "backends/driver_open.h"

/* Of cl_khr_icd and of NVIDIA's driver; the headers here do not name the latter. */
#define PLATFORM_NOT_FOUND  (-1001)
#define NVIDIA_BAD_ACCESS   (-9999)
#define NVIDIA_BROKEN_QUEUE CL_INVALID_COMMAND_QUEUE

const attune_host_services *attune_opencl_host;

static _Atomic(struct attune_driver_table *) opened;

static const struct attune_driver_function functions[] = {
#define CL_FUNCTION(result, name, arguments)     {"cl" #name, offsetof(struct attune_opencl_api, name), false},
#define CL_FUNCTION_2_0(result, name, arguments) {"cl" #name, offsetof(struct attune_opencl_api, name), true},
#include "backends/opencl/cl_api.def"
#undef CL_FUNCTION
#undef CL_FUNCTION_2_0
};

static const struct attune_driver driver = {
#define ATTUNE_DRIVER ATTUNE_DRIVER_LIBRARIES
#include "backends/opencl/driver.def"
#undef ATTUNE_DRIVER
    .functions = functions,
    .function_count = sizeof functions / sizeof functions[0],
    .table_bytes = sizeof(struct attune_opencl_api),
    .older = "it is older than OpenCL 1.2",
    .opened = "opened OpenCL",
};

attune_status attune_opencl_api_open(const struct attune_opencl_api **out_api) {
    const struct attune_driver_table *table = NULL;
    const attune_status status = attune_driver_open(&driver, attune_opencl_host, &opened, &table);
    if (status == ATTUNE_OK) {
        *out_api = (const struct attune_opencl_api *)table;
    }
    return status;
}

bool attune_opencl_api_is_forked(const struct attune_opencl_api *api) {
    return attune_driver_is_forked(&api->driver);
}

/* ---- What the driver says ---- */

static const struct {
    cl_int result;
    attune_status status;
    const char *name;
} results[] = {
    {CL_DEVICE_NOT_FOUND, ATTUNE_UNAVAILABLE, "CL_DEVICE_NOT_FOUND"},
    {CL_DEVICE_NOT_AVAILABLE, ATTUNE_UNAVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, ATTUNE_UNAVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {PLATFORM_NOT_FOUND, ATTUNE_UNAVAILABLE, "CL_PLATFORM_NOT_FOUND_KHR"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, ATTUNE_OUT_OF_MEMORY, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, ATTUNE_OUT_OF_MEMORY, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, ATTUNE_OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_INVALID_BUFFER_SIZE, ATTUNE_OUT_OF_MEMORY, "CL_INVALID_BUFFER_SIZE"},
    {CL_BUILD_PROGRAM_FAILURE, ATTUNE_UNSUPPORTED, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_INVALID_BINARY, ATTUNE_UNSUPPORTED, "CL_INVALID_BINARY"},
    {CL_INVALID_BUILD_OPTIONS, ATTUNE_UNSUPPORTED, "CL_INVALID_BUILD_OPTIONS"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, ATTUNE_DEVICE_LOST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {NVIDIA_BROKEN_QUEUE, ATTUNE_DEVICE_LOST, "CL_INVALID_COMMAND_QUEUE"},
    {NVIDIA_BAD_ACCESS, ATTUNE_DEVICE_LOST, "a kernel read or wrote where no memory is"},
    {CL_MEM_COPY_OVERLAP, ATTUNE_INVALID_ARGUMENT, "CL_MEM_COPY_OVERLAP"},
    {CL_INVALID_OPERATION, ATTUNE_INVALID_ARGUMENT,
     "CL_INVALID_OPERATION, as for a cl_mem that the host has no access to"},
    {CL_INVALID_VALUE, ATTUNE_INTERNAL, "CL_INVALID_VALUE"},
    {CL_INVALID_CONTEXT, ATTUNE_INTERNAL, "CL_INVALID_CONTEXT"},
    {CL_INVALID_DEVICE, ATTUNE_INTERNAL, "CL_INVALID_DEVICE"},
    {CL_INVALID_MEM_OBJECT, ATTUNE_INTERNAL, "CL_INVALID_MEM_OBJECT"},
    {CL_INVALID_KERNEL_NAME, ATTUNE_INTERNAL, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_KERNEL_ARGS, ATTUNE_INTERNAL, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_ARG_SIZE, ATTUNE_INTERNAL, "CL_INVALID_ARG_SIZE"},
    {CL_INVALID_WORK_GROUP_SIZE, ATTUNE_INTERNAL, "CL_INVALID_WORK_GROUP_SIZE"},
    {CL_PROFILING_INFO_NOT_AVAILABLE, ATTUNE_UNSUPPORTED, "CL_PROFILING_INFO_NOT_AVAILABLE"},
};

attune_status attune_opencl_check(cl_int result, const char *what) {
    if (result == CL_SUCCESS) {
        return ATTUNE_OK;
    }
    for (size_t index = 0; index < sizeof results / sizeof results[0]; index++) {
        if (results[index].result == result) {
            return attune_opencl_host->fail(results[index].status, "%s: %s (%d)", what, results[index].name,
                                            (int)result);
        }
    }
    return attune_opencl_host->fail(ATTUNE_INTERNAL, "%s: error %d", what, (int)result);
}
