/*
 * The host's side of append.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/generic/append.h"

#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/attention.h"

#define THREADS 64

static attune_opencl_moved moved_of(const attune_problem *problem, attune_operand from, attune_operand to,
                                    attune_operand descale, int64_t rotary_dim) {
    const attune_layout *layout = &problem->operand[from];
    return (attune_opencl_moved){
        .from = attune_opencl_strides_of(problem, from),
        .to = attune_opencl_strides_of(problem, to),
        .descale = attune_opencl_strides_of(problem, descale),
        .rows = layout->shape[1],
        .heads = layout->shape[2],
        .length = (int)layout->shape[3],
        .rotary_dim = (int)rotary_dim,
        .from_dtype = (int)layout->dtype,
        .to_dtype = (int)problem->operand[to].dtype,
    };
}

static void add_step(struct attune_opencl_plan *plan, const char *symbol, const attune_opencl_moved *moved,
                     const attune_operand *operands) {
    const int64_t units = moved->length - moved->rotary_dim / 2;
    const int64_t items = plan->problem.batch * moved->rows * moved->heads * units;
    if (moved->from_dtype != ATTUNE_DTYPE_NONE && items > 0) {
        plan->step[plan->step_count++] = (struct attune_opencl_step){
            .symbol = symbol,
            .groups = {(size_t)attune_ceil_div(items, THREADS), 1, 1},
            .local = {THREADS, 1, 1},
            .operands = operands,
            .operand_count = 7,
        };
    }
}

/* In the order of append.cl's. */
#define OPERANDS(from, to, descale)                                                                                    \
    {                                                                                                                  \
        from, to, ATTUNE_OPERAND_SEQUSED_K, ATTUNE_OPERAND_BLOCK_TABLE, descale, ATTUNE_OPERAND_ROTARY_COS,            \
            ATTUNE_OPERAND_ROTARY_SIN                                                                                  \
    }

static attune_status prepare(struct attune_opencl_plan *plan) {
    static const attune_operand of_k[] = OPERANDS(ATTUNE_OPERAND_K_NEW, ATTUNE_OPERAND_K, ATTUNE_OPERAND_DESCALE_K);
    static const attune_operand of_v[] = OPERANDS(ATTUNE_OPERAND_V_NEW, ATTUNE_OPERAND_V, ATTUNE_OPERAND_DESCALE_V);
    static const attune_operand of_q[] = OPERANDS(ATTUNE_OPERAND_Q, ATTUNE_OPERAND_Q_OUT, ATTUNE_OPERAND_DESCALE_Q);
    const attune_problem *problem = &plan->problem;
    const attune_opencl_append params = {
        .k = moved_of(problem, of_k[0], of_k[1], of_k[4], problem->rotary_dim),
        .v = moved_of(problem, of_v[0], of_v[1], of_v[4], 0),
        .q = moved_of(problem, of_q[0], of_q[1], of_q[4], problem->rotary_dim),
        .seqused_k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_SEQUSED_K),
        .block_table = attune_opencl_strides_of(problem, ATTUNE_OPERAND_BLOCK_TABLE),
        .rotary_cos = attune_opencl_strides_of(problem, ATTUNE_OPERAND_ROTARY_COS),
        .rotary_sin = attune_opencl_strides_of(problem, ATTUNE_OPERAND_ROTARY_SIN),
        .batch = problem->batch,
        .page_size = problem->page_size,
        .capacity = problem->keys,
        .positions = problem->rotary_dim > 0 ? problem->operand[ATTUNE_OPERAND_ROTARY_COS].shape[0] : INT64_MAX,
        .is_interleaved = problem->rotary_interleaved,
    };
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    snprintf(plan->options, sizeof plan->options, "-DATTUNE_VECTOR=4 -DATTUNE_IS_CPU=0 -DATTUNE_ALIGNED=0");
    add_step(plan, "attune_append_k", &params.k, of_k);
    add_step(plan, "attune_append_v", &params.v, of_v);
    add_step(plan, "attune_append_q", &params.q, of_q);
    return ATTUNE_OK;
}

const struct attune_opencl_family attune_opencl_append_family = {.prepare = prepare};
