/*
 * dK = scale dS^T Q and dV = (P o Z)^T dO, summed over the group's query heads: a tile of keys walks the tiles of rows.
 * Where a thread has all tiles of a key-value head, dQ = scale dS K is summed on the way, and P and dS are found once.
 * Source: arXiv 2307.08691, algorithm 2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/backward.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/generic/not_finite.h"
#include "backends/cpu/reference/operand.h"
#include "core/portable/work.h"

#define LANES ATTUNE_GENERIC_LANES

struct dkv_scratch {
    struct generic_gradient gradient;
    struct generic_matrix q; /* of the tile's rows, as rows */
    struct generic_matrix dout;
    struct generic_matrix weight; /* a row for each key, a column for each row of the tile */
    struct generic_matrix grad;
    struct generic_matrix dk;
    struct generic_matrix dv;
    struct generic_matrix k_room; /* only with dq */
    struct generic_clean k_clean;
    float *dq; /* panels of all rows, one query head of the group after the other; NULL: no dQ */
};

/* ---- Whether dQ is summed, too ----
 *
 * No result depends on it: a row's sum goes over the keys in the same order either way. */

#define DQ_BYTES_MAX (32 << 20) /* of a thread */

static int64_t dq_floats(const attune_problem *problem) {
    const int64_t group = problem->heads_q / problem->heads_kv;
    return attune_generic_panels(problem->rows) * attune_generic_round_up(problem->head_dim) * LANES * group;
}

/* Rows and heads first, so that nothing overflows. */
static bool dq_fits(const attune_problem *problem) {
    return problem->rows <= DQ_BYTES_MAX && problem->heads_q <= DQ_BYTES_MAX &&
           dq_floats(problem) * (int64_t)sizeof(float) <= DQ_BYTES_MAX;
}

static bool wants(const attune_problem *problem, attune_operand operand) {
    return problem->operand[operand].dtype != ATTUNE_DTYPE_NONE;
}

/* Sequences may be of very different lengths: one of them may be nearly all of the work. */
static bool has_lengths(const attune_problem *problem) {
    return wants(problem, ATTUNE_OPERAND_CU_SEQLENS_Q) || wants(problem, ATTUNE_OPERAND_CU_SEQLENS_K) ||
           wants(problem, ATTUNE_OPERAND_SEQUSED_Q) || wants(problem, ATTUNE_OPERAND_SEQUSED_K);
}

/* Heads dealt out whole must keep three quarters of the threads at work, as else the other way is faster. */
bool attune_generic_dkv_sums_dq(const attune_problem *problem, const attune_schedule *schedule, int32_t threads) {
    const int64_t heads = has_lengths(problem) ? problem->heads_kv : problem->batch * problem->heads_kv;
    const bool is_wanted =
        wants(problem, ATTUNE_OPERAND_DQ) && (wants(problem, ATTUNE_OPERAND_DK) || wants(problem, ATTUNE_OPERAND_DV));
    if (problem->batch * problem->heads_kv == 0 || !is_wanted || schedule->tile_rows % LANES != 0) {
        return false;
    }
    const bool is_even = 4 * heads >= 3 * attune_ceil_div(heads, threads) * threads;
    return is_even && dq_fits(problem);
}

/* ---- What a thread works with ---- */

static struct dkv_scratch scratch_cut(const attune_problem *problem, const attune_schedule *schedule, int32_t threads,
                                      char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t rows = schedule->tile_rows;
    const int64_t keys = schedule->tile_keys;
    struct dkv_scratch cut = {
        .gradient = attune_generic_gradient_take(&scratch, problem, rows, keys),
        .q = attune_generic_take_matrix(&scratch, rows, problem->head_dim),
        .dout = attune_generic_take_matrix(&scratch, rows, problem->head_dim_v),
        .weight = attune_generic_take_matrix(&scratch, keys, rows),
        .grad = attune_generic_take_matrix(&scratch, keys, rows),
        .dk = attune_generic_take_matrix(&scratch, keys, problem->head_dim),
        .dv = attune_generic_take_matrix(&scratch, keys, problem->head_dim_v),
    };
    if (attune_generic_dkv_sums_dq(problem, schedule, threads)) {
        cut.k_room = attune_generic_take_matrix(&scratch, keys, problem->head_dim);
        cut.dq = attune_reference_take(&scratch, dq_floats(problem), 1, sizeof(float));
    }
    *out_bytes = scratch.used_bytes;
    return cut;
}

uint64_t attune_generic_dkv_bytes(const attune_problem *problem, const attune_schedule *schedule, int32_t threads) {
    uint64_t bytes = 0;
    (void)scratch_cut(problem, schedule, threads, NULL, &bytes);
    return bytes;
}

static void clear(struct generic_matrix matrix, int64_t columns) {
    const int64_t lines = attune_generic_panels(columns) * matrix.rows;
    memset(matrix.value, 0, (size_t)(lines * LANES) * sizeof(float));
}

/* ---- A tile of rows ---- */

/* Q or dO as rows, what is not finite as 0. Returns whether there is such a number. */
static bool load_rows(const struct generic_tile *tile, attune_operand operand, int64_t first, int64_t count,
                      struct generic_matrix out) {
    const struct reference_vectors vectors = attune_generic_lane_vectors(tile, operand, tile->first.head);
    attune_generic_load_rows(&vectors, first, count, out);
    return attune_generic_clean(out, count, attune_generic_panels(vectors.length), out).is_changed;
}

/* P o Z and dS of the whole tile: 0 for strips that see none of the keys. */
static void fill_pairs(const struct generic_tile *tile, attune_interval keys, const struct dkv_scratch *scratch) {
    const int64_t lines =
        (keys.end - keys.begin + ATTUNE_GENERIC_BLOCK - 1) / ATTUNE_GENERIC_BLOCK * ATTUNE_GENERIC_BLOCK;
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_span span = attune_generic_strip_span(&tile->strip[s], keys);
        float *weight = attune_generic_at(scratch->weight, s, 0);
        float *grad = attune_generic_at(scratch->grad, s, 0);
        if (span.end - span.begin < lines) {
            memset(weight, 0, (size_t)(lines * LANES) * sizeof(float));
            memset(grad, 0, (size_t)(lines * LANES) * sizeof(float));
        }
        if (span.begin < span.end) {
            attune_generic_gradient_strip(tile, s, span, &scratch->gradient, false, weight, grad);
        }
    }
}

/* Panels of a query head's dQ. */
static float *dq_of(const attune_problem *problem, int64_t head, const struct dkv_scratch *scratch) {
    const int64_t group = problem->heads_q / problem->heads_kv;
    return scratch->dq + dq_floats(problem) / group * (head % group);
}

static void add_dq(const struct generic_tile *tile, int64_t first, attune_interval keys,
                   const struct dkv_scratch *scratch) {
    const int64_t head_dim = tile->run->problem->head_dim;
    float *dq = dq_of(tile->run->problem, tile->first.head, scratch);
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_span span = attune_generic_strip_span(&tile->strip[s], keys);
        if (span.begin < span.end) {
            const float *grad = attune_generic_at(scratch->grad, s, 0);
            float *panel = attune_generic_panel(dq, first / LANES + s, head_dim);
            attune_generic_multiply_transposed(scratch->k_clean.matrix, span.begin, span.end, grad, head_dim, LANES,
                                               attune_generic_keep, panel);
            if (scratch->k_clean.is_changed) {
                attune_generic_add_not_finite_keys(scratch->gradient.k, span, head_dim,
                                                   attune_generic_at(scratch->weight, s, 0), grad, panel);
            }
        }
    }
}

static void add_rows(const struct generic_tile *tile, int64_t first, int64_t count, attune_interval keys,
                     const struct dkv_scratch *scratch) {
    const attune_problem *problem = tile->run->problem;
    const struct generic_gradient *gradient = &scratch->gradient;
    attune_generic_gradient_load(tile, gradient);
    const bool has_more_of_q = load_rows(tile, ATTUNE_OPERAND_Q, first, count, scratch->q);
    const bool has_more_of_dout = load_rows(tile, ATTUNE_OPERAND_DOUT, first, count, scratch->dout);
    fill_pairs(tile, keys, scratch);
    attune_generic_multiply_add(scratch->grad, keys.end - keys.begin, scratch->q, count,
                                attune_generic_panels(problem->head_dim), scratch->dk);
    attune_generic_multiply_add(scratch->weight, keys.end - keys.begin, scratch->dout, count,
                                attune_generic_panels(problem->head_dim_v), scratch->dv);
    if (has_more_of_q) {
        attune_generic_add_not_finite_rows(tile, keys, gradient->q, problem->head_dim, scratch->weight, scratch->grad,
                                           scratch->dk);
    }
    if (has_more_of_dout) {
        attune_generic_add_not_finite_rows(tile, keys, gradient->dout, problem->head_dim_v, scratch->weight,
                                           scratch->weight, scratch->dv);
    }
    if (scratch->dq != NULL) {
        add_dq(tile, first, keys, scratch);
    }
}

/* ---- A tile of keys ---- */

static void add_head(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                     attune_interval keys, const struct dkv_scratch *scratch) {
    const int64_t size = run->schedule->tile_rows;
    attune_interval rows = attune_mask_rows(sequence->mask, keys.begin, keys.end - keys.begin);
    rows.begin = rows.begin / LANES * LANES; /* where strips of dQ begin */
    const attune_interval tiles = attune_interval_tiles(rows, size);
    for (int64_t index = tiles.begin; index < tiles.end; index++) {
        const attune_interval part = attune_interval_cut(index * size, (index + 1) * size, rows.begin, rows.end);
        const struct generic_rows wanted = {
            .batch = sequence->batch,
            .head = head,
            .pack = 1,
            .first = part.begin,
            .count = part.end - part.begin,
        };
        struct generic_tile tile;
        if (attune_generic_tile_make(run, sequence, &wanted, scratch->gradient.strip, &tile) &&
            attune_generic_tile_lists(&tile, keys)) {
            add_rows(&tile, wanted.first, wanted.count, keys, scratch);
        }
    }
}

static void store_if_given(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                           attune_operand operand, int64_t head, attune_interval keys, struct generic_matrix rows,
                           float factor) {
    if (attune_reference_has(run, operand)) {
        const struct reference_vectors vectors = attune_reference_vectors(run, sequence, operand, head);
        attune_generic_store_rows(&vectors, keys.begin, keys.end - keys.begin, rows, factor);
    }
}

/* The tile number index of a key-value head. A key under the left padding or past the sequence's end has no row in dk
 * and dv. */
static void key_tile(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head_kv,
                     int64_t index, struct dkv_scratch *scratch) {
    const attune_problem *problem = run->problem;
    const int64_t size = run->schedule->tile_keys;
    const int64_t group = problem->heads_q / problem->heads_kv;
    const attune_interval keys =
        attune_interval_cut(index * size, (index + 1) * size, sequence->mask.leftpad, sequence->mask.keys);
    if (keys.begin == keys.end) {
        return;
    }
    const int64_t count = keys.end - keys.begin;
    const struct reference_vectors k = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, head_kv);
    attune_generic_load_rows(&k, keys.begin, count, scratch->gradient.k);
    attune_generic_load_rows(&v, keys.begin, count, scratch->gradient.v);
    if (scratch->dq != NULL) {
        const int64_t lines = attune_ceil_div(count, ATTUNE_GENERIC_BLOCK) * ATTUNE_GENERIC_BLOCK;
        scratch->k_clean =
            attune_generic_clean(scratch->gradient.k, lines, attune_generic_panels(k.length), scratch->k_room);
    }
    clear(scratch->dk, problem->head_dim);
    clear(scratch->dv, problem->head_dim_v);
    for (int64_t head = head_kv * group; head < (head_kv + 1) * group; head++) {
        add_head(run, sequence, head, keys, scratch);
    }
    store_if_given(run, sequence, ATTUNE_OPERAND_DK, head_kv, keys, scratch->dk,
                   attune_f32_saturated(run->bindings->scale));
    store_if_given(run, sequence, ATTUNE_OPERAND_DV, head_kv, keys, scratch->dv, 1.0f);
}

static struct dkv_scratch scratch_of(const struct attune_cpu_run *run, int32_t thread) {
    const int32_t threads = run->team->threads;
    uint64_t bytes = attune_generic_dkv_bytes(run->problem, run->schedule, threads);
    return scratch_cut(run->problem, run->schedule, threads, attune_generic_thread_base(run, thread, bytes), &bytes);
}

/* A unit is a tile of keys of one key-value head of one sequence. */
static void tile_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const int64_t tiles = attune_ceil_div(problem->keys, run->schedule->tile_keys);
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / tiles / problem->heads_kv);
    struct dkv_scratch scratch = scratch_of(run, thread);
    key_tile(run, &sequence, unit / tiles % problem->heads_kv, unit % tiles, &scratch);
}

static void store_dq(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                     const struct dkv_scratch *scratch) {
    const struct reference_vectors dq = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_DQ, head);
    float *panels = dq_of(run->problem, head, scratch);
    for (int64_t row = 0; row < sequence->mask.rows; row++) {
        attune_generic_store_lane(&dq, row, attune_generic_panel(panels, row / LANES, dq.length) + row % LANES,
                                  attune_f32_saturated(run->bindings->scale));
    }
}

/* A unit is a key-value head of one sequence. */
static void head_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const int64_t head_kv = unit % problem->heads_kv;
    const int64_t group = problem->heads_q / problem->heads_kv;
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / problem->heads_kv);
    struct dkv_scratch scratch = scratch_of(run, thread);
    memset(scratch.dq, 0, (size_t)dq_floats(problem) * sizeof(float));
    for (int64_t index = 0; index * run->schedule->tile_keys < sequence.mask.keys; index++) {
        key_tile(run, &sequence, head_kv, index, &scratch);
    }
    for (int64_t head = head_kv * group; head < (head_kv + 1) * group; head++) {
        store_dq(run, &sequence, head, &scratch);
    }
}

void attune_generic_dkv(const struct attune_cpu_run *run, double operations) {
    const attune_problem *problem = run->problem;
    const int64_t heads = problem->batch * problem->heads_kv;
    const int64_t tiles = attune_ceil_div(problem->keys, run->schedule->tile_keys);
    if (attune_generic_dkv_sums_dq(problem, run->schedule, run->team->threads)) {
        attune_cpu_team_run(run->team, heads, 2.5 * operations, head_unit, run);
    } else {
        attune_cpu_team_run(run->team, heads * tiles, 2 * operations, tile_unit, run);
    }
}
