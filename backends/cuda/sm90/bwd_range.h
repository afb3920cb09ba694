/*
 * Factors that keep P and dS in their elements' range: small ones are not to be lost, large ones not to be inf.
 *
 * P, at most 1, is 2^WEIGHT_SHIFT times what it is, from the exponent on. With bf16, which has f32's range, so is dS;
 * that is for what exp2 flushes to 0. With f16 dS gets a factor of its own, from a bound: |dS| <= |dO| |V| + |row sum|.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_RANGE_H
#define ATTUNE_CUDA_SM90_BWD_RANGE_H

#include "backends/cuda/sm90/bwd_row.h"

namespace {

constexpr int WEIGHT_SHIFT = IS_F16 ? 15 : 24;
constexpr float WEIGHT_UNIT = IS_F16 ? 0x1p-15f : 0x1p-24f;

enum { LARGEST_DOUT, LARGEST_V, LARGEST_SUM };

/* value: finite, 0 or more, whose bits are ordered as the floats are. */
INLINE void note_largest(const attune_sm90_backward_params &p, int which, float value) {
    atomicMax(reinterpret_cast<int *>(p.largest) + which, __float_as_int(value));
}

/* What dS is multiplied by. P may be above 1 by what lse is off. */
INLINE float dscore_factor(const attune_sm90_backward_params &p) {
    if constexpr (!IS_F16) {
        return 1.0f / WEIGHT_UNIT;
    }
    constexpr float most = 65000.0f;
    const float bound = sqrtf(p.largest[LARGEST_DOUT]) * sqrtf(p.largest[LARGEST_V]) + p.largest[LARGEST_SUM];
    return bound > 0x1p-60f && bound < 0x1p100f ? most / bound : 1.0f;
}

} // namespace

#endif
