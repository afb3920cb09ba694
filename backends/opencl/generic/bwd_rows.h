/*
 * What the backward kernels share: their operands, and what is computed row by row, dlse_i - D_i and dsink.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_BWD_ROWS_H
#define ATTUNE_OPENCL_GENERIC_BWD_ROWS_H

#include "backends/opencl/generic/operands.h"
#include "backends/opencl/generic/place.h"
#include "backends/opencl/run.h"

/* ---- Operands ---- */

#define BACKWARD_OPERANDS                                                                                              \
    __global uchar *q, __global uchar *k, __global uchar *v, __global uchar *o, __global uchar *lse,                   \
        __global uchar *dout, __global uchar *dlse, __global uchar *out, __global uchar *out_v, OPTION_OPERANDS
#define BACKWARD_OPTIONS OPTIONS_FROM(9)

/* Where row 0 of a head lies in lse or dlse. */
FN __global const float *rows_of(const place *at, __global uchar *data,
                                 __constant const attune_opencl_strides *strides) {
    return data == 0 ? 0
                     : (__global const float *)data + at->batch * strides->axis[0] + at->head * strides->axis[1] +
                           at->row_begin * strides->axis[2];
}

FN vectors dout_vectors(parameters p, const place *at, __global uchar *dout) {
    return row_vectors(p, at, dout, ATTUNE_GENERAL ? p->dout_dtype : stored_dtype(p), &p->dout, p->head_dim_v);
}

FN attune_interval interval(attune_i64 begin, attune_i64 end) {
    attune_interval made;
    made.begin = begin;
    made.end = end;
    return made;
}

/* dlse_i - D_i of a head's row 0 on, in the workspace. */
FN __global float *rests_of(parameters p, const place *at, __global uchar *workspace) {
    return (__global float *)(workspace + p->own) +
           attune_partial_row(p->batch, p->heads_q, p->rows, 0, at->batch, at->head, 0);
}

/* ---- dlse_i - D_i, D_i = sum_d do_i o_i: a row to a work-item ---- */

__kernel void attune_backward_rests(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                                    __global uchar *workspace, BACKWARD_OPERANDS) {
    const options given = BACKWARD_OPTIONS;
    const attune_i64 item = get_global_id(0);
    const attune_i64 row = item % p->rows;
    const attune_i64 head = item / p->rows % p->heads_q;
    const attune_i64 batch = item / p->rows / p->heads_q;
    if (batch >= p->batch) {
        return;
    }
    const place at = find_place(p, &given, batch, head);
    if (row >= at.mask.rows) {
        return;
    }
    const vectors from_o = row_vectors(p, &at, OPERAND(3, o), p->o_dtype, &p->o, p->head_dim_v);
    const vectors from_dout = row_vectors(p, &at, OPERAND(5, dout), p->dout_dtype, &p->dout, p->head_dim_v);
    __global const float *of_dlse = rows_of(&at, OPERAND(6, dlse), &p->dlse);
    lanes sum;
    sum.vector = (FLOATS)0.0f;
    for (int d = 0; d < p->head_dim_v; d += VECTOR) {
        sum.vector += load_from(&from_o, row, d) * load_from(&from_dout, row, d);
    }
    float dot = 0.0f;
    FOR_LANES
    for (int n = 0; n < VECTOR; n++) {
        dot += sum.lane[n];
    }
    rests_of(p, &at, workspace + run.workspace)[row] = (of_dlse == 0 ? 0.0f : of_dlse[row * p->dlse.axis[2]]) - dot;
}

/* ---- dsink[h] = sum_{b,i} exp(sink[h] - lse) (dlse_i - D_i): a head to a work-group ---- */

#define SINK_THREADS 64

__kernel __attribute__((reqd_work_group_size(SINK_THREADS, 1, 1))) void
attune_backward_dsink(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                      __global uchar *workspace, BACKWARD_OPERANDS) {
    __local float part[SINK_THREADS];
    const options given = BACKWARD_OPTIONS;
    const attune_i64 head = get_group_id(0);
    const int thread = get_local_id(0);
    const float logit = given.sink[head * p->sink.axis[0]];
    float sum = 0.0f;
    float lost = 0.0f;
    for (attune_i64 batch = 0; batch < p->batch; batch++) {
        const place at = find_place(p, &given, batch, head);
        __global const float *of_lse = rows_of(&at, OPERAND(4, lse), &p->lse);
        __global const float *rests = rests_of(p, &at, workspace + run.workspace);
        for (attune_i64 row = thread; row < at.mask.rows && logit != -INFINITY; row += SINK_THREADS) {
            const float row_lse = of_lse[row * p->lse.axis[2]];
            const float x = row_lse == -INFINITY ? 0.0f : attune_softmax_weight(logit, row_lse) * rests[row];
            const float y = x - lost;
            const float t = sum + y;
            lost = isfinite(t) ? (t - sum) - y : 0.0f;
            sum = t;
        }
    }
    part[thread] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (thread == 0) {
        float all = 0.0f;
        for (int n = 0; n < SINK_THREADS; n++) {
            all += part[n];
        }
        ((__global float *)OPERAND(7, out))[head * p->dsink.axis[0]] = all;
    }
}

#endif
