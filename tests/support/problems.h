/*
 * Problems and args for tests that care about a few fields only.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_PROBLEMS_H
#define ATTUNE_TESTS_PROBLEMS_H

#include <string.h>

#include "attune/backend.h"

/* Four axes in C order. */
static inline attune_layout test_layout(attune_dtype dtype, int64_t s0, int64_t s1, int64_t s2, int64_t s3) {
    attune_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.dtype = dtype;
    const int64_t shape[ATTUNE_RANK_MAX] = {s0, s1, s2, s3};
    int64_t stride = 1;
    for (int axis = ATTUNE_RANK_MAX; axis-- > 0;) {
        layout.shape[axis] = shape[axis];
        layout.stride[axis] = stride;
        stride *= shape[axis];
    }
    return layout;
}

/* Forward of q, k, v and o, dense, without options: B 2, Sq 128, Sk 128, Hq 4, Hkv 4, D 64, Dv 64 unless changed.
 * test_problem_finish sets what follows from the sizes. */
static inline attune_problem test_problem(void) {
    attune_problem problem;
    memset(&problem, 0, sizeof problem);
    problem.op = ATTUNE_OP_FORWARD;
    problem.dtype = ATTUNE_DTYPE_F32;
    problem.batch = 2;
    problem.rows = 128;
    problem.keys = 128;
    problem.heads_q = 4;
    problem.heads_kv = 4;
    problem.head_dim = 64;
    problem.head_dim_v = 64;
    problem.heads_total = 4;
    problem.alignment_bytes = 16;
    problem.window_left = -1;
    problem.window_right = -1;
    return problem;
}

static inline void test_problem_finish(attune_problem *problem) {
    const attune_problem *p = problem;
    attune_layout *operand = problem->operand;
    operand[ATTUNE_OPERAND_Q] = test_layout(p->dtype, p->batch, p->rows, p->heads_q, p->head_dim);
    operand[ATTUNE_OPERAND_K] = test_layout(p->dtype, p->batch, p->keys, p->heads_kv, p->head_dim);
    operand[ATTUNE_OPERAND_V] = test_layout(p->dtype, p->batch, p->keys, p->heads_kv, p->head_dim_v);
    operand[ATTUNE_OPERAND_O] = test_layout(p->dtype, p->batch, p->rows, p->heads_q, p->head_dim_v);
    problem->heads_total = p->heads_q;
}

static inline float *test_part(float *memory, int64_t first) {
    return memory == NULL ? NULL : memory + first;
}

/* Args of forward in f32 over memory that holds q, k, v and o one after the other, or NULL: B, S, H and D of all. */
static inline attune_forward_args test_forward_args(float *memory, int64_t batch, int64_t length, int64_t heads,
                                                    int64_t head_dim) {
    const int64_t shape[ATTUNE_RANK_MAX] = {batch, length, heads, head_dim};
    const int64_t elements = batch * length * heads * head_dim;
    attune_forward_args args = attune_forward_args_init();
    args.q = attune_tensor_contiguous(memory, ATTUNE_DTYPE_F32, ATTUNE_RANK_MAX, shape);
    args.k = attune_tensor_contiguous(test_part(memory, elements), ATTUNE_DTYPE_F32, ATTUNE_RANK_MAX, shape);
    args.v = attune_tensor_contiguous(test_part(memory, 2 * elements), ATTUNE_DTYPE_F32, ATTUNE_RANK_MAX, shape);
    args.o = attune_tensor_contiguous(test_part(memory, 3 * elements), ATTUNE_DTYPE_F32, ATTUNE_RANK_MAX, shape);
    return args;
}

/* A row that computes forward in f32 and f16 without options, in any tile. */
static inline attune_kernel_row test_row(const char *name) {
    attune_kernel_row row;
    memset(&row, 0, sizeof row);
    row.name = name;
    row.op = ATTUNE_OP_FORWARD;
    row.dtypes = UINT64_C(1) << ATTUNE_DTYPE_F32 | UINT64_C(1) << ATTUNE_DTYPE_F16;
    row.features = ATTUNE_FEATURE_ANY_TILE;
    row.head_dim_max = 256;
    row.head_dim_v_max = 256;
    row.head_dim_multiple = 1;
    row.architecture = "any";
    row.isa = "";
    row.p_dtype = ATTUNE_DTYPE_F32;
    return row;
}

#endif
