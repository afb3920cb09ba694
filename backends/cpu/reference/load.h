/*
 * Elements of any dtype as f64, which holds each of them exactly.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_LOAD_H
#define ATTUNE_REFERENCE_LOAD_H

#include "attune/types.h"
#include "core/portable/convert.h"

/* Element index of an array. dtype: one that results or inputs have; not an integer. */
static inline double attune_reference_load(attune_dtype dtype, const void *array, int64_t index) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        return (double)((const float *)array)[index];
    case ATTUNE_DTYPE_F16:
        return (double)attune_f32_from_f16(((const uint16_t *)array)[index]);
    case ATTUNE_DTYPE_BF16:
        return (double)attune_f32_from_bf16(((const uint16_t *)array)[index]);
    case ATTUNE_DTYPE_E4M3:
        return (double)attune_f32_from_e4m3(((const uint8_t *)array)[index]);
    case ATTUNE_DTYPE_F64:
        return ((const double *)array)[index];
    default:
        return NAN;
    }
}

/* The first count elements. One loop for each dtype, so that each can be vectorised. */
static inline void attune_reference_load_all(attune_dtype dtype, const void *array, int64_t count, double *out) {
#define LOAD_ALL(DTYPE)                                                                                                \
case DTYPE:                                                                                                            \
    for (int64_t d = 0; d < count; d++) {                                                                              \
        out[d] = attune_reference_load(DTYPE, array, d);                                                               \
    }                                                                                                                  \
    break
    switch (dtype) {
        LOAD_ALL(ATTUNE_DTYPE_F32);
        LOAD_ALL(ATTUNE_DTYPE_F16);
        LOAD_ALL(ATTUNE_DTYPE_BF16);
        LOAD_ALL(ATTUNE_DTYPE_E4M3);
    default:
        LOAD_ALL(ATTUNE_DTYPE_F64);
    }
#undef LOAD_ALL
}

#endif
