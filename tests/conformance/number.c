/* SPDX-License-Identifier: Apache-2.0 */
#include "number.h"

#include <math.h>
#include <string.h>

/* The formats of 16 and 8 bits. f32 and f64 are C's own. */
struct format {
    int mantissa_bits;
    int exponent_bits;
    bool has_infinity;
};

static struct format format_of(attune_dtype dtype) {
    switch (dtype) {
    case ATTUNE_DTYPE_F16:
        return (struct format){10, 5, true};
    case ATTUNE_DTYPE_BF16:
        return (struct format){7, 8, true};
    case ATTUNE_DTYPE_E4M3:
        return (struct format){3, 4, false};
    case ATTUNE_DTYPE_F32:
        return (struct format){23, 8, true};
    default:
        return (struct format){52, 11, true};
    }
}

static int bias_of(struct format format) {
    return (1 << (format.exponent_bits - 1)) - 1;
}

double conform_number_unit(attune_dtype dtype) {
    return ldexp(1.0, -format_of(dtype).mantissa_bits - 1);
}

double conform_number_smallest_normal(attune_dtype dtype) {
    return ldexp(1.0, 1 - bias_of(format_of(dtype)));
}

double conform_number_largest(attune_dtype dtype) {
    struct format format = format_of(dtype);
    if (!format.has_infinity) {
        return 448.0;
    }
    return ldexp(2.0 - ldexp(1.0, -format.mantissa_bits), bias_of(format));
}

double conform_number_round(attune_dtype dtype, double value) {
    struct format format = format_of(dtype);
    if (dtype == ATTUNE_DTYPE_F64 || value == 0 || !isfinite(value)) {
        return isinf(value) && !format.has_infinity ? copysign(448.0, value) : value;
    }
    int exponent = ilogb(value);
    int lowest = 1 - bias_of(format);
    double quantum = ldexp(1.0, (exponent < lowest ? lowest : exponent) - format.mantissa_bits);
    double rounded = nearbyint(value / quantum) * quantum;
    if (fabs(rounded) <= conform_number_largest(dtype)) {
        return rounded;
    }
    return copysign(format.has_infinity ? INFINITY : 448.0, value);
}

static uint32_t small_encode(attune_dtype dtype, double value) {
    struct format format = format_of(dtype);
    uint32_t sign = (uint32_t)(signbit(value) != 0) << (format.mantissa_bits + format.exponent_bits);
    uint32_t exponents = (1u << format.exponent_bits) - 1;
    if (isnan(value)) {
        uint32_t mantissa = format.has_infinity ? 1u << (format.mantissa_bits - 1) : 7u;
        return sign | exponents << format.mantissa_bits | mantissa;
    }
    double rounded = fabs(conform_number_round(dtype, value));
    if (isinf(rounded)) {
        return sign | exponents << format.mantissa_bits;
    }
    int lowest = 1 - bias_of(format);
    if (rounded < ldexp(1.0, lowest)) {
        return sign | (uint32_t)ldexp(rounded, format.mantissa_bits - lowest);
    }
    int exponent = ilogb(rounded);
    uint32_t mantissa = (uint32_t)ldexp(rounded, format.mantissa_bits - exponent) - (1u << format.mantissa_bits);
    return sign | (uint32_t)(exponent + bias_of(format)) << format.mantissa_bits | mantissa;
}

static double small_decode(attune_dtype dtype, uint32_t bits) {
    struct format format = format_of(dtype);
    uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
    uint32_t exponents = (1u << format.exponent_bits) - 1;
    uint32_t exponent = bits >> format.mantissa_bits & exponents;
    double sign = bits >> (format.mantissa_bits + format.exponent_bits) & 1 ? -1.0 : 1.0;
    if (format.has_infinity && exponent == exponents) {
        return mantissa ? NAN : sign * INFINITY;
    }
    if (!format.has_infinity && exponent == exponents && mantissa == 7) {
        return NAN;
    }
    int lowest = 1 - bias_of(format);
    if (exponent == 0) {
        return sign * ldexp(mantissa, lowest - format.mantissa_bits);
    }
    return sign * ldexp(mantissa + (1u << format.mantissa_bits), (int)exponent - bias_of(format) - format.mantissa_bits);
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
