/*
 * dbias = dA, summed over the axes that bias broadcasts, in f64: a tile of dbias walks all that it is the sum of.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/backward.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"

#define LANES ATTUNE_GENERIC_LANES

struct dbias_scratch {
    struct generic_gradient gradient;
    float *weight; /* of a strip */
    float *grad;
    double *sum; /* of a tile: (row, key), tile_keys a row; an axis that bias broadcasts has index 0 only */
};

static struct dbias_scratch scratch_cut(const attune_problem *problem, const attune_schedule *schedule, char *base,
                                        uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t lines = attune_generic_round_up(schedule->tile_keys);
    const struct dbias_scratch cut = {
        .gradient = attune_generic_gradient_take(&scratch, problem, schedule->tile_rows, schedule->tile_keys),
        .weight = attune_generic_take_lines(&scratch, lines),
        .grad = attune_generic_take_lines(&scratch, lines),
        .sum = attune_reference_take(&scratch, schedule->tile_rows, schedule->tile_keys, sizeof(double)),
    };
    *out_bytes = scratch.used_bytes;
    return cut;
}

uint64_t attune_generic_dbias_bytes(const attune_problem *problem, const attune_schedule *schedule) {
    uint64_t bytes = 0;
    (void)scratch_cut(problem, schedule, NULL, &bytes);
    return bytes;
}

/* ---- The part of dbias that a unit owns ---- */

struct part {
    int64_t batch; /* index along dbias's axes; where an axis is broadcast it is 0 and stands for all */
    int64_t head;
    attune_interval rows;
    attune_interval keys;
};

/* How many tiles of a size an axis of dbias has. */
static int64_t tiles_along(const struct attune_cpu_run *run, int axis, int64_t size) {
    return attune_ceil_div(run->problem->operand[ATTUNE_OPERAND_DBIAS].shape[axis], size);
}

static struct part part_of(const struct attune_cpu_run *run, int64_t unit) {
    const attune_schedule *schedule = run->schedule;
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DBIAS].shape;
    const int64_t key_tiles = tiles_along(run, 3, schedule->tile_keys);
    const int64_t row_tiles = tiles_along(run, 2, schedule->tile_rows);
    const int64_t key = unit % key_tiles * schedule->tile_keys;
    const int64_t row = unit / key_tiles % row_tiles * schedule->tile_rows;
    const int64_t rest = unit / key_tiles / row_tiles;
    return (struct part){
        .batch = rest / shape[1],
        .head = rest % shape[1],
        .rows = {row, attune_min(row + schedule->tile_rows, shape[2])},
        .keys = {key, attune_min(key + schedule->tile_keys, shape[3])},
    };
}

static bool is_broadcast(const struct attune_cpu_run *run, int axis) {
    return run->problem->operand[ATTUNE_OPERAND_DBIAS].shape[axis] == 1;
}

/* ---- Sums ---- */

static void add_strip(const struct generic_tile *tile, const struct part *part, const struct generic_strip *strip,
                      struct generic_span span, const struct dbias_scratch *scratch) {
    const bool one_row = is_broadcast(tile->run, 2);
    const bool one_key = is_broadcast(tile->run, 3);
    const int64_t width = tile->run->schedule->tile_keys;
    const int64_t end = attune_min(span.end, span.count);
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        double *sum = scratch->sum + (one_row ? 0 : strip->row[lane] - part->rows.begin) * width;
        for (int64_t j = span.begin; j < end; j++) {
            sum[one_key ? 0 : span.first + j - part->keys.begin] += (double)scratch->grad[j * LANES + lane];
        }
    }
}

static void add_keys(const struct generic_tile *tile, const struct part *part, attune_interval keys,
                     const struct dbias_scratch *scratch) {
    const struct attune_cpu_run *run = tile->run;
    const struct reference_sequence *sequence = &tile->first.sequence;
    const attune_interval seen = attune_interval_cut(keys.begin, keys.end, tile->keys.begin, tile->keys.end);
    if (seen.begin == seen.end || !attune_generic_tile_lists(tile, seen)) {
        return;
    }
    const struct reference_vectors k = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, tile->first.head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, tile->first.head_kv);
    attune_generic_load_rows(&k, seen.begin, seen.end - seen.begin, scratch->gradient.k);
    attune_generic_load_rows(&v, seen.begin, seen.end - seen.begin, scratch->gradient.v);
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_span span = attune_generic_strip_span(&tile->strip[s], seen);
        if (span.begin < span.end) {
            attune_generic_gradient_strip(tile, s, span, &scratch->gradient, true, scratch->weight, scratch->grad);
            add_strip(tile, part, &tile->strip[s], span, scratch);
        }
    }
}

/* The tile's own keys, or all of them. */
static void add_tile(const struct generic_tile *tile, const struct part *part, const struct dbias_scratch *scratch) {
    const int64_t size = tile->run->schedule->tile_keys;
    attune_generic_gradient_load(tile, &scratch->gradient);
    if (!is_broadcast(tile->run, 3)) {
        add_keys(tile, part, part->keys, scratch);
        return;
    }
    for (int64_t key = tile->keys.begin / size * size; key < tile->keys.end; key += size) {
        add_keys(tile, part, (attune_interval){key, key + size}, scratch);
    }
}

static void add_head(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                     const struct part *part, const struct dbias_scratch *scratch) {
    const int64_t size = run->schedule->tile_rows;
    const int64_t end = is_broadcast(run, 2) ? sequence->mask.rows : part->rows.begin + 1;
    for (int64_t row = part->rows.begin; row < end; row += size) {
        const struct generic_rows rows = {sequence->batch, head, 1, row, size};
        struct generic_tile tile;
        if (attune_generic_tile_make(run, sequence, &rows, scratch->gradient.strip, &tile)) {
            add_tile(&tile, part, scratch);
        }
    }
}

/* What an index along an axis of dbias stands for. */
static attune_interval axis_of(const struct attune_cpu_run *run, int axis, int64_t index, int64_t whole) {
    return is_broadcast(run, axis) ? (attune_interval){0, whole} : (attune_interval){index, index + 1};
}

/* Every element of dbias is written. */
static void store(const struct attune_cpu_run *run, const struct part *part, const double *sum) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_DBIAS];
    const int64_t stride = attune_reference_stride_bytes(run, ATTUNE_OPERAND_DBIAS, 3);
    for (int64_t row = part->rows.begin; row < part->rows.end; row++) {
        char *out = attune_reference_address(run, ATTUNE_OPERAND_DBIAS, part->batch, part->head, row);
        for (int64_t key = part->keys.begin; key < part->keys.end; key++) {
            attune_generic_store_element(
                layout->dtype, out + key * stride,
                (float)sum[(row - part->rows.begin) * run->schedule->tile_keys + key - part->keys.begin]);
        }
    }
}

static void dbias_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const struct part part = part_of(run, unit);
    uint64_t bytes = attune_generic_dbias_bytes(problem, run->schedule);
    const struct dbias_scratch scratch =
        scratch_cut(problem, run->schedule, attune_generic_thread_base(run, thread, bytes), &bytes);
    const attune_interval batches = axis_of(run, 0, part.batch, problem->batch);
    const attune_interval heads = axis_of(run, 1, part.head, problem->heads_q);

    memset(scratch.sum, 0, (size_t)(run->schedule->tile_rows * run->schedule->tile_keys) * sizeof(double));
    for (int64_t b = batches.begin; b < batches.end; b++) {
        const struct reference_sequence sequence = attune_reference_sequence(run, b);
        for (int64_t h = heads.begin; h < heads.end; h++) {
            add_head(run, &sequence, h, &part, &scratch);
        }
    }
    store(run, &part, scratch.sum);
}

void attune_generic_dbias(const struct attune_cpu_run *run, double operations) {
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DBIAS].shape;
    const int64_t units = shape[0] * shape[1] * tiles_along(run, 2, run->schedule->tile_rows) *
                          tiles_along(run, 3, run->schedule->tile_keys);
    attune_cpu_team_run(run->team, units, operations, dbias_unit, run);
}
