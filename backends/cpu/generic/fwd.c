/*
 * FlashAttention's forward: a tile of rows walks the tiles of keys with an online softmax.
 *
 * Source: Dao, FlashAttention-2 (arXiv 2307.08691), algorithm 1; Flash-Decoding for the splits.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/combine.h"
#include "backends/cpu/generic/forward.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"
#include "core/portable/work.h"

#define LANES ATTUNE_GENERIC_LANES

/* ---- What a thread works with ---- */

static struct generic_forward scratch_cut(const attune_problem *problem, const attune_schedule *schedule,
                                          int32_t threads, char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t rows = attune_generic_tiles_at_once(schedule, threads) * schedule->tile_rows;
    const int64_t strips = attune_generic_panels(rows);
    const int64_t keys = attune_generic_round_up(schedule->tile_keys);
    const bool has_dropout = problem->dropout_rate > 0;
    const struct generic_forward cut = {
        .strip = attune_reference_take(&scratch, strips, 1, sizeof(struct generic_strip)),
        .state = attune_reference_take(&scratch, strips, 1, sizeof(struct generic_softmax)),
        .inverse = attune_generic_take_lines(&scratch, strips),
        .q = attune_generic_take_panels(&scratch, rows, problem->head_dim),
        .o = attune_generic_take_panels(&scratch, rows, problem->head_dim_v),
        .k = attune_generic_take_matrix(&scratch, schedule->tile_keys, problem->head_dim),
        .v = attune_generic_take_matrix(&scratch, schedule->tile_keys, problem->head_dim_v),
        .score = attune_generic_take_lines(&scratch, keys),
        .dropout = has_dropout ? attune_generic_take_lines(&scratch, keys) : NULL,
    };
    *out_bytes = scratch.used_bytes;
    return cut;
}

static uint64_t forward_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                        int32_t threads) {
    uint64_t thread_bytes = 0;
    (void)scratch_cut(problem, schedule, threads, NULL, &thread_bytes);
    return attune_reference_scratch_bytes(attune_generic_parts_bytes(problem, schedule), thread_bytes, threads);
}

static struct generic_forward scratch_of(const struct attune_cpu_run *run, int32_t thread) {
    uint64_t thread_bytes = 0;
    const int32_t threads = run->team->threads;
    (void)scratch_cut(run->problem, run->schedule, threads, NULL, &thread_bytes);
    char *base = run->workspace + attune_generic_parts_bytes(run->problem, run->schedule);
    return scratch_cut(run->problem, run->schedule, threads, base + (uint64_t)thread * thread_bytes, &thread_bytes);
}

/* ---- A tile of rows before its keys ---- */

/* Exactly one split is given the sink. */
static void state_begin(const struct generic_strip *strip, bool has_sink, struct generic_softmax *out_state) {
    for (int64_t lane = 0; lane < LANES; lane++) {
        const attune_softmax state = has_sink ? attune_softmax_from_logit(strip->sink[lane]) : attune_softmax_empty();
        out_state->max[lane] = state.max;
        out_state->sum[lane] = state.sum;
    }
}

/* Lanes that are not in use are multiplied too, whatever they hold: not with numbers that slow arithmetic down. */
static void scratch_clear(const struct generic_tile *tile, const struct generic_forward *scratch) {
    const attune_problem *problem = tile->run->problem;
    const int64_t o_lines = tile->strips * attune_generic_round_up(problem->head_dim_v);
    const int64_t score_lines = attune_generic_round_up(tile->run->schedule->tile_keys);
    memset(scratch->o, 0, (size_t)(o_lines * LANES) * sizeof(float));
    memset(scratch->score, 0, (size_t)(score_lines * LANES) * sizeof(float));
}

/* ---- A strip of rows and a tile of keys ---- */

/* scale Q K^T, of lines begin to end - 1. */
static void multiply_keys(const struct generic_tile *tile, int64_t s, int64_t begin, int64_t end,
                          const struct generic_forward *scratch) {
    const int64_t head_dim = tile->run->problem->head_dim;
    attune_generic_multiply(scratch->k, begin, end, attune_generic_panel(scratch->q, s, head_dim), head_dim,
                            tile->strip[s].lanes, attune_f32_saturated(tile->run->bindings->scale), scratch->score);
}

void attune_generic_forward_score(const struct generic_tile *tile, int64_t s, struct generic_span span,
                                  const struct generic_forward *scratch) {
    multiply_keys(tile, s, span.begin, span.end, scratch);
    attune_generic_score(tile, &tile->strip[s], span, scratch->score);
}

static void apply_dropout(const struct generic_tile *tile, const struct generic_strip *strip, struct generic_span span,
                          const struct generic_forward *scratch) {
    if (scratch->dropout == NULL) {
        return;
    }
    attune_generic_dropout(tile, strip, span, scratch->dropout);
    for (int64_t n = span.begin * LANES; n < span.end * LANES; n++) {
        scratch->score[n] *= scratch->dropout[n];
    }
}

/* From scores on. */
static void forward_scored(const struct generic_tile *tile, int64_t s, struct generic_span span,
                           const struct generic_forward *scratch) {
    const int64_t head_dim_v = tile->run->problem->head_dim_v;
    const struct generic_strip *strip = &tile->strip[s];
    float factor[LANES];

    /* Softmax update. */
    attune_generic_softmax_add(&scratch->state[s], span, scratch->score, factor);
    apply_dropout(tile, strip, span, scratch);

    /* O += P V. */
    attune_generic_multiply_transposed(scratch->v, span.begin, span.end, scratch->score, head_dim_v, strip->lanes,
                                       factor, attune_generic_panel(scratch->o, s, head_dim_v));
}

static void forward_strip(const struct generic_tile *tile, int64_t s, attune_interval keys,
                          const struct generic_forward *scratch) {
    const struct generic_span span = attune_generic_strip_span(&tile->strip[s], keys);
    if (span.begin < span.end) {
        /* S = Q K^T, mask. */
        attune_generic_forward_score(tile, s, span, scratch);
        forward_scored(tile, s, span, scratch);
    }
}

/* ---- A tile of keys ---- */

struct keys_and_values {
    struct reference_vectors k;
    struct reference_vectors v;
};

static void load_values(const struct keys_and_values *from, attune_interval keys,
                        const struct generic_forward *scratch) {
    attune_generic_load_rows(&from->v, keys.begin, keys.end - keys.begin, scratch->v);
}

static void forward_keys(const struct generic_tile *tile, const struct keys_and_values *from, attune_interval keys,
                         const struct generic_forward *scratch) {
    attune_generic_load_rows(&from->k, keys.begin, keys.end - keys.begin, scratch->k);
    load_values(from, keys, scratch);
    for (int64_t s = 0; s < tile->strips; s++) {
        forward_strip(tile, s, keys, scratch);
    }
}

#define KEYS_IN_TURN (2 * ATTUNE_GENERIC_BLOCK)

/* One strip, as in decode: memory decides. Some keys are loaded and multiplied, while V and the next tile's keys are on
 * their way. */
static void forward_keys_of_few_rows(const struct generic_tile *tile, const struct keys_and_values *from,
                                     attune_interval keys, const struct generic_forward *scratch) {
    const struct generic_span span = attune_generic_strip_span(&tile->strip[0], keys);
    for (int64_t begin = 0; begin < keys.end - keys.begin; begin += KEYS_IN_TURN) {
        const int64_t first = keys.begin + begin;
        const int64_t count = attune_min(KEYS_IN_TURN, keys.end - first);
        const struct generic_matrix rows = {scratch->k.value + begin * LANES, scratch->k.rows};
        attune_generic_load_rows(&from->k, first, count, rows);
        attune_generic_prefetch_rows(&from->v, first, count);
        attune_generic_prefetch_rows(&from->k, keys.end + begin, attune_min(count, tile->keys.end - keys.end - begin));
        multiply_keys(tile, 0, attune_max(begin, span.begin), attune_min(begin + KEYS_IN_TURN, span.end), scratch);
    }
    if (span.begin < span.end) {
        attune_generic_score(tile, &tile->strip[0], span, scratch->score);
        load_values(from, keys, scratch);
        forward_scored(tile, 0, span, scratch);
    }
}

/* ---- Epilogue ---- */

/* The inverse of each row's sum, and its lse where the caller wants it. */
static void finish_strip(const struct generic_tile *tile, const struct generic_strip *strip,
                         const struct generic_softmax *state, float *out_inverse) {
    const bool has_lse = attune_reference_has(tile->run, ATTUNE_OPERAND_LSE);
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        const attune_softmax_result result =
            attune_softmax_finish((attune_softmax){state->max[lane], state->sum[lane]});
        out_inverse[lane] = result.inverse;
        if (has_lse) {
            *(float *)attune_generic_lane_address(tile, strip, lane, ATTUNE_OPERAND_LSE) = result.lse;
        }
    }
}

static void store_whole(const struct generic_tile *tile, const struct generic_forward *scratch) {
    for (int64_t s = 0; s < tile->strips; s++) {
        finish_strip(tile, &tile->strip[s], &scratch->state[s], scratch->inverse + s * LANES);
    }
    attune_generic_store_probs(tile, scratch);
    attune_generic_tile_store(tile, ATTUNE_OPERAND_O, scratch->o, scratch->inverse);
}

static void store_part(const struct generic_tile *tile, int64_t split, const struct generic_forward *scratch) {
    const int64_t length = tile->run->problem->head_dim_v;
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_strip *strip = &tile->strip[s];
        for (int64_t lane = 0; lane < strip->lanes; lane++) {
            const struct generic_part part =
                attune_generic_part(tile->run, split, tile->first.sequence.batch, strip->head[lane], strip->row[lane]);
            const float *o = attune_generic_panel(scratch->o, s, length) + lane;
            *part.max = scratch->state[s].max[lane];
            *part.sum = scratch->state[s].sum[lane];
            for (int64_t d = 0; d < length; d++) {
                part.o[d] = o[d * LANES];
            }
        }
    }
}

/* ---- Forward ---- */

static void forward_tile(const struct generic_tile *tile, int64_t split, const struct generic_forward *scratch) {
    const struct attune_cpu_run *run = tile->run;
    const struct reference_sequence *sequence = &tile->first.sequence;
    const int64_t head_kv = tile->first.head_kv;
    const struct keys_and_values from = {
        attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, head_kv),
        attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, head_kv),
    };

    /* Load Q. */
    attune_generic_tile_load(tile, ATTUNE_OPERAND_Q, scratch->q);
    scratch_clear(tile, scratch);
    for (int64_t s = 0; s < tile->strips; s++) {
        state_begin(&tile->strip[s], split == 0, &scratch->state[s]);
    }

    /* Bounds of the KV loop. */
    const attune_interval all = attune_interval_tiles(tile->keys, run->schedule->tile_keys);
    const attune_interval tiles = attune_split_tiles(all, run->schedule->splits, split);
    for (int64_t index = tiles.begin; index < tiles.end; index++) {
        const attune_interval keys = attune_generic_key_tile(tile, index);
        if (attune_generic_tile_lists(tile, keys)) {
            (tile->strips == 1 ? forward_keys_of_few_rows : forward_keys)(tile, &from, keys, scratch);
        }
    }

    /* Epilogue: O / l, and LSE. */
    if (run->schedule->splits > 1) {
        store_part(tile, split, scratch);
    } else {
        store_whole(tile, scratch);
    }
}

/* A unit is some tiles of rows and a split. Those that see most keys under a causal mask come first, so that the
 * threads end together. */
static void forward_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_schedule *schedule = run->schedule;
    const int64_t at_once = attune_generic_tiles_at_once(schedule, run->team->threads);
    const int64_t units = attune_ceil_div(schedule->grid[0], at_once);
    const attune_work work = attune_work_unfold(unit, units, schedule->splits);
    const int64_t count = at_once * schedule->tile_rows;
    const struct generic_rows rows =
        attune_generic_rows_at(run, work.batch_head, (units - 1 - work.row_tile) * count, count);
    const struct reference_sequence sequence = attune_reference_sequence(run, rows.batch);
    const struct generic_forward scratch = scratch_of(run, thread);
    struct generic_tile tile;
    if (attune_generic_tile_make(run, &sequence, &rows, scratch.strip, &tile)) {
        forward_tile(&tile, work.split, &scratch);
    }
}

static void forward_execute(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const attune_schedule *schedule = run->schedule;
    const int64_t at_once = attune_generic_tiles_at_once(schedule, run->team->threads);
    const int64_t units = attune_ceil_div(schedule->grid[0], at_once) * schedule->splits * schedule->grid[2];
    const double pairs =
        (double)problem->batch * (double)problem->heads_q * (double)problem->rows * (double)problem->keys;
    const double operations = pairs * (double)(problem->head_dim + problem->head_dim_v);
    attune_cpu_team_run(run->team, units, operations, forward_unit, run);
    if (schedule->splits > 1) {
        attune_generic_combine(run);
    }
}

const struct attune_cpu_kernel attune_cpu_generic_forward = {
    .workspace_bytes = forward_workspace_bytes,
    .execute = forward_execute,
};
