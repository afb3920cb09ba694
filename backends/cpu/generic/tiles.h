/*
 * The walk of a tile of rows over tiles of keys, and room for both in the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_TILES_H
#define ATTUNE_GENERIC_TILES_H

#include "backends/cpu/generic/product.h"
#include "backends/cpu/generic/rows.h"
#include "backends/cpu/generic/score.h"
#include "backends/cpu/reference/scratch.h"

/* ---- Room ---- */

/* LANES elements of each of count lines. */
static inline float *attune_generic_take_lines(struct reference_scratch *scratch, int64_t count) {
    return attune_reference_take(scratch, count, ATTUNE_GENERIC_LANES, sizeof(float));
}

static inline struct generic_matrix attune_generic_take_matrix(struct reference_scratch *scratch, int64_t rows,
                                                               int64_t columns) {
    const int64_t room = attune_generic_round_up(rows);
    return (struct generic_matrix){
        attune_generic_take_lines(scratch, attune_generic_panels(columns) * room),
        room,
    };
}

/* Panels of columns for a tile's rows, as attune_generic_tile_load fills them. */
static inline float *attune_generic_take_panels(struct reference_scratch *scratch, int64_t rows, int64_t length) {
    return attune_generic_take_lines(scratch, attune_generic_panels(rows) * attune_generic_round_up(length));
}

static inline float *attune_generic_panel(float *panels, int64_t strip, int64_t length) {
    return panels + strip * attune_generic_round_up(length) * ATTUNE_GENERIC_LANES;
}

/* ---- Work ---- */

/* Most row tiles of a schedule that a thread takes as one, so that K and V are loaded once for all of them. */
#define ATTUNE_GENERIC_TILES_AT_ONCE 4
/* Units that each thread should have at least, for all to end together. */
#define ATTUNE_GENERIC_UNITS_PER_THREAD 8

/* How many it takes. No result depends on it, as each row has sums of its own, but where a split begins: with splits it
 * is 1. */
static inline int64_t attune_generic_tiles_at_once(const attune_schedule *schedule, int32_t threads) {
    const int64_t units = schedule->grid[0] * schedule->grid[2] / threads / ATTUNE_GENERIC_UNITS_PER_THREAD;
    return schedule->splits > 1 ? 1 : attune_clamp(units, 1, ATTUNE_GENERIC_TILES_AT_ONCE);
}

/* Packed rows first to first + count - 1 of the heads that the schedule's grid has at batch_head. */
static inline struct generic_rows attune_generic_rows_at(const struct attune_cpu_run *run, int64_t batch_head,
                                                         int64_t first, int64_t count) {
    const int64_t pack = run->schedule->pack;
    const int64_t packs = run->problem->heads_q / pack;
    return (struct generic_rows){
        .batch = batch_head / packs,
        .head = batch_head % packs * pack,
        .pack = pack,
        .first = first,
        .count = count,
    };
}

/* Keys of the tile number index of keys that some row may see. */
static inline attune_interval attune_generic_key_tile(const struct generic_tile *tile, int64_t index) {
    const int64_t size = tile->run->schedule->tile_keys;
    return attune_interval_cut(index * size, (index + 1) * size, tile->keys.begin, tile->keys.end);
}

/* Of keys that lie in memory as rows 0 and on: those that some row of a strip may see, begun and ended at a block.
 * Empty if it sees none. */
static inline struct generic_span attune_generic_strip_span(const struct generic_strip *strip, attune_interval keys) {
    const attune_interval seen = attune_interval_cut(strip->keys.begin, strip->keys.end, keys.begin, keys.end);
    const int64_t block = ATTUNE_GENERIC_BLOCK;
    struct generic_span span = {.first = keys.begin, .count = keys.end - keys.begin};
    if (seen.begin < seen.end) {
        span.begin = (seen.begin - keys.begin) / block * block;
        span.end = (seen.end - keys.begin + block - 1) / block * block;
    }
    return span;
}

#endif
