/* SPDX-License-Identifier: Apache-2.0 */
#include "convert.h"

#include <math.h>
#include <string.h>

/* A format whose codes grow with the magnitude. Sources: IEEE 754-2008, 3.6; OCP 8-bit Floating Point Specification
 * (OFP8) 1.0, 5.1. */
struct format {
    int mantissa_bits;
    int exponent_bias;
    uint32_t largest;  /* code of the largest finite value */
    uint32_t overflow; /* what everything above it becomes */
    uint32_t nan;
    uint32_t sign;
};

static const struct format formats[] = {
    [ATTUNE_DTYPE_F16] = {10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000},
    [ATTUNE_DTYPE_BF16] = {7, 127, 0x7f7f, 0x7f80, 0x7fc0, 0x8000},
    [ATTUNE_DTYPE_E4M3] = {3, 7, 0x7e, 0x7e, 0x7f, 0x80},
};

static uint32_t encode_finite(double magnitude, const struct format *format) {
    int smallest_exponent = 1 - format->exponent_bias;
    int exponent = magnitude > 0 ? ilogb(magnitude) : smallest_exponent;
    if (exponent < smallest_exponent) {
        exponent = smallest_exponent;
    }
    /* rint rounds to nearest even; a mantissa that overflows carries into the exponent, as it should. */
    double mantissa = rint(ldexp(magnitude, format->mantissa_bits - exponent));
    uint32_t code = (uint32_t)mantissa + ((uint32_t)(exponent - smallest_exponent) << format->mantissa_bits);
    return code > format->largest ? format->overflow : code;
}

static uint32_t encode(double value, const struct format *format) {
    uint32_t sign = signbit(value) ? format->sign : 0;
    if (isnan(value)) {
        return sign | format->nan;
    }
    return sign | (isinf(value) ? format->overflow : encode_finite(fabs(value), format));
}

static double decode(uint32_t code, const struct format *format) {
    uint32_t magnitude_code = code & (format->sign - 1);
    uint32_t hidden = UINT32_C(1) << format->mantissa_bits;
    uint32_t mantissa = magnitude_code & (hidden - 1);
    int exponent = (int)(magnitude_code >> format->mantissa_bits);
    double magnitude;
    if (magnitude_code > format->overflow) {
        magnitude = NAN;
    } else if (magnitude_code > format->largest) {
        magnitude = INFINITY;
    } else if (exponent == 0) {
        magnitude = ldexp(mantissa, 1 - format->exponent_bias - format->mantissa_bits);
    } else {
        magnitude = ldexp(mantissa + hidden, exponent - format->exponent_bias - format->mantissa_bits);
    }
    return code & format->sign ? -magnitude : magnitude;
}

bool array_type_is_float(enum array_type type) {
    return array_type_to_dtype(type) != ATTUNE_DTYPE_NONE;
}

attune_dtype array_type_to_dtype(enum array_type type) {
    switch (type) {
    case ARRAY_F64:
    case ARRAY_F32:
        return ATTUNE_DTYPE_F32;
    case ARRAY_F16:
        return ATTUNE_DTYPE_F16;
    case ARRAY_BF16:
        return ATTUNE_DTYPE_BF16;
    case ARRAY_E4M3:
        return ATTUNE_DTYPE_E4M3;
    default:
        return ATTUNE_DTYPE_NONE;
    }
}

static double load(const void *source, attune_dtype dtype, int64_t index) {
    if (dtype == ATTUNE_DTYPE_F32) {
        return ((const float *)source)[index];
    }
    uint32_t code =
        dtype == ATTUNE_DTYPE_E4M3 ? ((const uint8_t *)source)[index] : (uint32_t)((const uint16_t *)source)[index];
    return decode(code, &formats[dtype]);
}

static void store(double value, attune_dtype dtype, void *destination, int64_t index) {
    if (dtype == ATTUNE_DTYPE_F32) {
        ((float *)destination)[index] = (float)value;
    } else if (dtype == ATTUNE_DTYPE_E4M3) {
        ((uint8_t *)destination)[index] = (uint8_t)encode(value, &formats[dtype]);
    } else {
        ((uint16_t *)destination)[index] = (uint16_t)encode(value, &formats[dtype]);
    }
}

void floats_round(const void *source, enum array_type type, int64_t count, attune_dtype dtype, void *destination) {
    attune_dtype source_dtype = array_type_to_dtype(type);
    bool is_f64 = type == ARRAY_F64;
    if (!is_f64 && source_dtype == dtype) {
        if (count > 0) {
            memcpy(destination, source, (size_t)count * attune_dtype_size_bytes(dtype));
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        store(is_f64 ? ((const double *)source)[i] : load(source, source_dtype, i), dtype, destination, i);
    }
}

void floats_widen(const void *source, attune_dtype dtype, int64_t count, float *destination) {
    for (int64_t i = 0; i < count; i++) {
        destination[i] = (float)load(source, dtype, i);
    }
}
