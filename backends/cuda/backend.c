/*
 * NVIDIA devices, through the CUDA driver API.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"

static const attune_backend backend = {
#define ATTUNE_DRIVER ATTUNE_DRIVER_BACKEND_HEADER
#include "backends/cuda/driver.def"
#undef ATTUNE_DRIVER

    .enumerate = attune_cuda_enumerate,
    .device_open = attune_cuda_device_open,
    .device_wrap = attune_cuda_device_wrap,
    .device_close = attune_cuda_device_close,
    .device_limits = attune_cuda_device_limits,

    .memory_alloc = attune_cuda_memory_alloc,
    .memory_free = attune_cuda_memory_free,
    .memory_copy = attune_cuda_memory_copy,
    .memory_copy_peer = attune_cuda_memory_copy_peer,
    .memory_fill = attune_cuda_memory_fill,
    .memory_range = attune_cuda_memory_range,

    .stream_open = attune_cuda_stream_open,
    .stream_wrap = attune_cuda_stream_wrap,
    .stream_close = attune_cuda_stream_close,
    .stream_sync = attune_cuda_stream_sync,
    .stream_capturing = attune_cuda_stream_capturing,

    .event_open = attune_cuda_event_open,
    .event_close = attune_cuda_event_close,
    .event_record = attune_cuda_event_record,
    .event_wait = attune_cuda_event_wait,
    .event_elapsed = attune_cuda_event_elapsed,

    .kernels = attune_cuda_kernels,
    .row_runnable = attune_cuda_row_runnable,
    .row_accepts = attune_cuda_row_accepts,
    .row_splits = attune_cuda_row_splits,
    .workspace_bytes = attune_cuda_workspace_bytes,
    .plan_build = attune_cuda_plan_build,
    .plan_release = attune_cuda_plan_release,
    .execute = attune_cuda_execute,
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    attune_cuda_host = host;
    return attune_host_fits(host, host_abi_major) ? &backend : NULL;
}
