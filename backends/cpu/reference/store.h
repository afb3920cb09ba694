/*
 * f64 as an element of any dtype, rounded once: to nearest, ties to even.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_STORE_H
#define ATTUNE_REFERENCE_STORE_H

#include "attune/types.h"
#include "core/portable/convert.h"

/* value in f32, rounded to odd: toward zero, with the last bit set where that lost something. Rounding the result to
 * nearest in a format of at most 22 bits gives what rounding value itself would. Source: Boldo and Melquiond, When
 * double rounding is odd (2005). */
static inline float attune_reference_round_to_odd(double value) {
    float rounded = (float)value;
    if ((double)rounded == value || isnan(value)) {
        return rounded;
    }
    uint32_t bits = attune_f32_to_bits(rounded);
    if (fabs((double)rounded) > fabs(value)) {
        bits -= 1; /* toward zero: one code less, whatever the sign; infinity becomes the largest */
    }
    return attune_f32_from_bits(bits | 1);
}

/* Element index of an array. dtype: one that results have. */
static inline void attune_reference_store(attune_dtype dtype, void *array, int64_t index, double value) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        ((float *)array)[index] = (float)value;
        break;
    case ATTUNE_DTYPE_F16:
        ((uint16_t *)array)[index] = attune_f16_from_f32(attune_reference_round_to_odd(value));
        break;
    case ATTUNE_DTYPE_BF16:
        ((uint16_t *)array)[index] = attune_bf16_from_f32(attune_reference_round_to_odd(value));
        break;
    case ATTUNE_DTYPE_E4M3:
        ((uint8_t *)array)[index] = attune_e4m3_from_f32(attune_reference_round_to_odd(value));
        break;
    default:
        ((double *)array)[index] = value;
        break;
    }
}

#endif
