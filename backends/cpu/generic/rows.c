/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/rows.h"

#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"
#include "core/portable/work.h"

#define LANES ATTUNE_GENERIC_LANES

/* ---- Making a tile ---- */

static const char *line_of(const struct reference_plane *plane, int64_t row) {
    return plane->first == NULL ? NULL : plane->first + row * plane->stride_row_bytes;
}

static void lane_fill(struct generic_strip *strip, int64_t lane, const struct reference_head *head, int64_t row,
                      bool in_use) {
    strip->row[lane] = row;
    strip->head[lane] = head->head;
    strip->seen[lane] = (attune_interval){0, 0};
    if (in_use) {
        strip->seen[lane] = attune_mask_keys(head->sequence.mask, row, 1);
    }
    strip->slope[lane] = (float)head->slope;
    strip->sink[lane] = (float)head->sink;
    strip->bias[lane] = line_of(&head->bias, row);
    strip->mask[lane] = line_of(&head->mask, row);
}

static void strip_fill(const struct generic_tile *tile, const struct generic_rows *rows, int64_t first, int64_t count,
                       struct generic_strip *strip) {
    const int64_t last = first + count - 1;
    const int64_t first_row = first / rows->pack;
    const int64_t row_count = last / rows->pack - first_row + 1;
    struct reference_head head = tile->first;
    strip->lanes = count;
    strip->keys = attune_mask_keys(head.sequence.mask, first_row, row_count);
    strip->common = attune_mask_common_keys(head.sequence.mask, first_row, row_count);
    for (int64_t lane = 0; lane < LANES; lane++) {
        const attune_packed packed = attune_packed_row(attune_min(first + lane, last), rows->pack);
        if (head.head != rows->head + packed.head) {
            head = attune_reference_head(tile->run, &tile->first.sequence, rows->head + packed.head);
        }
        lane_fill(strip, lane, &head, packed.row, lane < count);
    }
}

bool attune_generic_tile_make(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                              const struct generic_rows *rows, struct generic_strip *strip,
                              struct generic_tile *out_tile) {
    const int64_t count = attune_clamp(sequence->mask.rows * rows->pack - rows->first, 0, rows->count);
    if (count == 0) {
        return false;
    }
    const int64_t first_row = rows->first / rows->pack;
    const int64_t last_row = (rows->first + count - 1) / rows->pack;
    *out_tile = (struct generic_tile){
        .run = run,
        .first = attune_reference_head(run, sequence, rows->head),
        .strips = attune_generic_panels(count),
        .keys = attune_mask_keys(sequence->mask, first_row, last_row - first_row + 1),
        .strip = strip,
    };
    for (int64_t s = 0; s < out_tile->strips; s++) {
        strip_fill(out_tile, rows, rows->first + s * LANES, attune_min(count - s * LANES, LANES), &strip[s]);
    }
    return true;
}

/* ---- Vectors of rows ---- */

struct reference_vectors attune_generic_lane_vectors(const struct generic_tile *tile, attune_operand operand,
                                                     int64_t head) {
    return attune_reference_vectors(tile->run, &tile->first.sequence, operand, head);
}

void attune_generic_tile_load(const struct generic_tile *tile, attune_operand operand, float *out) {
    struct reference_vectors vectors = attune_generic_lane_vectors(tile, operand, tile->first.head);
    int64_t head = tile->first.head;
    const int64_t panel = attune_generic_round_up(vectors.length) * LANES;
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_strip *strip = &tile->strip[s];
        memset(out + s * panel, 0, (size_t)panel * sizeof(float));
        for (int64_t lane = 0; lane < strip->lanes; lane++) {
            if (strip->head[lane] != head) {
                head = strip->head[lane];
                vectors = attune_generic_lane_vectors(tile, operand, head);
            }
            attune_generic_load_lane(&vectors, strip->row[lane], out + s * panel + lane);
        }
    }
}

void attune_generic_tile_store(const struct generic_tile *tile, attune_operand operand, const float *values,
                               const float *factor) {
    struct reference_vectors vectors = attune_generic_lane_vectors(tile, operand, tile->first.head);
    int64_t head = tile->first.head;
    const int64_t panel = attune_generic_round_up(vectors.length) * LANES;
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_strip *strip = &tile->strip[s];
        for (int64_t lane = 0; lane < strip->lanes; lane++) {
            if (strip->head[lane] != head) {
                head = strip->head[lane];
                vectors = attune_generic_lane_vectors(tile, operand, head);
            }
            attune_generic_store_lane(&vectors, strip->row[lane], values + s * panel + lane, factor[s * LANES + lane]);
        }
    }
}

char *attune_generic_lane_address(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane,
                                  attune_operand operand) {
    const struct reference_sequence *sequence = &tile->first.sequence;
    return attune_reference_address(tile->run, operand, sequence->batch, strip->head[lane],
                                    sequence->first_row + strip->row[lane]);
}
