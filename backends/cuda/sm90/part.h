/*
 * What a part of a tile leaves: O and the rows' references and sums, in f32, for merge_parts.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_PART_H
#define ATTUNE_CUDA_SM90_PART_H

#include "backends/cuda/sm80/dependent.h"
#include "backends/cuda/sm90/store.h"

namespace {

/* A warpgroup's state of a part: a thread's outputs by fours, of all threads side by side, and then the references and
 * sums of its rows. The thread that reads them has the same place, so how O lies in threads does not matter. */
constexpr int OUTPUT_FOURS = OUTPUTS / 4;
static_assert(ATTUNE_SM90_STATE_FLOATS(HEAD_DIM_V) == (OUTPUT_FOURS + 1) * 4 * WARPGROUP, "as the host counts it");

INLINE float4 *find_state(const attune_sm90_forward_params &p, int number, int warpgroup) {
    const int64_t state = static_cast<int64_t>(number) * CONSUMERS + warpgroup;
    return reinterpret_cast<float4 *>(p.parts.states + state * ATTUNE_SM90_STATE_FLOATS(HEAD_DIM_V)) +
           threadIdx.x % WARPGROUP;
}

INLINE void leave_output_of_part(const float (&output)[OUTPUTS], float4 *state) {
#pragma unroll
    for (int i = 0; i < OUTPUT_FOURS; i++) {
        const float *four = output + 4 * i;
        __stcg(state + i * WARPGROUP, make_float4(four[0], four[1], four[2], four[3]));
    }
}

INLINE void leave_rows_of_part(const row_pair &rows, float4 *state) {
    __stcg(state + OUTPUT_FOURS * WARPGROUP,
           make_float4(rows.reference[0], rows.reference[1], rows.sum[0], rows.sum[1]));
}

} // namespace

#endif
