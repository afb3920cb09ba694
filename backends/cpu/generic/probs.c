/*
 * The weights themselves, for looking: the scores are computed anew, when each row's maximum and sum are known.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/forward.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"
#include "core/portable/work.h"

#define LANES ATTUNE_GENERIC_LANES

static char *row_of(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane) {
    return attune_reference_address(tile->run, ATTUNE_OPERAND_PROBS, tile->first.sequence.batch, strip->head[lane],
                                    strip->row[lane]);
}

/* What no tile of keys reaches is 0. */
static void clear_row(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane) {
    char *row = row_of(tile, strip, lane);
    const int64_t stride = attune_reference_stride_bytes(tile->run, ATTUNE_OPERAND_PROBS, 3);
    for (int64_t key = 0; key < tile->first.sequence.mask.keys; key++) {
        *(float *)(void *)(row + key * stride) = 0.0f;
    }
}

static void store_lane(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane,
                       struct generic_span span, attune_softmax state, const float *score) {
    char *row = row_of(tile, strip, lane);
    const int64_t stride = attune_reference_stride_bytes(tile->run, ATTUNE_OPERAND_PROBS, 3);
    const float inverse = attune_softmax_finish(state).inverse;
    const attune_interval seen = attune_interval_cut(strip->seen[lane].begin, strip->seen[lane].end,
                                                     span.first + span.begin, span.first + span.end);
    for (int64_t key = seen.begin; key < seen.end; key++) {
        const float s = score[(key - span.first) * LANES + lane];
        *(float *)(void *)(row + key * stride) =
            s == -ATTUNE_INFINITY ? 0.0f : attune_softmax_weight(s, attune_softmax_base(state.max)) * inverse;
    }
}

static void store_strip(const struct generic_tile *tile, int64_t s, attune_interval keys,
                        const struct generic_forward *scratch) {
    const struct generic_strip *strip = &tile->strip[s];
    const struct generic_softmax *state = &scratch->state[s];
    const struct generic_span span = attune_generic_strip_span(strip, keys);
    if (span.begin == span.end) {
        return;
    }
    attune_generic_forward_score(tile, s, span, scratch);
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        store_lane(tile, strip, lane, span, (attune_softmax){state->max[lane], state->sum[lane]}, scratch->score);
    }
}

void attune_generic_store_probs(const struct generic_tile *tile, const struct generic_forward *scratch) {
    const struct attune_cpu_run *run = tile->run;
    if (!attune_reference_has(run, ATTUNE_OPERAND_PROBS)) {
        return;
    }
    const struct reference_vectors k =
        attune_reference_vectors(run, &tile->first.sequence, ATTUNE_OPERAND_K, tile->first.head_kv);
    const attune_interval tiles = attune_interval_tiles(tile->keys, run->schedule->tile_keys);
    for (int64_t s = 0; s < tile->strips; s++) {
        for (int64_t lane = 0; lane < tile->strip[s].lanes; lane++) {
            clear_row(tile, &tile->strip[s], lane);
        }
    }
    for (int64_t index = tiles.begin; index < tiles.end; index++) {
        const attune_interval keys = attune_generic_key_tile(tile, index);
        if (attune_generic_tile_lists(tile, keys)) {
            attune_generic_load_rows(&k, keys.begin, keys.end - keys.begin, scratch->k);
            for (int64_t s = 0; s < tile->strips; s++) {
                store_strip(tile, s, keys, scratch);
            }
        }
    }
}
