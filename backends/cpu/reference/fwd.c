/*
 * The golden forward: docs/semantics.md as code, in f64. Every other forward is held to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/head.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/store.h"
#include "backends/cpu/reference/tile.h"

/* ---- What a thread works with ---- */

struct forward_scratch {
    double *q;      /* rows, D each */
    double *o;      /* rows, Dv each: the sum of p v */
    double *vector; /* one of k or v */
    struct reference_matrix score;
    bool *seen; /* of the same shape: the score is not -inf */
};

static int64_t tile_rows(const attune_problem *problem) {
    return attune_min(problem->rows, ATTUNE_REFERENCE_TILE_ROWS);
}

static struct forward_scratch scratch_cut(const attune_problem *problem, char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t rows = tile_rows(problem);
    const struct forward_scratch cut = {
        .q = attune_reference_take(&scratch, rows, problem->head_dim, sizeof(double)),
        .o = attune_reference_take(&scratch, rows, problem->head_dim_v, sizeof(double)),
        .vector =
            attune_reference_take(&scratch, 1, attune_max(problem->head_dim, problem->head_dim_v), sizeof(double)),
        .score = attune_reference_matrix_take(&scratch, rows, problem->keys),
        .seen = attune_reference_take(&scratch, rows, problem->keys, sizeof(bool)),
    };
    *out_bytes = scratch.used_bytes;
    return cut;
}

static uint64_t forward_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                        int32_t threads) {
    (void)schedule;
    uint64_t thread_bytes = 0;
    (void)scratch_cut(problem, NULL, &thread_bytes);
    return attune_reference_scratch_bytes(0, thread_bytes, threads);
}

static struct forward_scratch scratch_of(const struct attune_cpu_run *run, int32_t thread) {
    uint64_t thread_bytes = 0;
    (void)scratch_cut(run->problem, NULL, &thread_bytes);
    return scratch_cut(run->problem, run->workspace + (uint64_t)thread * thread_bytes, &thread_bytes);
}

/* ---- One row of scores: docs/semantics.md, "The score" ---- */

struct row_state {
    double max; /* m */
    double sum; /* l; 0: no visible key and no sink */
};

/* m, over what is seen and the sink. A NaN is kept: the row becomes NaN. */
static double row_max(double sink, const double *score, const bool *seen, attune_interval keys) {
    double max = sink;
    for (int64_t j = keys.begin; j < keys.end; j++) {
        if (seen[j] && (score[j] > max || isnan(score[j]))) {
            max = score[j];
        }
    }
    return max;
}

/* s in place of the dot products, and what is seen. */
static void row_score(const struct reference_head *head, int64_t i, attune_interval keys, double *score, bool *seen) {
    for (int64_t j = keys.begin; j < keys.end; j++) {
        score[j] = attune_reference_score(head, i, j, score[j]);
        seen[j] = score[j] != -INFINITY;
    }
}

/* p in place of s. */
static struct row_state row_softmax(double sink, attune_interval keys, double *score, const bool *seen) {
    struct row_state state = {.max = row_max(sink, score, seen, keys)};
    if (state.max == -INFINITY) {
        return state;
    }
    for (int64_t j = keys.begin; j < keys.end; j++) {
        if (seen[j]) {
            score[j] = exp(score[j] - state.max);
            state.sum += score[j];
        }
    }
    state.sum += exp(sink - state.max);
    return state;
}

static void row_dropout(const struct reference_head *head, int64_t i, attune_interval keys, double *p) {
    if (head->run->problem->dropout_rate > 0) {
        for (int64_t j = keys.begin; j < keys.end; j++) {
            p[j] *= attune_reference_dropout_factor(head, i, j);
        }
    }
}

/* ---- Epilogue ---- */

/* p / l over every key of the sequence, 0 where it is not seen. */
static void store_probs(const struct reference_head *head, int64_t i, attune_interval keys, const double *p,
                        const bool *seen, double sum) {
    const struct attune_cpu_run *run = head->run;
    if (!attune_reference_has(run, ATTUNE_OPERAND_PROBS)) {
        return;
    }
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_PROBS];
    char *row = attune_reference_address(run, ATTUNE_OPERAND_PROBS, head->sequence.batch, head->head, i);
    for (int64_t j = 0; j < head->sequence.mask.keys; j++) {
        const bool in_row = j >= keys.begin && j < keys.end && seen[j];
        attune_reference_store(layout->dtype, row, j * layout->stride[3], in_row ? p[j] / sum : 0.0);
    }
}

/* m + log l; -inf where both are. */
static void store_lse(const struct reference_head *head, int64_t i, struct row_state state) {
    const struct attune_cpu_run *run = head->run;
    if (attune_reference_has(run, ATTUNE_OPERAND_LSE)) {
        char *lse = attune_reference_address(run, ATTUNE_OPERAND_LSE, head->sequence.batch, head->head,
                                             head->sequence.first_row + i);
        attune_reference_store(run->problem->operand[ATTUNE_OPERAND_LSE].dtype, lse, 0, state.max + log(state.sum));
    }
}

static void divide_by_sum(double *o, int64_t length, double sum) {
    for (int64_t d = 0; d < length; d++) {
        o[d] = sum == 0 ? 0.0 : o[d] / sum;
    }
}

/* ---- Forward ---- */

static void forward_tile(const struct reference_head *head, int64_t first, int64_t count,
                         const struct forward_scratch *scratch) {
    const struct attune_cpu_run *run = head->run;
    const struct reference_sequence *sequence = &head->sequence;
    const struct reference_vectors q = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_Q, head->head);
    const struct reference_vectors k = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, head->head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, head->head_kv);
    const struct reference_vectors o = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_O, head->head);
    struct row_state state[ATTUNE_REFERENCE_TILE_ROWS];

    /* Load Q. */
    attune_reference_tile_load(&q, first, count, scratch->q);

    /* Bounds of the KV loop. */
    const attune_interval keys = attune_mask_keys(sequence->mask, first, count);

    /* S = Q K^T. */
    attune_reference_tile_dot(scratch->q, count, &k, keys, scratch->vector, scratch->score);

    /* Mask, softmax. */
    for (int64_t r = 0; r < count; r++) {
        double *row = scratch->score.value + r * scratch->score.width;
        bool *seen = scratch->seen + r * scratch->score.width;
        row_score(head, first + r, keys, row, seen);
        state[r] = row_softmax(head->sink, keys, row, seen);
        store_probs(head, first + r, keys, row, seen, state[r].sum);
        row_dropout(head, first + r, keys, row);
    }

    /* O = P V. */
    for (int64_t d = 0; d < count * o.length; d++) {
        scratch->o[d] = 0.0;
    }
    attune_reference_tile_add(scratch->score, scratch->seen, count, &v, keys, scratch->vector, scratch->o);

    /* Epilogue: O / l, and LSE. */
    for (int64_t r = 0; r < count; r++) {
        divide_by_sum(scratch->o + r * o.length, o.length, state[r].sum);
        store_lse(head, first + r, state[r]);
    }
    attune_reference_tile_store(&o, first, count, scratch->o);
}

/* A unit is a tile of rows of one query head of one sequence. */
static void forward_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const int64_t tiles = attune_ceil_div(run->problem->rows, ATTUNE_REFERENCE_TILE_ROWS);
    const int64_t first = unit % tiles * ATTUNE_REFERENCE_TILE_ROWS;
    const int64_t h = unit / tiles % run->problem->heads_q;
    const int64_t b = unit / tiles / run->problem->heads_q;
    const struct reference_sequence sequence = attune_reference_sequence(run, b);
    const int64_t count = attune_clamp(sequence.mask.rows - first, 0, ATTUNE_REFERENCE_TILE_ROWS);
    if (count > 0) {
        const struct reference_head head = attune_reference_head(run, &sequence, h);
        const struct forward_scratch scratch = scratch_of(run, thread);
        forward_tile(&head, first, count, &scratch);
    }
}

static void forward_execute(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const double pairs =
        (double)problem->batch * (double)problem->heads_q * (double)problem->rows * (double)problem->keys;
    const double operations = pairs * (double)(problem->head_dim + problem->head_dim_v);
    const int64_t tiles = attune_ceil_div(problem->rows, ATTUNE_REFERENCE_TILE_ROWS);
    attune_cpu_team_run(run->team, problem->batch * problem->heads_q * tiles, operations, forward_unit, run);
}

const struct attune_cpu_kernel attune_cpu_reference_forward = {
    .workspace_bytes = forward_workspace_bytes,
    .execute = forward_execute,
};
