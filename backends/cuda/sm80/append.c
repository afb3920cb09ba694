/*
 * The host's side of append.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/append.h"

#include <limits.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"

static int64_t rows_of(const attune_problem *problem, attune_operand operand) {
    return problem->operand[operand].dtype == ATTUNE_DTYPE_NONE ? 0 : problem->operand[operand].shape[1];
}

static void prepare(struct attune_cuda_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const int64_t vectors = problem->batch * (2 * rows_of(problem, ATTUNE_OPERAND_K_NEW) * problem->heads_kv +
                                              rows_of(problem, ATTUNE_OPERAND_Q) * problem->heads_q);
    plan->blocks = (unsigned)attune_min(attune_ceil_div(vectors, ATTUNE_CUDA_APPEND_WARPS), INT_MAX);
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    attune_cuda_append_params params = {
        .k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_K),
        .v = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_V),
        .k_new = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_K_NEW),
        .v_new = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_V_NEW),
        .q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_Q),
        .q_out = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_Q_OUT),
        .seqused_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_K),
        .block_table = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_BLOCK_TABLE),
        .descale_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE_K),
        .descale_v = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE_V),
        .rotary_cos = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_ROTARY_COS),
        .rotary_sin = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_ROTARY_SIN),
        .batch = problem->batch,
        .rows_new = rows_of(problem, ATTUNE_OPERAND_K_NEW),
        .rows_q = rows_of(problem, ATTUNE_OPERAND_Q),
        .heads_kv = problem->heads_kv,
        .heads_q = problem->heads_q,
        .capacity = problem->keys,
        .positions = problem->operand[ATTUNE_OPERAND_ROTARY_COS].shape[0],
        .page_size = problem->page_size,
        .head_dim = (int32_t)problem->head_dim,
        .head_dim_v = (int32_t)problem->head_dim_v,
        .rotary_dim = (int32_t)problem->rotary_dim,
        .rotary_interleaved = problem->rotary_interleaved,
        .cache_dtype = (int32_t)problem->dtype,
        .new_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_K_NEW].dtype,
        .q_dtype = (int32_t)problem->operand[ATTUNE_OPERAND_Q].dtype,
    };
    return attune_cuda_launch(plan, stream, &params);
}

const struct attune_cuda_family attune_cuda_append = {.prepare = prepare, .launch = launch};
