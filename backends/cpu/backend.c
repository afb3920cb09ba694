/*
 * The CPU as a backend: one device, whose memory is the host's and whose streams run at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/cpu/cpu.h"

const attune_host_services *attune_cpu_host;

static const attune_backend backend = {
    ATTUNE_BACKEND_HEADER("cpu", "this machine's processors, by OpenMP", 10),

    .enumerate = attune_cpu_enumerate,
    .device_open = attune_cpu_device_open,
    .device_close = attune_cpu_device_close,
    .device_limits = attune_cpu_device_limits,

    .memory_alloc = attune_cpu_memory_alloc,
    .memory_free = attune_cpu_memory_free,
    .memory_copy = attune_cpu_memory_copy,
    .memory_fill = attune_cpu_memory_fill,
    .memory_range = attune_cpu_memory_range,

    .stream_open = attune_cpu_stream_open,
    .stream_close = attune_cpu_stream_close,
    .stream_sync = attune_cpu_stream_sync,

    .event_open = attune_cpu_event_open,
    .event_close = attune_cpu_event_close,
    .event_record = attune_cpu_event_record,
    .event_wait = attune_cpu_event_wait,
    .event_elapsed = attune_cpu_event_elapsed,

    .kernels = attune_cpu_kernels,
    .row_runnable = attune_cpu_row_runnable,
    .workspace_bytes = attune_cpu_workspace_bytes,
    .plan_build = attune_cpu_plan_build,
    .plan_release = attune_cpu_plan_release,
    .execute = attune_cpu_execute,
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    if (host_abi_major != ATTUNE_BACKEND_ABI_MAJOR) {
        (void)host->fail(ATTUNE_INCOMPATIBLE, "the host speaks backend ABI %d, this backend %d", host_abi_major,
                         ATTUNE_BACKEND_ABI_MAJOR);
        return NULL;
    }
    attune_cpu_host = host;
    attune_cpu_team_watch_forks();
    return &backend;
}
