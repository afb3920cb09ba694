/*
 * What the files of the CPU backend share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CPU_H
#define ATTUNE_CPU_H

#include "attune/backend.h"
#include "backends/cpu/kernel.h"

/* What core lent; set by the query function before anything else runs. */
extern const attune_host_services *attune_cpu_host;

struct attune_cpu_device {
    struct attune_cpu_team team;
    int32_t family; /* ATTUNE_CPU_ISA: rows of a higher one do not run. See launch.c */
};

/* ---- device.c ---- */

attune_status attune_cpu_enumerate(int32_t index, attune_device_info *out_info);
attune_status attune_cpu_device_open(int32_t index, void **out_device);
void attune_cpu_device_close(void *device);
attune_status attune_cpu_device_limits(void *device, attune_device_limits *out_limits);

/* ---- launch.c ---- */

/* The number of the family that ATTUNE_CPU_ISA names, or of the highest if it is unset. INVALID_ARGUMENT for a name
 * that this build has no kernels for. */
attune_status attune_cpu_family_choose(int32_t *out_family);
bool attune_cpu_row_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]);
uint64_t attune_cpu_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                    const attune_schedule *schedule);
attune_status attune_cpu_plan_build(void *device, const attune_plan_request *request, void **out_plan);
void attune_cpu_plan_release(void *device, void *plan);
attune_status attune_cpu_execute(void *device, void *plan, void *stream, const attune_bindings *bindings);

#endif
