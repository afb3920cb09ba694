/*
 * The CPU as a backend: one device. Its memory is the host's and its work is done when a call returns, so that memory,
 * streams and events are those that core lends.
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

    .kernels = attune_cpu_kernels,
    .row_runnable = attune_cpu_row_runnable,
    .workspace_bytes = attune_cpu_workspace_bytes,
    .plan_build = attune_cpu_plan_build,
    .plan_release = attune_cpu_plan_release,
    .execute = attune_cpu_execute,
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    if (!attune_host_fits(host, host_abi_major)) {
        return NULL;
    }
    attune_cpu_host = host;
    attune_cpu_team_watch_forks();
    return &backend;
}
