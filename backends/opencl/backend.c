/*
 * Any device, through OpenCL 1.2 and later.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/opencl/kernel.h"

static const attune_backend backend = {
#define ATTUNE_DRIVER ATTUNE_DRIVER_BACKEND_HEADER
#include "backends/opencl/driver.def"
#undef ATTUNE_DRIVER

    .enumerate = attune_opencl_enumerate,
    .device_open = attune_opencl_device_open,
    .device_wrap = attune_opencl_device_wrap,
    .device_close = attune_opencl_device_close,
    .device_limits = attune_opencl_device_limits,

    .memory_alloc = attune_opencl_memory_alloc,
    .memory_free = attune_opencl_memory_free,
    .memory_copy = attune_opencl_memory_copy,
    .memory_fill = attune_opencl_memory_fill,
    .memory_range = attune_opencl_memory_range,

    .stream_open = attune_opencl_stream_open,
    .stream_wrap = attune_opencl_stream_wrap,
    .stream_close = attune_opencl_stream_close,
    .stream_sync = attune_opencl_stream_sync,

    .event_open = attune_opencl_event_open,
    .event_close = attune_opencl_event_close,
    .event_record = attune_opencl_event_record,
    .event_wait = attune_opencl_event_wait,
    .event_elapsed = attune_opencl_event_elapsed,

    .kernels = attune_opencl_kernels,
    .row_runnable = attune_opencl_row_runnable,
    .row_accepts = attune_opencl_row_accepts,
    .workspace_bytes = attune_opencl_workspace_bytes,
    .plan_build = attune_opencl_plan_build,
    .plan_release = attune_opencl_plan_release,
    .execute = attune_opencl_execute,
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    attune_opencl_host = host;
    return attune_host_fits(host, host_abi_major) ? &backend : NULL;
}
