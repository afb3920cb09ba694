/*
 * dQ = scale dS K: a tile of rows walks the tiles of keys. Source: arXiv 2307.08691, algorithm 2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/backward.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/generic/not_finite.h"
#include "core/portable/work.h"

#define LANES ATTUNE_GENERIC_LANES

struct dq_scratch {
    struct generic_gradient gradient;
    struct generic_matrix k_room;
    float *weight; /* of a strip */
    float *grad;
    float *dq; /* panels */
    float *factor;
};

static struct dq_scratch scratch_cut(const attune_problem *problem, const attune_schedule *schedule, int32_t threads,
                                     char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t rows = attune_generic_tiles_at_once(schedule, threads) * schedule->tile_rows;
    const int64_t keys = attune_generic_round_up(schedule->tile_keys);
    const struct dq_scratch cut = {
        .gradient = attune_generic_gradient_take(&scratch, problem, rows, keys),
        .k_room = attune_generic_take_matrix(&scratch, keys, problem->head_dim),
        .weight = attune_generic_take_lines(&scratch, keys),
        .grad = attune_generic_take_lines(&scratch, keys),
        .dq = attune_generic_take_panels(&scratch, rows, problem->head_dim),
        .factor = attune_generic_take_lines(&scratch, attune_generic_panels(rows)),
    };
    *out_bytes = scratch.used_bytes;
    return cut;
}

uint64_t attune_generic_dq_bytes(const attune_problem *problem, const attune_schedule *schedule, int32_t threads) {
    uint64_t bytes = 0;
    (void)scratch_cut(problem, schedule, threads, NULL, &bytes);
    return bytes;
}

static void add_keys(const struct generic_tile *tile, attune_interval keys, const struct dq_scratch *scratch) {
    const int64_t head_dim = tile->run->problem->head_dim;
    const int64_t lines = (keys.end - keys.begin + ATTUNE_GENERIC_BLOCK - 1) / ATTUNE_GENERIC_BLOCK;
    const struct generic_clean k = attune_generic_clean(scratch->gradient.k, lines * ATTUNE_GENERIC_BLOCK,
                                                        attune_generic_panels(head_dim), scratch->k_room);
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_span span = attune_generic_strip_span(&tile->strip[s], keys);
        if (span.begin < span.end) {
            attune_generic_gradient_strip(tile, s, span, &scratch->gradient, false, scratch->weight, scratch->grad);
            float *dq = attune_generic_panel(scratch->dq, s, head_dim);
            attune_generic_multiply_transposed(k.matrix, span.begin, span.end, scratch->grad, head_dim, LANES,
                                               attune_generic_keep, dq);
            if (k.is_changed) {
                attune_generic_add_not_finite_keys(scratch->gradient.k, span, head_dim, scratch->weight, scratch->grad,
                                                   dq);
            }
        }
    }
}

static void dq_tile(const struct generic_tile *tile, const struct dq_scratch *scratch) {
    const struct attune_cpu_run *run = tile->run;
    const struct reference_sequence *sequence = &tile->first.sequence;
    const int64_t head_kv = tile->first.head_kv;
    const struct reference_vectors k = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, head_kv);
    const attune_interval tiles = attune_interval_tiles(tile->keys, run->schedule->tile_keys);
    const int64_t lines = tile->strips * attune_generic_round_up(run->problem->head_dim);

    attune_generic_gradient_load(tile, &scratch->gradient);
    memset(scratch->dq, 0, (size_t)(lines * LANES) * sizeof(float));
    for (int64_t index = tiles.begin; index < tiles.end; index++) {
        const attune_interval keys = attune_generic_key_tile(tile, index);
        if (attune_generic_tile_lists(tile, keys)) {
            attune_generic_load_rows(&k, keys.begin, keys.end - keys.begin, scratch->gradient.k);
            attune_generic_load_rows(&v, keys.begin, keys.end - keys.begin, scratch->gradient.v);
            add_keys(tile, keys, scratch);
        }
    }
    for (int64_t n = 0; n < tile->strips * LANES; n++) {
        scratch->factor[n] = attune_f32_saturated(run->bindings->scale);
    }
    attune_generic_tile_store(tile, ATTUNE_OPERAND_DQ, scratch->dq, scratch->factor);
}

/* A unit is some tiles of rows of one query head, as in forward. */
static void dq_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_schedule *schedule = run->schedule;
    const int32_t threads = run->team->threads;
    const int64_t at_once = attune_generic_tiles_at_once(schedule, threads);
    const int64_t units = attune_ceil_div(schedule->grid[0], at_once);
    const int64_t count = at_once * schedule->tile_rows;
    const struct generic_rows rows =
        attune_generic_rows_at(run, unit / units, (units - 1 - unit % units) * count, count);
    const struct reference_sequence sequence = attune_reference_sequence(run, rows.batch);
    uint64_t bytes = attune_generic_dq_bytes(run->problem, schedule, threads);
    const struct dq_scratch scratch =
        scratch_cut(run->problem, schedule, threads, attune_generic_thread_base(run, thread, bytes), &bytes);
    struct generic_tile tile;
    if (attune_generic_tile_make(run, &sequence, &rows, scratch.gradient.strip, &tile)) {
        dq_tile(&tile, &scratch);
    }
}

void attune_generic_dq(const struct attune_cpu_run *run, double operations) {
    const int64_t at_once = attune_generic_tiles_at_once(run->schedule, run->team->threads);
    const int64_t units = attune_ceil_div(run->schedule->grid[0], at_once) * run->schedule->grid[2];
    attune_cpu_team_run(run->team, units, 1.5 * operations, dq_unit, run);
}
