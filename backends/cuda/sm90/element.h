/*
 * Single scores and elements.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_ELEMENT_H
#define ATTUNE_CUDA_SM90_ELEMENT_H

#include "backends/cuda/sm90/columns.h"
#include "core/portable/softmax.h"

namespace {

/* Flushes subnormal results; an error of 2 ulp (PTX ISA 9.0, "ex2"). */
INLINE float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INLINE uint32_t pack_elements(float low, float high) {
    uint32_t packed;
    asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/* tanh to an absolute error of 2^-22, or where all arguments of a warp are small a relative one. */
INLINE float tanh_of(float x) {
    return 1.0f - __fdividef(2.0f, 1.0f + exp2_fast(2.0f * ATTUNE_LOG2_E * x));
}

/* |x| up to 1/4: the series to the ninth power, whose next term is 1e-8 of the result. */
INLINE float tanh_of_small(float x) {
    const float square = x * x;
    float tail = fmaf(square, 62.0f / 2835.0f, -17.0f / 315.0f);
    tail = fmaf(square, tail, 2.0f / 15.0f);
    tail = fmaf(square, tail, -1.0f / 3.0f);
    return fmaf(x * square, tail, x);
}

} // namespace

#endif
