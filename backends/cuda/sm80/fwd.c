/*
 * The host's side of fwd.cu: what a problem and its bindings are in the kernel's terms.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/host.h"
#include "core/portable/philox.h"

static int64_t shared_bytes(const attune_problem *problem) {
    const int64_t width = attune_max(problem->head_dim, problem->head_dim_v) + 1;
    return (int64_t)sizeof(float) * (ATTUNE_CUDA_FORWARD_ROWS * (ATTUNE_CUDA_FORWARD_KEYS + problem->head_dim) +
                                     ATTUNE_CUDA_FORWARD_KEYS * width);
}

static bool accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)row;
    if (shared_bytes(problem) > device->shared_memory_bytes) {
        snprintf(reason, ATTUNE_REASON_MAX, "it needs %lld bytes of shared memory, the device has %d",
                 (long long)shared_bytes(problem), device->shared_memory_bytes);
        return false;
    }
    return true;
}

static int64_t row_tiles(const attune_problem *problem) {
    return attune_ceil_div(problem->rows, ATTUNE_CUDA_FORWARD_ROWS);
}

static void prepare(struct attune_cuda_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const int64_t tiles = problem->batch * problem->heads_q * row_tiles(problem);
    plan->blocks = (unsigned)attune_min(tiles, INT_MAX); /* each goes on where the last one ends */
    plan->shared_bytes = (unsigned)shared_bytes(problem);
}

static void set_operands(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                         attune_cuda_forward_params *params) {
    params->q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_Q);
    params->k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_K);
    params->v = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_V);
    params->o = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_O);
    params->lse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LSE);
    params->probs = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_PROBS);
    params->bias = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_BIAS);
    params->mask = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_MASK);
    params->alibi_slopes = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_ALIBI_SLOPES);
    params->sink = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SINK);
    params->cu_seqlens_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_Q);
    params->cu_seqlens_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_K);
    params->seqused_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_Q);
    params->seqused_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_K);
    params->leftpad_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LEFTPAD_K);
    params->block_table = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_BLOCK_TABLE);
    params->block_row_ptr = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_BLOCK_ROW_PTR);
    params->block_col_idx = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_BLOCK_COL_IDX);
    params->descale_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE_Q);
    params->descale_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE_K);
    params->descale_v = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE_V);
    params->dropout_seed = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DROPOUT_SEED);
    params->dropout_offset = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DROPOUT_OFFSET);
}

attune_cuda_forward_params attune_cuda_forward_fill(const struct attune_cuda_plan *plan,
                                                    const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    attune_cuda_forward_params params = {
        .batch = problem->batch,
        .rows = problem->rows,
        .keys = problem->keys,
        .heads_q = problem->heads_q,
        .heads_kv = problem->heads_kv,
        .head_dim = (int32_t)problem->head_dim,
        .head_dim_v = (int32_t)problem->head_dim_v,
        .page_size = problem->page_size,
        .block_rows = problem->block_rows,
        .block_keys = problem->block_keys,
        .bottom_right = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT,
        .bias_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_BIAS].dtype,
        .o_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_O].dtype,
        .scale = attune_f32_saturated(bindings->scale),
        .softcap = attune_f32_softcap(problem),
        .dropout_rescale = (float)(1.0 / (1.0 - problem->dropout_rate)),
        .diagonal = problem->diagonal,
        .window_left = problem->window_left,
        .window_right = problem->window_right,
        .dropout_threshold = attune_dropout_threshold(problem->dropout_rate),
        .seed = bindings->dropout_seed,
        .batch_origin = problem->batch_origin,
        .head_origin = problem->head_origin,
        .row_origin = problem->row_origin,
        .key_origin = problem->key_origin,
        .heads_total = problem->heads_total,
        .offset = bindings->dropout_offset,
    };
    set_operands(plan, bindings, &params);
    return params;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_cuda_forward_params params = attune_cuda_forward_fill(plan, bindings);
    params.row_tiles = row_tiles(&plan->problem);
    return attune_cuda_launch(plan, stream, &params);
}

const struct attune_cuda_family attune_cuda_general_forward = {
    .accepts = accepts, .prepare = prepare, .launch = launch};
