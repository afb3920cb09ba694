/*
 * Vectors of ATTUNE_VECTOR floats, 4, 8 or 16 of them, and elements of every dtype in memory.
 *
 * The build sets, besides: ATTUNE_DTYPE, of q, k and v, 0 if the problem says; ATTUNE_IS_CPU; ATTUNE_ALIGNED, whether
 * each ATTUNE_VECTOR elements of q, k, v and their kind are aligned to their size.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_VECTOR_H
#define ATTUNE_OPENCL_GENERIC_VECTOR_H

#include "backends/opencl/generic/params.h"
#include "core/portable/convert.h"
#include "core/portable/softmax.h"

/* Inline, or what is private to a work-item would have an address, and no register. */
#ifndef FN /* a debugger may want functions as they are */
#    define FN static inline __attribute__((always_inline))
#endif

#define PASTED(a, b) a##b
#define PASTE(a, b)  PASTED(a, b)

#define VECTOR    ATTUNE_VECTOR
#define FLOATS    PASTE(float, ATTUNE_VECTOR)
#define INTS      PASTE(int, ATTUNE_VECTOR)
#define UINTS     PASTE(uint, ATTUNE_VECTOR)
#define LONGS     PASTE(long, ATTUNE_VECTOR)
#define USHORTS   PASTE(ushort, ATTUNE_VECTOR)
#define UCHARS    PASTE(uchar, ATTUNE_VECTOR)
#define VLOAD     PASTE(vload, ATTUNE_VECTOR)
#define VSTORE    PASTE(vstore, ATTUNE_VECTOR)
#define TO_FLOATS PASTE(convert_float, ATTUNE_VECTOR)
#define TO_UINTS  PASTE(convert_uint, ATTUNE_VECTOR)
#define AS_FLOATS PASTE(as_float, ATTUNE_VECTOR)

#define VLOAD_HALF PASTE(vload_half, ATTUNE_VECTOR)

/* A vector that is also looked at lane by lane. */
typedef union lanes {
    FLOATS vector;
    float lane[VECTOR];
} lanes;

/* Before a loop over lanes. A GPU has no index into registers; a CPU has one into its cache, and less to compile. */
#if ATTUNE_IS_CPU
#    define FOR_LANES _Pragma("unroll 1")
#else
#    define FOR_LANES _Pragma("unroll")
#endif

/* A pointer to float in local memory that is aligned to a vector. */
#define AT(pointer) (*(__local FLOATS *)(pointer))

FN int element_bytes(int dtype) {
    return dtype == ATTUNE_OPENCL_F32 ? 4 : (dtype == ATTUNE_OPENCL_E4M3 ? 1 : 2);
}

/* ---- From a dtype: core/portable/convert.h without a branch ---- */

FN FLOATS from_f16(USHORTS code) {
    const UINTS bits = TO_UINTS(code);
    const UINTS magnitude = bits & 0x7FFFu;
    const UINTS rebias = (UINTS)(112u << 23);
    const UINTS normal = (magnitude << 13) + rebias;
    const UINTS subnormal = PASTE(as_uint, VECTOR)(TO_FLOATS(magnitude) * 5.9604644775390625e-8f);
    const UINTS special = select(normal, normal + rebias, magnitude >= (UINTS)0x7C00u);
    return AS_FLOATS(select(special, subnormal, magnitude < (UINTS)0x400u) | ((bits & 0x8000u) << 16));
}

FN FLOATS from_e4m3(UCHARS code) {
    const UINTS bits = TO_UINTS(code);
    const UINTS magnitude = bits & 0x7Fu;
    const UINTS normal = (magnitude << 20) + (120u << 23);
    const UINTS subnormal = PASTE(as_uint, VECTOR)(TO_FLOATS(magnitude) * 0.001953125f);
    const UINTS special = select(normal, (UINTS)0x7FC00000u, magnitude == (UINTS)0x7Fu);
    return AS_FLOATS(select(special, subnormal, magnitude < (UINTS)8u) | ((bits & 0x80u) << 24));
}

FN float load_element(__global const uchar *data, attune_i64 index, int dtype) {
    switch (dtype) {
    case ATTUNE_OPENCL_F16:
        return attune_f32_from_f16(((__global const ushort *)data)[index]);
    case ATTUNE_OPENCL_BF16:
        return attune_f32_from_bf16(((__global const ushort *)data)[index]);
    case ATTUNE_OPENCL_E4M3:
        return attune_f32_from_e4m3(data[index]);
    default:
        return ((__global const float *)data)[index];
    }
}

/* A whole vector of elements from index on. */
#if ATTUNE_ALIGNED
#    define WHOLE(type, data, index) (*(__global const type *)((data) + (index)))
#else
#    define WHOLE(type, data, index) VLOAD(0, (data) + (index))
#endif

FN FLOATS load_f16(__global const uchar *data, attune_i64 index) {
#if ATTUNE_IS_CPU
    return from_f16(WHOLE(USHORTS, (__global const ushort *)data, index));
#elif ATTUNE_ALIGNED
    /* Loaded as one, which vloada_half need not do, and turned by the device's own conversion. */
    const USHORTS code = WHOLE(USHORTS, (__global const ushort *)data, index);
    return VLOAD_HALF(0, (const half *)&code);
#else
    return VLOAD_HALF(0, (__global const half *)data + index);
#endif
}

FN FLOATS load_vector(__global const uchar *data, attune_i64 index, int dtype) {
    switch (dtype) {
    case ATTUNE_OPENCL_F16:
        return load_f16(data, index);
    case ATTUNE_OPENCL_BF16:
        return AS_FLOATS(TO_UINTS(WHOLE(USHORTS, (__global const ushort *)data, index)) << 16);
    case ATTUNE_OPENCL_E4M3:
        return from_e4m3(WHOLE(UCHARS, data, index));
    default:
        return WHOLE(FLOATS, (__global const float *)data, index);
    }
}

/* The first count elements; zeros past them. */
FN FLOATS load_part(__global const uchar *data, attune_i64 index, int dtype, int count) {
    lanes part;
    FOR_LANES
    for (int n = 0; n < VECTOR; n++) {
        part.lane[n] = n < count ? load_element(data, index + n, dtype) : 0.0f;
    }
    return part.vector;
}

/* ---- To a dtype ---- */

FN void store_element(__global uchar *data, attune_i64 index, int dtype, float x) {
    switch (dtype) {
    case ATTUNE_OPENCL_F16:
        ((__global ushort *)data)[index] = attune_f16_from_f32(x);
        break;
    case ATTUNE_OPENCL_BF16:
        ((__global ushort *)data)[index] = attune_bf16_from_f32(x);
        break;
    case ATTUNE_OPENCL_E4M3:
        data[index] = attune_e4m3_from_f32(x);
        break;
    default:
        ((__global float *)data)[index] = x;
    }
}

/* The first count elements of a vector. */
FN void store_part(__global uchar *data, attune_i64 index, int dtype, int count, FLOATS x) {
    if (dtype == ATTUNE_OPENCL_F32 && count >= VECTOR) {
        VSTORE(x, 0, (__global float *)data + index);
        return;
    }
    lanes part;
    part.vector = x;
    FOR_LANES
    for (int n = 0; n < VECTOR; n++) {
        if (n < count) {
            store_element(data, index + n, dtype, part.lane[n]);
        }
    }
}

/* ---- core/portable/softmax.h for each lane ---- */

FN FLOATS softmax_base(FLOATS max) {
    return select(max, (FLOATS)0.0f, max == (FLOATS)-INFINITY);
}

FN FLOATS softmax_weight(FLOATS score, FLOATS base) {
    return exp2((score - base) * ATTUNE_LOG2_E);
}

#endif
