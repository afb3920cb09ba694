/*
 * docs/semantics.md, "Paged keys and values": new keys, rotated, and new values go into the cache; q is rotated in
 * place or elsewhere. Rotary is that of RoFormer (arXiv 2104.09864), section 3.4.2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"

/* ---- Rotary ---- */

/* A position's cosines, or sines. */
struct angles {
    const float *first;
    int64_t step;
};

static struct angles angles_of(const struct attune_cpu_run *run, attune_operand operand, int64_t position) {
    return (struct angles){.first = (const float *)(void *)attune_reference_address(run, operand, position, 0, 0),
                           .step = run->problem->operand[operand].stride[1]};
}

/* Turns pairs (2 t, 2 t + 1), or (t, t + rotary_dim / 2), of the first rotary_dim elements. */
static void rotate(const struct attune_cpu_run *run, int64_t position, float *x) {
    const int64_t half = run->problem->rotary_dim / 2;
    const int64_t step = run->problem->rotary_interleaved ? 2 : 1;
    const int64_t apart = run->problem->rotary_interleaved ? 1 : half;
    if (half == 0) {
        return;
    }
    const struct angles cosines = angles_of(run, ATTUNE_OPERAND_ROTARY_COS, position);
    const struct angles sines = angles_of(run, ATTUNE_OPERAND_ROTARY_SIN, position);
    for (int64_t t = 0; t < half; t++) {
        const float cosine = cosines.first[t * cosines.step];
        const float sine = sines.first[t * sines.step];
        const float first = x[t * step];
        const float second = x[t * step + apart];
        x[t * step] = first * cosine - second * sine;
        x[t * step + apart] = first * sine + second * cosine;
    }
}

/* ---- One new row of one sequence ---- */

/* seqused_k[b], or 0. */
static int64_t used_of(const struct attune_cpu_run *run, int64_t batch) {
    return attune_reference_has(run, ATTUNE_OPERAND_SEQUSED_K)
               ? attune_reference_integer(run, ATTUNE_OPERAND_SEQUSED_K, batch, 0)
               : 0;
}

/* value = stored * descale; a descale of 0 makes every value 0, and is stored as 0. */
static void divide(float descale, int64_t length, float *x) {
    for (int64_t d = 0; d < length && descale != 1.0f; d++) {
        x[d] = descale == 0.0f ? 0.0f : x[d] / descale;
    }
}

/* Row i of from goes to position used + i of the cache. */
static void append_row(const struct attune_cpu_run *run, int64_t batch, int64_t i, attune_operand from,
                       attune_operand cache) {
    const struct reference_sequence sequence = {.batch = batch};
    const int64_t position = used_of(run, batch) + i;
    float x[ATTUNE_GENERIC_LENGTH_MAX];
    if (!attune_reference_has_position(run, position, run->problem->keys)) {
        return;
    }
    for (int64_t h = 0; h < run->problem->heads_kv; h++) {
        const struct reference_vectors source = attune_reference_vectors(run, &sequence, from, h);
        const struct reference_vectors target = attune_reference_vectors(run, &sequence, cache, h);
        attune_generic_load_vector(&source, i, x);
        if (cache == ATTUNE_OPERAND_K) {
            rotate(run, position, x);
        }
        divide((float)attune_reference_descale(&target, position), source.length, x);
        attune_generic_store_vector(&target, position, x);
    }
}

static void rotate_q_row(const struct attune_cpu_run *run, int64_t batch, int64_t i) {
    const struct reference_sequence sequence = {.batch = batch};
    const int64_t position = used_of(run, batch) + i;
    float x[ATTUNE_GENERIC_LENGTH_MAX];
    if (!attune_reference_has_position(run, position, INT64_MAX)) {
        return;
    }
    for (int64_t h = 0; h < run->problem->operand[ATTUNE_OPERAND_Q].shape[2]; h++) {
        const struct reference_vectors q = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_Q, h);
        const struct reference_vectors q_out = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_Q_OUT, h);
        attune_generic_load_vector(&q, i, x);
        rotate(run, position, x);
        attune_generic_store_vector(&q_out, i, x);
    }
}

/* ---- Append ---- */

static int64_t rows_of(const struct attune_cpu_run *run, attune_operand operand) {
    return attune_reference_has(run, operand) ? run->problem->operand[operand].shape[1] : 0;
}

/* Rows of one sequence: the new ones, then those of q. */
static void append_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const int64_t rows_new = rows_of(run, ATTUNE_OPERAND_K_NEW);
    const int64_t rows = rows_new + rows_of(run, ATTUNE_OPERAND_Q_OUT);
    const int64_t row = unit % rows;
    if (row < rows_new) {
        append_row(run, unit / rows, row, ATTUNE_OPERAND_K_NEW, ATTUNE_OPERAND_K);
        append_row(run, unit / rows, row, ATTUNE_OPERAND_V_NEW, ATTUNE_OPERAND_V);
    } else {
        rotate_q_row(run, unit / rows, row - rows_new);
    }
}

static void append_execute(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const int64_t rows = rows_of(run, ATTUNE_OPERAND_K_NEW) + rows_of(run, ATTUNE_OPERAND_Q_OUT);
    const int64_t units = problem->batch * rows;
    const double operations =
        (double)units * (double)problem->heads_kv * (double)(problem->head_dim + problem->head_dim_v);
    attune_cpu_team_run(run->team, units, operations, append_unit, run);
}

const struct attune_cpu_kernel attune_cpu_generic_append = {.execute = append_execute};
