/*
 * What splits leave of a row, merged into o and lse, in index order. docs/semantics.md, "Splitting and merging".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_COMBINE_H
#define ATTUNE_OPENCL_GENERIC_COMBINE_H

#include "backends/opencl/generic/operands.h"
#include "backends/opencl/generic/place.h"

/* A work-item has a vector of columns of one row. */
__kernel void attune_combine(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                             __global uchar *workspace, FORWARD_OPERANDS) {
    const options given = FORWARD_OPTIONS;
    const attune_i64 across = (p->head_dim_v + VECTOR - 1) / VECTOR;
    const attune_i64 item = get_global_id(0);
    const int column = (int)(item % across) * VECTOR;
    const attune_i64 row = item / across % p->rows;
    const attune_i64 head = item / across / p->rows % p->heads_q;
    const attune_i64 batch = item / across / p->rows / p->heads_q;
    if (batch >= p->batch) {
        return;
    }
    const place at = find_place(p, &given, batch, head);
    if (row >= at.mask.rows) {
        return;
    }
    const attune_i64 apart = attune_partial_row(p->batch, p->heads_q, p->rows, 1, 0, 0, 0);
    const attune_i64 first = attune_partial_row(p->batch, p->heads_q, p->rows, 0, batch, head, row);
    __global uchar *base = workspace + run.workspace;
    __global const float *part_max = (__global const float *)(base + p->partial_lse) + first;
    __global const float *part_sum = (__global const float *)(base + p->own) + first;
    attune_softmax whole = attune_softmax_empty();
    for (int n = 0; n < p->splits; n++) {
        whole.max = attune_fmaxf(whole.max, part_max[n * apart]);
    }
    /* -0 leaves every first term as it is: with one part that is not empty, the result is that part's, bit for bit. */
    FLOATS sum = (FLOATS)-0.0f;
    for (int n = 0; n < p->splits; n++) {
        const float weight = attune_softmax_weight(part_max[n * apart], attune_softmax_base(whole.max));
        const attune_i64 index = (first + n * apart) * p->head_dim_v + column;
        if (part_sum[n * apart] != 0.0f) { /* the o of an empty part may be anything */
            sum += weight * (column + VECTOR <= p->head_dim_v
                                 ? VLOAD(0, (__global const float *)(base + p->partial_o) + index)
                                 : load_part(base + p->partial_o, index, ATTUNE_OPENCL_F32, p->head_dim_v - column));
        }
        whole.sum += part_sum[n * apart] * weight;
    }
    const attune_softmax_result result = attune_softmax_finish(whole);
    const vectors to = row_vectors(p, &at, OPERAND(3, o), p->o_dtype, &p->o, p->head_dim_v);
    store_part(to.data, row * to.stride + column, to.dtype, to.length - column,
               result.inverse == 0.0f ? (FLOATS)0.0f : sum * result.inverse);
    if (lse != 0 && column == 0) {
        ((__global float *)OPERAND(
            4, lse))[batch * p->lse.axis[0] + head * p->lse.axis[1] + (at.row_begin + row) * p->lse.axis[2]] =
            result.lse;
    }
}

#endif
