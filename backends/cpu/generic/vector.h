/*
 * A register of floats, by the language extension that gcc and clang share: they make instructions of any set of it,
 * and of loops over plain arrays only sometimes. With it exp and tanh, free of branches.
 *
 * Rounding must be to nearest, as it is unless somebody changes it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_VECTOR_H
#define ATTUNE_GENERIC_VECTOR_H

#include "backends/cpu/generic/lanes.h"

#if defined(__AVX__)
#    define ATTUNE_GENERIC_FLOATS 8
#else
#    define ATTUNE_GENERIC_FLOATS 4
#endif
#define ATTUNE_GENERIC_VECTORS (ATTUNE_GENERIC_LANES / ATTUNE_GENERIC_FLOATS) /* in a line of lanes */

typedef float generic_vector __attribute__((vector_size(4 * ATTUNE_GENERIC_FLOATS), may_alias, aligned(4)));
typedef int32_t generic_bits __attribute__((vector_size(4 * ATTUNE_GENERIC_FLOATS), may_alias, aligned(4)));

/* Before a loop over an array of vectors, which becomes registers only where each index is a constant. gcc sees to it
 * by itself. */
#if defined(__clang__)
#    define ATTUNE_GENERIC_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define ATTUNE_GENERIC_UNROLL
#endif

ATTUNE_GENERIC_INLINE generic_vector attune_generic_all(float value) {
    return (generic_vector){0} + value;
}

/* where's elements are those of a comparison: a where it holds, else b. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_select(generic_bits where, generic_vector a, generic_vector b) {
    return (generic_vector)((where & (generic_bits)a) | (~where & (generic_bits)b));
}

/* The larger; b where one is NaN. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_larger(generic_vector a, generic_vector b) {
    return attune_generic_select(a > b, a, b);
}

/* Added to a number of magnitude below 2^22, it leaves that number rounded in the low bits of the sum. */
#define ATTUNE_GENERIC_ROUNDER 12582912.0f /* 1.5 * 2^23 */

/* 2^(n + raise), from n + ROUNDER, for exponents from -126 to 127. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_power(generic_vector rounded, int32_t raise) {
    return (generic_vector)(((generic_bits)rounded + (127 + raise)) << 23);
}

/* x - n log 2, log 2 being split into a part whose products with n are exact, and the rest. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_reduce(generic_vector x, generic_vector n) {
    return (x - n * 0.693359375f) + n * 2.12194440e-4f;
}

/* e^f - 1 for |f| up to log(2) / 2, relative to itself, by a minimax polynomial of its relative error, 0.3 * 2^-24. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_expm1(generic_vector f) {
    generic_vector rest = 0x1.6bebf2p-10f * f + 0x1.1227f6p-7f;
    rest = rest * f + 0x1.555674p-5f;
    rest = rest * f + 0x1.5554b0p-3f;
    rest = rest * f + 0x1.fffffep-2f;
    return rest * f * f + f;
}

/* x / log 2, rounded to an integer n, as n + ROUNDER. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_round(generic_vector x) {
    return x * 1.44269504f + ATTUNE_GENERIC_ROUNDER;
}

/* e^x, from x / log 2 rounded as above and what is left of x. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_exp_reduced(generic_vector x, generic_vector rounded,
                                                                generic_vector f) {
    const generic_vector part = 1.0f + attune_generic_expm1(f);
    /* Only the last product can be subnormal, and rounds. */
    const generic_vector whole = part * attune_generic_power(rounded, 25) * 0x1p-25f;
    return (generic_vector)((generic_bits)whole & ~(x < -104.0f));
}

/* e^x to 1 unit in the last place, for x up to 69: subnormal below 2^-126 and 0 below e^-104. NaN stays. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_exp(generic_vector x) {
    const generic_vector rounded = attune_generic_round(x);
    return attune_generic_exp_reduced(x, rounded, attune_generic_reduce(x, rounded - ATTUNE_GENERIC_ROUNDER));
}

/* e^(a - b) likewise, but what the rounding of a - b loses is put back where |b| is the larger. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_exp_difference(generic_vector a, generic_vector b) {
    const generic_vector x = a - b;
    const generic_vector lost = a - (x + b);
    const generic_vector rounded = attune_generic_round(x);
    return attune_generic_exp_reduced(x, rounded, attune_generic_reduce(x, rounded - ATTUNE_GENERIC_ROUNDER) + lost);
}

/* tanh to 2 units in the last place, of small x too: (e^2x - 1) / (e^2x + 1), from e^2x - 1. NaN stays. */
ATTUNE_GENERIC_INLINE generic_vector attune_generic_tanh(generic_vector x) {
    const generic_bits sign = (generic_bits)x & INT32_MIN;
    const generic_vector magnitude = (generic_vector)((generic_bits)x ^ sign);
    /* From 10 on it is 1. */
    const generic_vector twice = 2.0f * attune_generic_select(magnitude > 10.0f, attune_generic_all(10.0f), magnitude);
    const generic_vector rounded = attune_generic_round(twice);
    const generic_vector f = attune_generic_reduce(twice, rounded - ATTUNE_GENERIC_ROUNDER);
    const generic_vector power = attune_generic_power(rounded, 0);
    const generic_vector e = power * attune_generic_expm1(f) + (power - 1.0f);
    return (generic_vector)((generic_bits)(e / (e + 2.0f)) | sign);
}

#endif
