/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <math.h>
#include <string.h>

struct format {
    int mantissa_bits;
    int exponent_bits;
    int bias;
    bool has_infinity;
};

static const struct format formats[] = {
    [ATTUNE_DTYPE_F32] = {23, 8, 127, true},   [ATTUNE_DTYPE_F16] = {10, 5, 15, true},
    [ATTUNE_DTYPE_BF16] = {7, 8, 127, true},   [ATTUNE_DTYPE_E4M3] = {3, 4, 7, false},
    [ATTUNE_DTYPE_F64] = {52, 11, 1023, true},
};

/* 2^exponent, within the normal range of f64. */
static double power_of_two(int exponent) {
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* floor(log2 |value|) of a value that is not 0; anything below -1022 for a subnormal. */
static int exponent_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int)(bits >> 52 & 0x7FF) - 1023;
}

double conform_number_unit(attune_dtype dtype) {
    return power_of_two(-formats[dtype].mantissa_bits - 1);
}

double conform_number_smallest_normal(attune_dtype dtype) {
    return power_of_two(1 - formats[dtype].bias);
}

double conform_number_largest(attune_dtype dtype) {
    const struct format *format = &formats[dtype];
    if (!format->has_infinity) {
        return 448.0;
    }
    return (2.0 - power_of_two(-format->mantissa_bits)) * power_of_two(format->bias);
}

double conform_number_round(attune_dtype dtype, double value) {
    const struct format *format = &formats[dtype];
    if (dtype == ATTUNE_DTYPE_F64 || value == 0 || !isfinite(value)) {
        return isinf(value) && !format->has_infinity ? copysign(448.0, value) : value;
    }
    int exponent = exponent_of(value);
    int lowest = 1 - format->bias;
    double quantum = power_of_two((exponent < lowest ? lowest : exponent) - format->mantissa_bits);
    double rounded = nearbyint(value / quantum) * quantum;
    if (fabs(rounded) <= conform_number_largest(dtype)) {
        return rounded;
    }
    return copysign(format->has_infinity ? INFINITY : 448.0, value);
}

/* f16, bf16 and e4m3; f32 and f64 are C's own. */
static uint32_t small_encode(attune_dtype dtype, double value) {
    const struct format *format = &formats[dtype];
    uint32_t sign = (uint32_t)(signbit(value) != 0) << (format->mantissa_bits + format->exponent_bits);
    uint32_t exponents = (1u << format->exponent_bits) - 1;
    if (isnan(value)) {
        uint32_t mantissa = format->has_infinity ? 1u << (format->mantissa_bits - 1) : 7u;
        return sign | exponents << format->mantissa_bits | mantissa;
    }
    double rounded = fabs(conform_number_round(dtype, value));
    if (isinf(rounded)) {
        return sign | exponents << format->mantissa_bits;
    }
    int lowest = 1 - format->bias;
    if (rounded < power_of_two(lowest)) {
        return sign | (uint32_t)(rounded * power_of_two(format->mantissa_bits - lowest));
    }
    int exponent = exponent_of(rounded);
    uint32_t whole = (uint32_t)(rounded * power_of_two(format->mantissa_bits - exponent));
    uint32_t mantissa = whole - (1u << format->mantissa_bits);
    return sign | (uint32_t)(exponent + format->bias) << format->mantissa_bits | mantissa;
}

static double small_decode(attune_dtype dtype, uint32_t bits) {
    const struct format *format = &formats[dtype];
    uint32_t mantissa = bits & ((1u << format->mantissa_bits) - 1);
    uint32_t exponents = (1u << format->exponent_bits) - 1;
    uint32_t exponent = bits >> format->mantissa_bits & exponents;
    double sign = bits >> (format->mantissa_bits + format->exponent_bits) & 1 ? -1.0 : 1.0;
    if (format->has_infinity && exponent == exponents) {
        return mantissa ? NAN : sign * INFINITY;
    }
    if (!format->has_infinity && exponent == exponents && mantissa == 7) {
        return NAN;
    }
    if (exponent == 0) {
        return sign * mantissa * power_of_two(1 - format->bias - format->mantissa_bits);
    }
    uint32_t whole = mantissa + (1u << format->mantissa_bits);
    return sign * whole * power_of_two((int)exponent - format->bias - format->mantissa_bits);
}

double conform_number_norm_limit(attune_dtype dtype) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        return 1.5e-6;
    case ATTUNE_DTYPE_F16:
        return 4.5e-4;
    case ATTUNE_DTYPE_BF16:
        return 3.5e-3;
    default:
        return 4e-2;
    }
}

void conform_number_store(attune_dtype dtype, double value, void *out_bytes) {
    if (dtype == ATTUNE_DTYPE_F64) {
        memcpy(out_bytes, &value, sizeof value);
    } else if (dtype == ATTUNE_DTYPE_F32) {
        float narrow = (float)value;
        memcpy(out_bytes, &narrow, sizeof narrow);
    } else if (dtype == ATTUNE_DTYPE_E4M3) {
        *(uint8_t *)out_bytes = (uint8_t)small_encode(dtype, value);
    } else {
        uint16_t half = (uint16_t)small_encode(dtype, value);
        memcpy(out_bytes, &half, sizeof half);
    }
}

double conform_number_load(attune_dtype dtype, const void *bytes) {
    if (dtype == ATTUNE_DTYPE_F64) {
        double value;
        memcpy(&value, bytes, sizeof value);
        return value;
    }
    if (dtype == ATTUNE_DTYPE_F32) {
        float value;
        memcpy(&value, bytes, sizeof value);
        return value;
    }
    if (dtype == ATTUNE_DTYPE_E4M3) {
        return small_decode(dtype, *(const uint8_t *)bytes);
    }
    uint16_t half;
    memcpy(&half, bytes, sizeof half);
    return small_decode(dtype, half);
}
