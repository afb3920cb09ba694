/*
 * The opaque backend's table.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/opaque.h"

#include "attune/backend_util.h"

const attune_host_services *opaque_host;

static const attune_backend backend = {
    ATTUNE_BACKEND_HEADER("opaque", "the CPU's reference behind handles and queues: for tests", -1),
    .enumerate = opaque_enumerate,
    .device_open = opaque_device_open,
    .device_wrap = opaque_device_wrap,
    .device_close = opaque_device_close,
    .device_limits = opaque_device_limits,

    .memory_alloc = opaque_memory_alloc,
    .memory_free = opaque_memory_free,
    .memory_copy = opaque_memory_copy,
    .memory_copy_peer = opaque_memory_copy_peer,
    .memory_fill = opaque_memory_fill,
    .memory_range = opaque_memory_range,

    .stream_open = opaque_stream_open,
    .stream_wrap = opaque_stream_wrap,
    .stream_close = opaque_stream_close,
    .stream_sync = opaque_stream_sync,
    .stream_capturing = opaque_stream_capturing,

    .event_open = opaque_event_open,
    .event_close = opaque_event_close,
    .event_record = opaque_event_record,
    .event_wait = opaque_event_wait,
    .event_elapsed = opaque_event_elapsed,

    .kernels = opaque_kernels,
    .row_accepts = opaque_row_accepts,
    .workspace_bytes = opaque_workspace_bytes,
    .plan_build = opaque_plan_build,
    .plan_release = opaque_plan_release,
    .execute = opaque_execute,

    .extension = opaque_extension,
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    opaque_host = host;
    return attune_host_fits(host, host_abi_major) ? &backend : NULL;
}
