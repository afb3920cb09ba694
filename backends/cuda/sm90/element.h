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

/* An error of 1 ulp (PTX ISA 9.0, "rcp"). */
INLINE float reciprocal_fast(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

INLINE uint32_t pack_elements(float low, float high) {
    uint32_t packed;
    asm("cvt.rn." ELEMENT "x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

INLINE float low_of(uint32_t pair) {
    if constexpr (IS_F16) {
        float value;
        asm("{.reg .b16 low, high;\nmov.b32 {low, high}, %1;\ncvt.f32.f16 %0, low;}" : "=f"(value) : "r"(pair));
        return value;
    } else {
        return __uint_as_float(pair << 16);
    }
}

INLINE float high_of(uint32_t pair) {
    return IS_F16 ? low_of(pair >> 16) : __uint_as_float(pair & 0xFFFF0000u);
}

/* Both halves of each pair whose element is negative, -0 included. */
INLINE uint32_t negative_of(uint32_t pair) {
    uint32_t found;
    asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(found) : "r"(pair)); /* the signs of bytes 3 and 1 */
    return found;
}

INLINE bool is_finite(float x) {
    return x * 0.0f == 0.0f;
}

/* A pair with 0 for what is not finite. */
INLINE uint32_t finite_of(uint32_t pair) {
    constexpr uint32_t exponent = IS_F16 ? 0x7C00u : 0x7F80u;
    const uint32_t low = (pair & exponent) == exponent ? 0xFFFFu : 0u;
    const uint32_t high = (pair >> 16 & exponent) == exponent ? 0xFFFF0000u : 0u;
    return pair & ~(low | high);
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
