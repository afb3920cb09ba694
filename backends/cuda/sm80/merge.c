/*
 * The host's side of merge.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/merge.h"

#include <limits.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cuda/sm80/host.h"

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t *shape = plan->problem.operand[ATTUNE_OPERAND_O].shape;
    plan->blocks = (unsigned)attune_min(shape[0] * shape[1] * shape[2], INT_MAX);
}

static const void *address(attune_pointer pointer) {
    return (const char *)pointer.data + pointer.byte_offset;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    const attune_layout *o = &problem->operand[ATTUNE_OPERAND_O];
    const attune_layout *part_o = &problem->operand[ATTUNE_OPERAND_PART_O];
    const attune_layout *part_lse = &problem->operand[ATTUNE_OPERAND_PART_LSE];
    attune_cuda_merge_params params = {
        .o = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_O),
        .lse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LSE),
        .batch = o->shape[0],
        .rows = o->shape[1],
        .heads = o->shape[2],
        .head_dim_v = (int32_t)o->shape[3],
        .parts = (int32_t)problem->parts,
        .part_dtype = (int32_t)part_o->dtype,
        .o_dtype = (int32_t)o->dtype,
    };
    memcpy(params.part_o_stride, part_o->stride, sizeof params.part_o_stride);
    memcpy(params.part_lse_stride, part_lse->stride, sizeof params.part_lse_stride);
    for (int64_t part = 0; part < problem->parts; part++) {
        params.part_o[part] = address(bindings->part_o[part]);
        params.part_lse[part] = address(bindings->part_lse[part]);
    }
    return attune_cuda_launch(plan, stream, &params);
}

/* ---- Of what splits left ---- */

static void set_parts(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                      attune_cuda_merge_params *params) {
    const attune_problem *problem = &plan->problem;
    const int64_t rows = problem->batch * problem->heads_q * problem->rows; /* of a part */
    const char *workspace = address(bindings->workspace);
    const float *partial_o = (const float *)(const void *)(workspace + plan->workspace.partial_o.offset);
    const float *partial_max = (const float *)(const void *)(workspace + plan->workspace.partial_lse.offset);
    const float *partial_sum = (const float *)(const void *)(workspace + plan->workspace.own.offset);
    for (int32_t split = 0; split < plan->schedule.splits; split++) {
        params->part_o[split] = partial_o + split * rows * problem->head_dim_v;
        params->part_lse[split] = partial_max + split * rows;
        params->part_sum[split] = partial_sum + split * rows;
    }
}

attune_status attune_cuda_merge_splits(const struct attune_cuda_plan *plan, CUstream stream,
                                       const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    const int64_t rows = problem->rows;
    attune_cuda_merge_params params = {
        .part_o_stride = {problem->heads_q * rows * problem->head_dim_v, problem->head_dim_v,
                          rows * problem->head_dim_v, 1},
        .part_lse_stride = {problem->heads_q * rows, rows, 1, 0},
        .o = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_O),
        .lse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LSE),
        .cu_seqlens_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_Q),
        .seqused_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_Q),
        .batch = problem->batch,
        .rows = rows,
        .heads = problem->heads_q,
        .head_dim_v = (int32_t)problem->head_dim_v,
        .parts = plan->schedule.splits,
        .part_dtype = ATTUNE_DTYPE_F32,
        .o_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_O].dtype,
    };
    set_parts(plan, bindings, &params);
    const struct attune_cuda_grid grid = {
        .function = plan->merge,
        .symbol = "attune_sm80_merge",
        .blocks = (unsigned)attune_min(problem->batch * problem->heads_q * rows, INT_MAX),
        .threads = ATTUNE_CUDA_MERGE_THREADS,
    };
    return attune_cuda_launch_grid(plan->device, &grid, stream, &params);
}

const struct attune_cuda_family attune_cuda_merge = {.prepare = prepare, .launch = launch};
