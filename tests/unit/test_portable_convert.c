/*
 * Conversions of f16, bf16 and e4m3, exhaustively: every code, and every f32 that lies on, or next to, a code or the
 * middle between two, against a search for the nearest value in f64.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>

#include "core/portable/convert.h"
#include "tests/support/cmocka_all.h"

/* A format by its definition. */
struct format {
    const char *name;
    int mantissa_bits;
    int bias;
    unsigned sign_bit;
    unsigned last_finite; /* code of the largest finite value */
    double past;          /* what is past the largest: infinity, or the largest itself */
    float (*decode)(unsigned code);
    unsigned (*encode)(float value);
};

static float decode_f16(unsigned code) {
    return attune_f32_from_f16((uint16_t)code);
}
static unsigned encode_f16(float value) {
    return attune_f16_from_f32(value);
}
static float decode_bf16(unsigned code) {
    return attune_f32_from_bf16((uint16_t)code);
}
static unsigned encode_bf16(float value) {
    return attune_bf16_from_f32(value);
}
static float decode_e4m3(unsigned code) {
    return attune_f32_from_e4m3((uint8_t)code);
}
static unsigned encode_e4m3(float value) {
    return attune_e4m3_from_f32(value);
}

static const struct format formats[] = {
    {"f16", 10, 15, 0x8000, 0x7BFF, INFINITY, decode_f16, encode_f16},
    {"bf16", 7, 127, 0x8000, 0x7F7F, INFINITY, decode_bf16, encode_bf16},
    {"e4m3", 3, 7, 0x80, 0x7E, 448.0, decode_e4m3, encode_e4m3},
};
#define FORMATS (sizeof formats / sizeof *formats)

/* The value of a finite code without its sign. */
static double value_of(const struct format *format, unsigned code) {
    const int exponent = (int)(code >> format->mantissa_bits);
    const double fraction = ldexp(code & ((1u << format->mantissa_bits) - 1), -format->mantissa_bits);
    return exponent == 0 ? ldexp(fraction, 1 - format->bias) : ldexp(1 + fraction, exponent - format->bias);
}

/* The value that rounding must give, from two neighbours' distances. */
static double nearest(const struct format *format, double x) {
    unsigned low = 0;
    unsigned high = format->last_finite + 1; /* as if the range went on: decides what is past the largest */
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        *(value_of(format, middle) <= x ? &low : &high) = middle;
    }
    const double below = x - value_of(format, low);
    const double above = value_of(format, high) - x;
    const unsigned code = below < above || (below == above && low % 2 == 0) ? low : high;
    return code > format->last_finite ? format->past : value_of(format, code);
}

static void check(const struct format *format, float x) {
    const double magnitude = fabs((double)x);
    const double expected = isinf(x) ? format->past : nearest(format, magnitude);
    const double got = format->decode(format->encode(x));
    if (fabs(got) != expected || !signbit(got) != !signbit(x)) {
        fail_msg("%s of %a: %a, not %a", format->name, (double)x, got, expected);
    }
}

static void test_every_code_decodes(void **state) {
    (void)state;
    for (size_t n = 0; n < FORMATS; n++) {
        const struct format *format = &formats[n];
        for (unsigned code = 0; code <= format->last_finite; code++) {
            assert_true((double)format->decode(code) == value_of(format, code));
            assert_true((double)format->decode(code | format->sign_bit) == -value_of(format, code));
            assert_true(signbit(format->decode(code | format->sign_bit)));
        }
    }
}

static void test_codes_past_the_finite(void **state) {
    (void)state;
    for (size_t n = 0; n < FORMATS; n++) {
        const struct format *format = &formats[n];
        for (unsigned code = format->last_finite + 1; code < format->sign_bit; code++) {
            const bool infinite = format->past == INFINITY && code == format->last_finite + 1;
            const float value = format->decode(code);
            const float negative = format->decode(code | format->sign_bit);
            assert_true(infinite ? value == INFINITY : isnan(value));
            assert_true(infinite ? negative == -INFINITY : isnan(negative));
        }
    }
}

static void test_every_code_survives(void **state) {
    (void)state;
    for (size_t n = 0; n < FORMATS; n++) {
        const struct format *format = &formats[n];
        for (unsigned code = 0; code < 2 * format->sign_bit; code++) {
            const float value = format->decode(code);
            if (isnan(value)) {
                assert_true(isnan(format->decode(format->encode(value))));
                assert_int_equal(format->encode(value) & format->sign_bit, code & format->sign_bit);
            } else {
                assert_int_equal(format->encode(value), code);
            }
        }
    }
}

/* Ties and their neighbours: rounding can change nowhere else. */
static void test_rounding_at_every_border(void **state) {
    (void)state;
    for (size_t n = 0; n < FORMATS; n++) {
        const struct format *format = &formats[n];
        for (unsigned code = 0; code <= format->last_finite; code++) {
            const float middle = (float)((value_of(format, code) + value_of(format, code + 1)) / 2);
            const float at[] = {(float)value_of(format, code), middle};
            for (int k = 0; k < 2; k++) {
                check(format, at[k]);
                check(format, -at[k]);
                check(format, nextafterf(at[k], INFINITY));
                check(format, nextafterf(at[k], -INFINITY));
            }
        }
    }
}

static void test_rounding_in_every_binade(void **state) {
    (void)state;
    for (size_t n = 0; n < FORMATS; n++) {
        for (uint32_t bits = 0; bits < 0x7F800000; bits += 4093) {
            check(&formats[n], attune_f32_from_bits(bits));
        }
        check(&formats[n], FLT_MAX);
        check(&formats[n], INFINITY);
        check(&formats[n], -INFINITY);
        check(&formats[n], FLT_TRUE_MIN);
    }
}

static void test_nan_of_any_payload(void **state) {
    (void)state;
    const uint32_t payloads[] = {0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFC00000, 0xFFFFFFFF};
    for (size_t n = 0; n < FORMATS; n++) {
        for (size_t k = 0; k < sizeof payloads / sizeof *payloads; k++) {
            assert_true(isnan(formats[n].decode(formats[n].encode(attune_f32_from_bits(payloads[k])))));
        }
    }
}

static void test_e4m3_by_hand(void **state) {
    (void)state;
    assert_int_equal(attune_e4m3_from_f32(448.0f), 0x7E);
    assert_int_equal(attune_e4m3_from_f32(1e9f), 0x7E);
    assert_int_equal(attune_e4m3_from_f32(-INFINITY), 0xFE);
    assert_int_equal(attune_e4m3_from_f32(1.0f), 0x38);
    assert_int_equal(attune_e4m3_from_f32(0.001953125f), 0x01);
    assert_int_equal(attune_e4m3_from_f32(0.0009765625f), 0x00); /* half of the smallest: to even */
    assert_int_equal(attune_e4m3_from_f32(-0.0f), 0x80);
    assert_int_equal(attune_e4m3_from_f32(1.0625f), 0x38); /* a tie: to even */
    assert_int_equal(attune_e4m3_from_f32(1.1875f), 0x3A);
    assert_int_equal(attune_e4m3_from_f32(NAN) & 0x7F, 0x7F);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_code_decodes),
        cmocka_unit_test(test_codes_past_the_finite),
        cmocka_unit_test(test_every_code_survives),
        cmocka_unit_test(test_rounding_at_every_border),
        cmocka_unit_test(test_rounding_in_every_binade),
        cmocka_unit_test(test_nan_of_any_payload),
        cmocka_unit_test(test_e4m3_by_hand),
    };
    return cmocka_run_group_tests_name("portable convert", tests, NULL, NULL);
}
