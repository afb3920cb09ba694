/*
 * What a CPU kernel is to the backend, and the table of them. A kernel needs nothing of the backend but a team, so that
 * a test can link the kernels alone and run them behind another backend's memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CPU_KERNEL_H
#define ATTUNE_CPU_KERNEL_H

#include "attune/backend.h"
#include "backends/cpu/team.h"

/* One run. Every operand's data is a host pointer. */
struct attune_cpu_run {
    const attune_problem *problem;
    const attune_schedule *schedule; /* NULL for a kernel whose row has no tiles */
    const attune_bindings *bindings;
    char *workspace;  /* of workspace_bytes(problem, schedule, team->threads), aligned to 64; NULL where that is 0 */
    float *partial_o; /* of attune_workspace_map; NULL unless there are splits */
    float *partial_lse;
    const struct attune_cpu_team *team;
};

/* What attune_kernel_row.kernel points to. */
struct attune_cpu_kernel {
    /* NULL: none */
    uint64_t (*workspace_bytes)(const attune_problem *problem, const attune_schedule *schedule, int32_t threads);
    void (*execute)(const struct attune_cpu_run *run);
};

/* The rows of kernels.def. */
const attune_kernel_row *attune_cpu_kernels(int32_t *out_count);

#endif
