/*
 * FlashAttention's backward: what is small, and the order of the rest.
 *
 * Source: Dao, FlashAttention-2 (arXiv 2307.08691), algorithm 2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/cpu/generic/backward.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"

/* ---- Workspace: dlse_i - D_i of every row, then what each thread works with in one part after the other ---- */

static uint64_t backward_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                         int32_t threads) {
    const uint64_t parts[] = {attune_generic_dq_bytes(problem, schedule, threads),
                              attune_generic_dkv_bytes(problem, schedule, threads),
                              attune_generic_dbias_bytes(problem, schedule)};
    uint64_t thread_bytes = 0;
    for (int n = 0; n < 3; n++) {
        thread_bytes = parts[n] > thread_bytes ? parts[n] : thread_bytes;
    }
    return attune_reference_scratch_bytes(attune_generic_rests_bytes(problem), thread_bytes, threads);
}

/* ---- dlse_i - D_i, D_i = sum_d do_i o_i ---- */

static double dot(const float *a, const float *b, int64_t length) {
    double sum = 0;
    for (int64_t d = 0; d < length; d++) {
        sum += (double)a[d] * (double)b[d];
    }
    return sum;
}

#define ROWS_OF_UNIT 64

/* A unit is some rows of one query head of one sequence. */
static void rests_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const int64_t units = attune_ceil_div(problem->rows, ROWS_OF_UNIT);
    const int64_t head = unit / units % problem->heads_q;
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / units / problem->heads_q);
    const struct reference_vectors dout = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_DOUT, head);
    const struct reference_vectors o = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_O, head);
    const int64_t first = unit % units * ROWS_OF_UNIT;
    float left[ATTUNE_GENERIC_LENGTH_MAX];
    float right[ATTUNE_GENERIC_LENGTH_MAX];
    for (int64_t row = first; row < attune_min(first + ROWS_OF_UNIT, sequence.mask.rows); row++) {
        double dlse = 0;
        if (attune_reference_has(run, ATTUNE_OPERAND_DLSE)) {
            dlse = (double)*(const float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_DLSE, sequence.batch,
                                                                            head, sequence.first_row + row);
        }
        attune_generic_load_vector(&dout, row, left);
        attune_generic_load_vector(&o, row, right);
        *attune_generic_rest_at(run, &sequence, head, row) = (float)(dlse - dot(left, right, o.length));
    }
}

static void find_rests(const struct attune_cpu_run *run, double operations) {
    const attune_problem *problem = run->problem;
    const int64_t units = problem->batch * problem->heads_q * attune_ceil_div(problem->rows, ROWS_OF_UNIT);
    attune_cpu_team_run(run->team, units, operations, rests_unit, run);
}

/* ---- dsink[h] = sum_{b,i} exp(sink[h] - lse) (dlse_i - D_i) ---- */

static void dsink_unit(const void *context, int64_t head, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const double sink = (double)*(const float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_SINK, head, 0, 0);
    double sum = 0;
    for (int64_t b = 0; b < run->problem->batch && sink != -INFINITY; b++) {
        const struct reference_sequence sequence = attune_reference_sequence(run, b);
        for (int64_t row = 0; row < sequence.mask.rows; row++) {
            const double lse = (double)*(const float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_LSE, b,
                                                                                        head, sequence.first_row + row);
            if (lse != -INFINITY) {
                sum += exp(sink - lse) * (double)*attune_generic_rest_at(run, &sequence, head, row);
            }
        }
    }
    *(float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_DSINK, head, 0, 0) = (float)sum;
}

/* ---- Backward ---- */

static void backward_execute(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const double rows = (double)problem->batch * (double)problem->heads_q * (double)problem->rows;
    const double products = rows * (double)problem->keys * (double)(problem->head_dim + problem->head_dim_v);
    find_rests(run, rows * (double)problem->head_dim_v);
    if (attune_reference_has(run, ATTUNE_OPERAND_DQ) &&
        !attune_generic_dkv_sums_dq(problem, run->schedule, run->team->threads)) {
        attune_generic_dq(run, products);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DK) || attune_reference_has(run, ATTUNE_OPERAND_DV)) {
        attune_generic_dkv(run, products);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DBIAS)) {
        attune_generic_dbias(run, products);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DSINK)) {
        attune_cpu_team_run(run->team, problem->heads_q, rows, dsink_unit, run);
    }
}

const struct attune_cpu_kernel attune_cpu_generic_backward = {
    .workspace_bytes = backward_workspace_bytes,
    .execute = backward_execute,
};
