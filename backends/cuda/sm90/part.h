/*
 * What the parts of a tile that is cut along its keys leave, and the kernel that takes them together: in the order of
 * the keys, so that no bit depends on which one ends first.
 *
 * Source: Osama et al., Stream-K (arXiv 2301.03598), for tiles of which several work-groups have a part; arXiv
 * 2112.05682, section 3, for the merge.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_PART_H
#define ATTUNE_CUDA_SM90_PART_H

#include "backends/cuda/sm90/schedule.h"
#include "backends/cuda/sm90/store.h"

namespace {

/* A warpgroup's state of a part: a thread's outputs by fours, of all threads side by side, and then the references and
 * sums of its rows. The thread that reads them has the same place, so how O lies in threads does not matter. */
constexpr int OUTPUT_FOURS = OUTPUTS / 4;
static_assert(ATTUNE_SM90_STATE_FLOATS(HEAD_DIM_V) == (OUTPUT_FOURS + 1) * 4 * WARPGROUP, "as the host counts it");

/* From a part to the next one of the same tile. */
constexpr int PART_STEP = CONSUMERS * (OUTPUT_FOURS + 1) * WARPGROUP;

INLINE float4 *find_state(const attune_sm90_forward_params &p, int number, int warpgroup) {
    const int64_t state = static_cast<int64_t>(number) * CONSUMERS + warpgroup;
    return reinterpret_cast<float4 *>(p.parts.states + state * ATTUNE_SM90_STATE_FLOATS(HEAD_DIM_V)) +
           threadIdx.x % WARPGROUP;
}

/* Multiplied by a factor for each of the two rows. */
INLINE void leave_part(const float (&output)[OUTPUTS], const float (&factor)[2], float4 *state) {
#pragma unroll
    for (int i = 0; i < OUTPUT_FOURS; i++) {
        const float *four = output + 4 * i;
        __stcg(state + i * WARPGROUP,
               make_float4(four[0] * factor[0], four[1] * factor[0], four[2] * factor[1], four[3] * factor[1]));
    }
}

INLINE void leave_rows(const row_pair &rows, float4 *state) {
    __stcg(state + OUTPUT_FOURS * WARPGROUP,
           make_float4(rows.reference[0], rows.reference[1], rows.sum[0], rows.sum[1]));
}

/* ---- The merge: a work-group has a slice of the columns of a warpgroup's rows ---- */

constexpr int SLICE_FOURS = ATTUNE_SM90_SLICE_COLUMNS / 8;
constexpr int SLICES = OUTPUT_FOURS / SLICE_FOURS;
static_assert(SLICES * SLICE_FOURS == OUTPUT_FOURS, "slices are equal");

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

INLINE merged_rows merge_parts(const float4 *first, int parts, int slice) {
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

/* number: of the work-group. */
INLINE void merge_slice(const attune_sm90_forward_params &p, int number) {
    const int slice = number % SLICES;
    const int warpgroup = number / SLICES % CONSUMERS;
    const int cut_tile = number / SLICES / CONSUMERS;
    tile at;
    const int parts = find_cut_tile(p, cut_tile, &at);
    if (!CAN_CUT || parts < 2) {
        return;
    }
    const merged_rows merged = merge_parts(find_state(p, cut_tile * p.parts.most, warpgroup), parts, slice);
    const int upper = row_of_thread(at, warpgroup);
#pragma unroll
    for (int which = 0; which < 2; which++) {
        const output_row row = find_output_row(p, at, upper + 8 * which);
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

} // namespace

#endif
