/*
 * Takes together what the parts of a tile leave: in the order of the keys, so that no bit depends on which one ended
 * first. A work-group has a slice of the columns of a warpgroup's rows.
 *
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax (arXiv 1805.02867), section 3.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_MERGE_PARTS_H
#define ATTUNE_CUDA_SM90_MERGE_PARTS_H

#include "backends/cuda/sm90/part.h"

namespace {

constexpr int SLICE_FOURS = ATTUNE_SM90_SLICE_COLUMNS / 8;
constexpr int SLICES = OUTPUT_FOURS / SLICE_FOURS;
static_assert(SLICES * SLICE_FOURS == OUTPUT_FOURS, "slices are equal");

/* From a part to the next one of the same tile. */
constexpr int PART_STEP = CONSUMERS * (OUTPUT_FOURS + 1) * WARPGROUP;

/* Parts that are on their way at once. */
constexpr int PARTS_AHEAD = 4;

struct part_slice {
    float4 outputs[SLICE_FOURS];
    float4 rows; /* references, sums */
};

INLINE part_slice load_slice(const float4 *state, int slice) {
    part_slice loaded;
#pragma unroll
    for (int i = 0; i < SLICE_FOURS; i++) {
        loaded.outputs[i] = __ldcg(state + (slice * SLICE_FOURS + i) * WARPGROUP);
    }
    loaded.rows = __ldcg(state + OUTPUT_FOURS * WARPGROUP);
    return loaded;
}

struct merged_rows {
    float reference[2] = {-ATTUNE_INFINITY, -ATTUNE_INFINITY};
    float sum[2] = {0.0f, 0.0f};
    float output[SLICE_FOURS][4] = {};

    /* What a part holds for a row that has not seen a key in it is passed over, NaN of unseen values too. */
    INLINE void add(const part_slice &part) {
        const float reference_there[2] = {part.rows.x, part.rows.y};
        const float sum_there[2] = {part.rows.z, part.rows.w};
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const bool is_empty = reference_there[row] == -ATTUNE_INFINITY;
            const float raised = fmaxf(reference[row], reference_there[row]);
            const float base = attune_softmax_base(raised);
            const float factor = exp2_fast(reference[row] - base);
            const float weight = exp2_fast(reference_there[row] - base);
            reference[row] = raised;
            sum[row] = fmaf(sum_there[row], weight, sum[row] * factor);
#pragma unroll
            for (int i = 0; i < SLICE_FOURS; i++) {
                const float4 &four = part.outputs[i];
                const float there[2] = {row == 0 ? four.x : four.z, row == 0 ? four.y : four.w};
                for (int j = 0; j < 2; j++) {
                    float &all = output[i][2 * row + j];
                    all = is_empty ? all * factor : fmaf(there[j], weight, all * factor);
                }
            }
        }
    }
};

INLINE merged_rows add_parts(const float4 *first, int parts, int slice) {
    merged_rows merged;
#pragma unroll 1
    for (int begin = 0; begin < parts; begin += PARTS_AHEAD) {
        part_slice ahead[PARTS_AHEAD];
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++) {
            ahead[i] = load_slice(first + min(begin + i, parts - 1) * PART_STEP, slice);
        }
#pragma unroll
        for (int i = 0; i < PARTS_AHEAD; i++) {
            if (begin + i < parts) {
                merged.add(ahead[i]);
            }
        }
    }
    return merged;
}

/* A tile by its number among those that may be cut. Returns the number of its parts; less than 2: it is not cut, or
 * there is none of this number. */
INLINE int find_cut_tile(const attune_sm90_forward_params &p, int number, tile *out_tile) {
    if constexpr (GENERAL) {
        const int head = number / p.parts.cut_row_tiles;
        const int batch = head / p.parts.packs;
        const int row_tile = p.parts.first_cut + number % p.parts.cut_row_tiles;
        if (row_tile >= ceil_div(tile_search::rows_at(p, batch), p.tile_places)) {
            return 0;
        }
        tile_search::set_tile(p, batch, {head % p.parts.packs, row_tile}, out_tile);
    } else {
        set_tile(p, find_full_tile(p, p.parts.first_cut + number, p.parts.work_groups), out_tile);
    }
    return ceil_div(out_tile->key_tiles_end, p.parts.key_tiles);
}

INLINE void store_slice(const attune_sm90_forward_params &p, const tile &at, const merged_rows &merged, int warpgroup,
                        int slice) {
    const int upper = warpgroup * WARPGROUP_ROWS + threadIdx.x / LANES * 16 + threadIdx.x % LANES / 4;
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const output_row row = find_output_row(p, at, at.row + upper + 8 * which);
        const finished_row finished = finish_row(p, merged.reference[which], sum_of_row(merged.sum[which]), row.head);
        if (!row.exists) {
            continue;
        }
        if (slice == 0) {
            store_lse(p, at, row, finished.lse);
        }
        const int64_t first = output_offset(p, at, row);
#pragma unroll
        for (int i = 0; i < SLICE_FOURS; i++) {
            const int column = 8 * (slice * SLICE_FOURS + i) + threadIdx.x % 4 * 2;
            if (column < p.head_dim_v) {
                store_output_pair(p, first, column, merged.output[i][2 * which] * finished.factor,
                                  merged.output[i][2 * which + 1] * finished.factor);
            }
        }
    }
}

/* number: of the work-group. */
INLINE void merge_slice(const attune_sm90_forward_params &p, int number) {
    const int slice = number % SLICES;
    const int warpgroup = number / SLICES % CONSUMERS;
    const int cut_tile = number / SLICES / CONSUMERS;
    tile at;
    const int parts = find_cut_tile(p, cut_tile, &at);
    wait_for_last_launch();
    if (parts > 1) {
        store_slice(p, at, add_parts(find_state(p, cut_tile * p.parts.most, warpgroup), parts, slice), warpgroup,
                    slice);
    }
}

} // namespace

#endif
