/*
 * The host's side of fwd.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/attention.h"

/* ---- Tiles ---- */

/* In floats, of a build with slices that are loaded ahead: lines are padded by a vector. */
static int64_t ahead_floats(const struct opencl_tiling *tiling) {
    const int64_t held_line = tiling->held + tiling->vector;
    const int64_t walked_line = tiling->walked + tiling->vector;
    const int64_t slices = 2 * tiling->depth * (held_line + walked_line);
    return attune_max(slices, tiling->walked * held_line) + (int64_t)2 * tiling->steps * tiling->columns;
}

static int64_t floats_of(const struct opencl_tiling *tiling) {
    const int64_t held = (int64_t)(tiling->is_resident ? tiling->head_dim : tiling->depth) * tiling->held;
    const int64_t walked =
        attune_max((int64_t)tiling->walked * tiling->depth, (int64_t)tiling->steps * tiling->columns);
    const int64_t scores = (int64_t)tiling->walked * tiling->held;
    return held + walked + scores;
}

/* Local memory of a build, as fwd.cl declares it. */
static int64_t local_bytes(const struct opencl_tiling *tiling) {
    const int64_t floats = tiling->is_ahead ? ahead_floats(tiling) : floats_of(tiling);
    const int64_t of_row = 4 * (int64_t)sizeof(float) + (tiling->is_ahead ? 0 : 12); /* 12 in general kernels only */
    return (int64_t)sizeof(float) * floats + of_row * tiling->held;
}

static bool accepts(const struct attune_opencl_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    return attune_opencl_attention_accepts(device, row, problem, local_bytes, reason);
}

/* ---- Steps ---- */

static const attune_operand operands[] = {ATTUNE_OPERAND_Q, ATTUNE_OPERAND_K,   ATTUNE_OPERAND_V,
                                          ATTUNE_OPERAND_O, ATTUNE_OPERAND_LSE, ATTUNE_OPENCL_OPTION_OPERANDS};

static void add_step(struct attune_opencl_plan *plan, const char *symbol, int64_t groups, int64_t threads) {
    const bool is_general = attune_opencl_is_general(&plan->problem, plan->schedule.pack);
    plan->step[plan->step_count++] = (struct attune_opencl_step){
        .symbol = symbol,
        .groups = {(size_t)groups, 1, 1},
        .local = {(size_t)threads, 1, 1},
        .operands = operands,
        .operand_count = 5 + (is_general ? ATTUNE_OPENCL_OPTION_COUNT : 1),
    };
}

/* Whether slices that are loaded ahead end where vectors do. */
static bool has_whole_slices(const struct opencl_tiling *tiling, const attune_problem *problem) {
    return tiling->is_ahead && tiling->head_dim == problem->head_dim && tiling->head_dim_v == problem->head_dim_v;
}

#define COMBINE_THREADS 64

static attune_status prepare(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const int64_t groups = plan->schedule.grid[0] * plan->schedule.grid[1] * plan->schedule.grid[2];
    struct opencl_tiling tiling;
    attune_opencl_attention params;
    (void)attune_opencl_tiling_choose(plan->device, plan->row, problem, local_bytes, &tiling);
    if (!tiling.is_resident && !has_whole_slices(&tiling, problem)) {
        tiling.head_dim = 0; /* nothing depends on it: one build serves all */
    }
    attune_opencl_options(plan, &tiling);
    attune_opencl_attention_fill(plan, &params);
    params.row_tiles = plan->schedule.grid[0];
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    if (attune_problem_has(problem, ATTUNE_OPERAND_PROBS)) {
        add_step(plan, "attune_forward_probs", groups, attune_opencl_threads(&tiling));
    }
    add_step(plan, "attune_forward", groups, attune_opencl_threads(&tiling));
    if (plan->schedule.splits > 1) {
        const int64_t vectors = attune_ceil_div(problem->head_dim_v, tiling.vector);
        const int64_t items = problem->batch * problem->heads_q * problem->rows * vectors;
        add_step(plan, "attune_combine", attune_ceil_div(items, COMBINE_THREADS), COMBINE_THREADS);
    }
    return ATTUNE_OK;
}

/* What each split's weights add up to, beside their lse: what is too much here is so there, and core refuses it. */
static uint64_t workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row;
    const uint64_t states = (uint64_t)(problem->batch * problem->heads_q * problem->rows);
    return schedule->splits == 1 ? 0 : sizeof(float) * (uint64_t)schedule->splits * states;
}

const struct attune_opencl_family attune_opencl_forward_family = {
    .accepts = accepts, .workspace_bytes = workspace_bytes, .prepare = prepare};
