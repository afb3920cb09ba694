/*
 * The golden append: docs/semantics.md, "Paged keys and values". New keys, rotated, and new values go into the cache; q
 * is rotated in place or elsewhere.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/scale.h"
#include "backends/cpu/reference/scratch.h"
#include "backends/cpu/reference/vectors.h"

/* ---- What a thread works with: one vector ---- */

static int64_t vector_length(const attune_problem *problem) {
    return attune_max(problem->head_dim, problem->head_dim_v);
}

static uint64_t thread_bytes(const attune_problem *problem) {
    struct reference_scratch scratch = {.base = NULL};
    (void)attune_reference_take(&scratch, 1, vector_length(problem), sizeof(double));
    return scratch.used_bytes;
}

static uint64_t append_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                       int32_t threads) {
    (void)schedule;
    return attune_reference_scratch_bytes(0, thread_bytes(problem), threads);
}

/* ---- Rotary: RoFormer (arXiv 2104.09864), section 3.4.2 ---- */

static double angle(const struct attune_cpu_run *run, attune_operand operand, int64_t position, int64_t pair) {
    const char *row = attune_reference_address(run, operand, position, pair, 0);
    return attune_reference_load(run->problem->operand[operand].dtype, row, 0);
}

/* Turns pairs (2t, 2t + 1), or (t, t + rotary_dim / 2), of the first rotary_dim elements. */
static void rotate(const struct attune_cpu_run *run, int64_t position, double *x) {
    const int64_t half = run->problem->rotary_dim / 2;
    const bool interleaved = run->problem->rotary_interleaved;
    for (int64_t t = 0; t < half; t++) {
        double *first = interleaved ? &x[2 * t] : &x[t];
        double *second = interleaved ? &x[2 * t + 1] : &x[t + half];
        const double cosine = angle(run, ATTUNE_OPERAND_ROTARY_COS, position, t);
        const double sine = angle(run, ATTUNE_OPERAND_ROTARY_SIN, position, t);
        const double turned = *first * cosine - *second * sine;
        *second = *first * sine + *second * cosine;
        *first = turned;
    }
}

/* ---- One new row of one sequence ---- */

/* seqused_k[b], or 0. */
static int64_t used_of(const struct attune_cpu_run *run, int64_t batch) {
    return attune_reference_has(run, ATTUNE_OPERAND_SEQUSED_K)
               ? attune_reference_integer(run, ATTUNE_OPERAND_SEQUSED_K, batch, 0)
               : 0;
}

/* Row i of from goes to position used + i of the cache. */
static void append_row(const struct attune_cpu_run *run, int64_t batch, int64_t i, attune_operand from,
                       attune_operand cache, double *x) {
    const struct reference_sequence sequence = {.batch = batch};
    const int64_t position = used_of(run, batch) + i;
    if (!attune_reference_has_position(run, position, run->problem->keys)) {
        return;
    }
    for (int64_t h = 0; h < run->problem->heads_kv; h++) {
        const struct reference_vectors source = attune_reference_vectors(run, &sequence, from, h);
        const struct reference_vectors target = attune_reference_vectors(run, &sequence, cache, h);
        const double descale = attune_reference_descale(&target, position);
        attune_reference_vector_load(&source, i, x);
        if (cache == ATTUNE_OPERAND_K && run->problem->rotary_dim > 0) {
            rotate(run, position, x);
        }
        for (int64_t d = 0; d < source.length; d++) {
            x[d] = attune_reference_descaled(x[d], descale);
        }
        attune_reference_vector_store(&target, position, x);
    }
}

static void rotate_q_row(const struct attune_cpu_run *run, int64_t batch, int64_t i, double *x) {
    const struct reference_sequence sequence = {.batch = batch};
    const int64_t position = used_of(run, batch) + i;
    if (!attune_reference_has_position(run, position, INT64_MAX)) {
        return;
    }
    for (int64_t h = 0; h < run->problem->operand[ATTUNE_OPERAND_Q].shape[2]; h++) {
        const struct reference_vectors q = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_Q, h);
        const struct reference_vectors q_out = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_Q_OUT, h);
        attune_reference_vector_load(&q, i, x);
        rotate(run, position, x);
        attune_reference_vector_store(&q_out, i, x);
    }
}

/* ---- Append ---- */

static int64_t rows_of(const struct attune_cpu_run *run, attune_operand operand) {
    return attune_reference_has(run, operand) ? run->problem->operand[operand].shape[1] : 0;
}

/* Rows of one sequence: the new ones, then those of q. */
static void append_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const int64_t rows_new = rows_of(run, ATTUNE_OPERAND_K_NEW);
    const int64_t rows = rows_new + rows_of(run, ATTUNE_OPERAND_Q_OUT);
    const int64_t row = unit % rows;
    double *x = (double *)(void *)(run->workspace + (uint64_t)thread * thread_bytes(run->problem));
    if (row < rows_new) {
        append_row(run, unit / rows, row, ATTUNE_OPERAND_K_NEW, ATTUNE_OPERAND_K, x);
        append_row(run, unit / rows, row, ATTUNE_OPERAND_V_NEW, ATTUNE_OPERAND_V, x);
    } else {
        rotate_q_row(run, unit / rows, row - rows_new, x);
    }
}

static void append_execute(const struct attune_cpu_run *run) {
    const int64_t rows = rows_of(run, ATTUNE_OPERAND_K_NEW) + rows_of(run, ATTUNE_OPERAND_Q_OUT);
    const int64_t units = run->problem->batch * rows;
    const double operations = (double)units * (double)run->problem->heads_kv * (double)vector_length(run->problem);
    attune_cpu_team_run(run->team, units, operations, append_unit, run);
}

const struct attune_cpu_kernel attune_cpu_reference_append = {
    .workspace_bytes = append_workspace_bytes,
    .execute = append_execute,
};
