/*
 * The host's side of merge.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/merge.h"

#include <limits.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/merge_splits.h"

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

const struct attune_cuda_family attune_cuda_merge = {
    .beside = {ATTUNE_CUDA_MERGE_SPLITS_SUFFIX}, .prepare = prepare, .launch = launch};
