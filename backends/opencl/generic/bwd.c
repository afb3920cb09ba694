/*
 * The host's side of bwd.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/attention.h"

/* ---- Tiles ---- */

/* Local memory of a build, as bwd.cl declares it. */
static int64_t local_bytes(const struct opencl_tiling *tiling) {
    const int64_t held =
        (int64_t)(tiling->is_resident ? tiling->head_dim + tiling->head_dim_v : tiling->depth) * tiling->held;
    const int64_t walked =
        attune_max((int64_t)tiling->walked * tiling->depth, (int64_t)tiling->steps * tiling->columns);
    const int64_t scores = (int64_t)tiling->walked * tiling->held;
    const int64_t rows = 2 * attune_max(tiling->held, tiling->walked);
    return (int64_t)sizeof(float) * (held + walked + scores + rows) + 20 * (int64_t)tiling->held +
           (int64_t)sizeof(int32_t);
}

static bool accepts(const struct attune_opencl_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    return attune_opencl_attention_accepts(device, row, problem, local_bytes, reason);
}

/* ---- Steps ---- */

#define ROW_THREADS  64 /* of attune_backward_rests */
#define SINK_THREADS 64

/* What every step reads, and the two that it may write. */
#define OPERANDS(out, out_v)                                                                                           \
    {                                                                                                                  \
        ATTUNE_OPERAND_Q, ATTUNE_OPERAND_K, ATTUNE_OPERAND_V, ATTUNE_OPERAND_O, ATTUNE_OPERAND_LSE,                    \
            ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_DLSE, out, out_v, ATTUNE_OPENCL_OPTION_OPERANDS                        \
    }

static const attune_operand dq_operands[] = OPERANDS(ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DQ);
static const attune_operand dkv_operands[] = OPERANDS(ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV);
static const attune_operand dbias_operands[] = OPERANDS(ATTUNE_OPERAND_DBIAS, ATTUNE_OPERAND_DBIAS);
static const attune_operand dsink_operands[] = OPERANDS(ATTUNE_OPERAND_DSINK, ATTUNE_OPERAND_DSINK);

static void add_step(struct attune_opencl_plan *plan, const char *symbol, int64_t groups, int64_t threads,
                     const attune_operand *operands) {
    const bool is_general = attune_opencl_is_general(&plan->problem, plan->schedule.pack);
    plan->step[plan->step_count++] = (struct attune_opencl_step){
        .symbol = symbol,
        .groups = {(size_t)groups, 1, 1},
        .local = {(size_t)threads, 1, 1},
        .operands = operands,
        .operand_count = 9 + (is_general ? ATTUNE_OPENCL_OPTION_COUNT : 1),
    };
}

static void add_steps(struct attune_opencl_plan *plan, const struct opencl_tiling *tiling,
                      const attune_opencl_attention *params) {
    const attune_problem *problem = &plan->problem;
    const int64_t *bias = problem->operand[ATTUNE_OPERAND_DBIAS].shape;
    const int64_t threads = attune_opencl_threads(tiling);
    const int64_t rows = problem->batch * problem->heads_q * problem->rows;
    add_step(plan, "attune_backward_rests", attune_ceil_div(rows, ROW_THREADS), ROW_THREADS, dq_operands);
    if (attune_problem_has(problem, ATTUNE_OPERAND_DQ)) {
        add_step(plan, "attune_backward_dq", problem->batch * problem->heads_q * params->row_tiles, threads,
                 dq_operands);
    }
    if (attune_problem_has(problem, ATTUNE_OPERAND_DK) || attune_problem_has(problem, ATTUNE_OPERAND_DV)) {
        add_step(plan, "attune_backward_dkv", problem->batch * problem->heads_kv * params->key_tiles, threads,
                 dkv_operands);
    }
    if (attune_problem_has(problem, ATTUNE_OPERAND_DBIAS)) {
        const int64_t tiles = attune_ceil_div(bias[2], tiling->held) * attune_ceil_div(bias[3], tiling->walked);
        add_step(plan, "attune_backward_dbias", bias[0] * bias[1] * tiles, threads, dbias_operands);
    }
    if (attune_problem_has(problem, ATTUNE_OPERAND_DSINK)) {
        add_step(plan, "attune_backward_dsink", problem->heads_q, SINK_THREADS, dsink_operands);
    }
}

static attune_status prepare(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    struct opencl_tiling tiling;
    attune_opencl_attention params;
    (void)attune_opencl_tiling_choose(plan->device, plan->row, problem, local_bytes, &tiling);
    attune_opencl_options(plan, &tiling);
    attune_opencl_attention_fill(plan, &params);
    params.row_tiles = attune_ceil_div(problem->rows, tiling.held);
    params.key_tiles = attune_ceil_div(problem->keys, tiling.held);
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    add_steps(plan, &tiling, &params);
    return ATTUNE_OK;
}

/* dlse_i - D_i of each row. */
static uint64_t workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    return sizeof(float) * (uint64_t)(problem->batch * problem->heads_q * problem->rows);
}

const struct attune_opencl_family attune_opencl_backward_family = {
    .accepts = accepts, .workspace_bytes = workspace_bytes, .prepare = prepare};
