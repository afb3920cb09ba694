/*
 * The host's side of bwd.cu: a launch for each stage.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/bwd.h"

#include <limits.h>

#include "attune/backend_util.h"
#include "backends/cuda/sm80/host.h"

enum { LSE_AXIS_S = 2 };
enum { LANES = 32 };

static uint64_t workspace_bytes(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    return (uint64_t)attune_layout_elements(&problem->operand[ATTUNE_OPERAND_LSE]) * sizeof(float);
}

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t floats = plan->problem.head_dim + plan->problem.head_dim_v + 3 * LANES;
    plan->shared_bytes = (unsigned)(ATTUNE_CUDA_BACKWARD_WARPS * floats * (int64_t)sizeof(float));
}

static int32_t dtype_of(const attune_problem *problem, attune_operand which) {
    return (int32_t)problem->operand[which].dtype;
}

static attune_cuda_backward_params fill(const struct attune_cuda_plan *plan, const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    attune_cuda_backward_params params = {
        .forward = attune_cuda_forward_fill(plan, bindings),
        .dout = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DOUT),
        .dlse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DLSE),
        .dq = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DQ),
        .dk = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DK),
        .dv = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DV),
        .dbias = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DBIAS),
        .dsink = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DSINK),
        .dout_dtype = dtype_of(problem, ATTUNE_OPERAND_DOUT),
        .dq_dtype = dtype_of(problem, ATTUNE_OPERAND_DQ),
        .dk_dtype = dtype_of(problem, ATTUNE_OPERAND_DK),
        .dv_dtype = dtype_of(problem, ATTUNE_OPERAND_DV),
        .dbias_dtype = dtype_of(problem, ATTUNE_OPERAND_DBIAS),
        .row_sums = (float *)(void *)((char *)attune_pointer_address(bindings->workspace) + plan->workspace.own.offset),
        .row_sums_length = problem->operand[ATTUNE_OPERAND_LSE].shape[LSE_AXIS_S],
        .is_packed = attune_problem_has(problem, ATTUNE_OPERAND_CU_SEQLENS_Q),
    };
    for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
        params.dbias_shape[axis] = problem->operand[ATTUNE_OPERAND_DBIAS].shape[axis];
    }
    return params;
}

/* 0 for a stage whose results nobody wants. */
static int64_t items_of(const attune_problem *problem, attune_cuda_backward_stage stage) {
    switch (stage) {
    case ATTUNE_CUDA_BACKWARD_SUMS:
        return problem->batch * problem->heads_q * problem->rows;
    case ATTUNE_CUDA_BACKWARD_DQ:
        return attune_problem_has(problem, ATTUNE_OPERAND_DQ) ? problem->batch * problem->heads_q * problem->rows : 0;
    case ATTUNE_CUDA_BACKWARD_DKV:
        return attune_problem_has(problem, ATTUNE_OPERAND_DK) || attune_problem_has(problem, ATTUNE_OPERAND_DV)
                   ? problem->batch * problem->heads_kv * problem->keys
                   : 0;
    case ATTUNE_CUDA_BACKWARD_DBIAS:
        return attune_layout_elements(&problem->operand[ATTUNE_OPERAND_DBIAS]);
    case ATTUNE_CUDA_BACKWARD_DSINK:
        return attune_problem_has(problem, ATTUNE_OPERAND_DSINK) ? problem->heads_q : 0;
    case ATTUNE_CUDA_BACKWARD_STAGES:
        break;
    }
    return 0;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_cuda_backward_params params = fill(plan, bindings);
    attune_status status = ATTUNE_OK;
    for (int stage = 0; status == ATTUNE_OK && stage < ATTUNE_CUDA_BACKWARD_STAGES; stage++) {
        params.stage = stage;
        params.items = items_of(&plan->problem, (attune_cuda_backward_stage)stage);
        const int64_t blocks = attune_min(attune_ceil_div(params.items, ATTUNE_CUDA_BACKWARD_WARPS), INT_MAX);
        const struct attune_cuda_grid grid = {.function = plan->loaded.function,
                                              .symbol = plan->kernel->symbol,
                                              .blocks = (unsigned)blocks,
                                              .threads = plan->threads,
                                              .shared_bytes = plan->shared_bytes};
        status = attune_cuda_launch_grid(plan->device, &grid, stream, &params);
    }
    return status;
}

const struct attune_cuda_family attune_cuda_general_backward = {
    .workspace_bytes = workspace_bytes, .prepare = prepare, .launch = launch};
