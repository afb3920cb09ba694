/*
 * f16, bf16 and e4m3 from and to f32, by integer bits: the same on every device, subnormals included, whatever its
 * rounding and flushing modes. To nearest, ties to even.
 *
 * Source: IEEE 754-2019, section 3; OCP 8-bit Floating Point Specification 1.0 (E4M3).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_CONVERT_H
#define ATTUNE_PORTABLE_CONVERT_H

#include "core/portable/target.h"

typedef union attune_f32_bits {
    float value;
    attune_u32 bits;
} attune_f32_bits;

ATTUNE_FN attune_u32 attune_f32_to_bits(float value) {
    attune_f32_bits both;
    both.value = value;
    return both.bits;
}

ATTUNE_FN float attune_f32_from_bits(attune_u32 bits) {
    attune_f32_bits both;
    both.bits = bits;
    return both.value;
}

/* bits / 2^shift, to nearest, ties to even. shift: 1 to 31; bits and the result's last place must not overflow 2^32. */
ATTUNE_FN attune_u32 attune_round_shift(attune_u32 bits, attune_u32 shift) {
    const attune_u32 below_half = ((attune_u32)1 << (shift - 1)) - 1;
    return (bits + below_half + ((bits >> shift) & 1)) >> shift;
}

/* The code of an f32 magnitude (its bits without the sign; not NaN) in a format of mantissa_bits and exponent bias.
 * Past the format's range the code goes on counting: the caller cuts it. */
ATTUNE_FN attune_u32 attune_f32_narrow(attune_u32 magnitude, attune_u32 mantissa_bits, attune_u32 bias) {
    const attune_u32 exponent = magnitude >> 23;
    const attune_u32 rebias = 127 - bias; /* an f32 exponent of rebias + 1 is the format's smallest normal one */
    const attune_u32 shift = 23 - mantissa_bits;
    const attune_u32 further = rebias + 1 - exponent;
    if (exponent > rebias) {
        return attune_round_shift(magnitude - (rebias << 23), shift);
    }
    /* Subnormal in the format. f32's own subnormals are far below half of its smallest step. */
    if (exponent == 0 || shift + further > 24) {
        return 0;
    }
    return attune_round_shift((magnitude & 0x7FFFFFu) | 0x800000u, shift + further);
}

ATTUNE_FN bool attune_magnitude_is_nan(attune_u32 magnitude) {
    return magnitude > 0x7F800000u;
}

/* ---- f16: IEEE binary16; past the largest is infinity ---- */

ATTUNE_FN float attune_f32_from_f16(attune_u16 code) {
    const attune_u32 sign = (attune_u32)(code & 0x8000u) << 16;
    const attune_u32 exponent = (code >> 10) & 31u;
    const attune_u32 mantissa = code & 1023u;
    if (exponent == 0) { /* a multiple of 2^-24, which f32 holds as a normal number */
        const float magnitude = (float)mantissa * 5.9604644775390625e-8f;
        return attune_f32_from_bits(sign | attune_f32_to_bits(magnitude));
    }
    return attune_f32_from_bits(sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | (mantissa << 13));
}

ATTUNE_FN attune_u16 attune_f16_from_f32(float value) {
    const attune_u32 bits = attune_f32_to_bits(value);
    const attune_u32 sign = (bits >> 16) & 0x8000u;
    const attune_u32 magnitude = bits & 0x7FFFFFFFu;
    attune_u32 code;
    if (attune_magnitude_is_nan(magnitude)) {
        return (attune_u16)(sign | 0x7E00u);
    }
    code = attune_f32_narrow(magnitude, 10, 15);
    return (attune_u16)(sign | (code > 0x7C00u ? 0x7C00u : code));
}

/* ---- bf16: the upper half of binary32 ---- */

ATTUNE_FN float attune_f32_from_bf16(attune_u16 code) {
    return attune_f32_from_bits((attune_u32)code << 16);
}

ATTUNE_FN attune_u16 attune_bf16_from_f32(float value) {
    const attune_u32 bits = attune_f32_to_bits(value);
    if (attune_magnitude_is_nan(bits & 0x7FFFFFFFu)) {
        return (attune_u16)(((bits >> 16) & 0x8000u) | 0x7FC0u);
    }
    return (attune_u16)(((bits >> 16) & 0x8000u) | attune_round_shift(bits & 0x7FFFFFFFu, 16));
}

/* ---- e4m3: OCP E4M3FN; past the largest, infinity included, is 448 ---- */

ATTUNE_FN float attune_f32_from_e4m3(attune_u8 code) {
    const attune_u32 sign = (attune_u32)(code & 0x80u) << 24;
    const attune_u32 exponent = (code >> 3) & 15u;
    const attune_u32 mantissa = code & 7u;
    if ((code & 0x7Fu) == 0x7Fu) {
        return attune_f32_from_bits(sign | 0x7FC00000u);
    }
    if (exponent == 0) { /* a multiple of 2^-9 */
        return attune_f32_from_bits(sign | attune_f32_to_bits((float)mantissa * 0.001953125f));
    }
    return attune_f32_from_bits(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

ATTUNE_FN attune_u8 attune_e4m3_from_f32(float value) {
    const attune_u32 bits = attune_f32_to_bits(value);
    const attune_u32 sign = (bits >> 24) & 0x80u;
    const attune_u32 magnitude = bits & 0x7FFFFFFFu;
    attune_u32 code;
    if (attune_magnitude_is_nan(magnitude)) {
        return (attune_u8)(sign | 0x7Fu);
    }
    code = attune_f32_narrow(magnitude, 3, 7);
    return (attune_u8)(sign | (code > 0x7Eu ? 0x7Eu : code));
}

#endif
