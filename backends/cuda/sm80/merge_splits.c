/*
 * The host's side of merge_splits_row.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/merge_splits.h"

#include "attune/backend_util.h"
#include "backends/cuda/sm80/host.h"

static const float *region(const attune_bindings *bindings, const attune_workspace_region *of) {
    return (const float *)(const void *)((const char *)attune_pointer_address(bindings->workspace) + of->offset);
}

/* Of few splits one warp does all: where rows are many, instructions count. */
#define SPLITS_OF_ONE_WARP 8

attune_status attune_cuda_merge_splits(const struct attune_cuda_plan *plan, CUstream stream,
                                       const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    const int32_t warps = ATTUNE_CUDA_MERGE_SPLITS_WARPS;
    const int32_t row_warps = plan->schedule.splits <= SPLITS_OF_ONE_WARP ? 1 : warps;
    const int64_t rows = problem->batch * problem->heads_q * problem->rows; /* which kernels that split bound */
    attune_cuda_merge_splits_params params = {
        .partial_o = region(bindings, &plan->workspace.partial_o),
        .partial_max = region(bindings, &plan->workspace.partial_lse),
        .partial_sum = region(bindings, &plan->workspace.own),
        .o = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_O),
        .lse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LSE),
        .cu_seqlens_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_Q),
        .seqused_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_Q),
        .batch = (uint32_t)problem->batch,
        .rows = (uint32_t)problem->rows,
        .heads = (uint32_t)problem->heads_q,
        .head_dim_v = (int32_t)problem->head_dim_v,
        .splits = plan->schedule.splits,
        .row_warps = row_warps,
        .o_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_O].dtype,
    };
    const struct attune_cuda_grid grid = {
        .function = plan->merge_splits,
        .symbol = "attune_sm80_merge" ATTUNE_CUDA_MERGE_SPLITS_SUFFIX,
        .blocks = (unsigned)attune_ceil_div(rows * row_warps, warps),
        .threads = (unsigned)warps * 32,
        .shared_bytes = ATTUNE_CUDA_MERGE_SPLITS_SHARED,
        .waits_itself = true,
    };
    return attune_cuda_launch_grid(plan->device, &grid, stream, &params);
}
