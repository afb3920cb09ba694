/*
 * The command's rounding, against the definition of round to nearest even, code by code.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "convert.h"

static uint32_t round_to(double value, attune_dtype dtype) {
    uint16_t wide = 0;
    uint8_t narrow = 0;
    if (dtype == ATTUNE_DTYPE_E4M3) {
        floats_round(&value, ARRAY_F64, 1, dtype, &narrow);
    } else {
        floats_round(&value, ARRAY_F64, 1, dtype, &wide);
    }
    return dtype == ATTUNE_DTYPE_E4M3 ? narrow : wide;
}

static double widen(uint32_t code, attune_dtype dtype) {
    float value;
    uint16_t wide = (uint16_t)code;
    uint8_t narrow = (uint8_t)code;
    floats_widen(dtype == ATTUNE_DTYPE_E4M3 ? (const void *)&narrow : &wide, dtype, 1, &value);
    return value;
}

/* Between two codes next to each other everything goes to the nearer one, and the middle to the even one. */
static void check_every_code(attune_dtype dtype, uint32_t largest, uint32_t sign) {
    for (uint32_t code = 0; code < largest; code++) {
        double low = widen(code, dtype);
        double high = widen(code + 1, dtype);
        double middle = 0.5 * (low + high);
        assert_true(low < high);
        assert_int_equal(round_to(low, dtype), code);
        assert_int_equal(round_to(-low, dtype), code | sign);
        assert_int_equal(round_to(middle, dtype), code + (code & 1));
        assert_int_equal(round_to(nextafter(middle, 0), dtype), code);
        assert_int_equal(round_to(nextafter(middle, INFINITY), dtype), code + 1);
        assert_int_equal(round_to(-nextafter(middle, INFINITY), dtype), (code + 1) | sign);
    }
}

static void test_f16(void **state) {
    (void)state;
    check_every_code(ATTUNE_DTYPE_F16, 0x7bff, 0x8000);
    assert_true(widen(0x3c00, ATTUNE_DTYPE_F16) == 1);
    assert_true(widen(0x0001, ATTUNE_DTYPE_F16) == 0x1p-24);
    assert_true(widen(0x7bff, ATTUNE_DTYPE_F16) == 65504);
    assert_int_equal(round_to(nextafter(65520, 0), ATTUNE_DTYPE_F16), 0x7bff);
    assert_int_equal(round_to(65520, ATTUNE_DTYPE_F16), 0x7c00);
    assert_int_equal(round_to(-INFINITY, ATTUNE_DTYPE_F16), 0xfc00);
    assert_true(isinf(widen(0x7c00, ATTUNE_DTYPE_F16)) && isnan(widen(0x7c01, ATTUNE_DTYPE_F16)));
    assert_true(isnan(widen(round_to(NAN, ATTUNE_DTYPE_F16), ATTUNE_DTYPE_F16)));
}

static void test_bf16(void **state) {
    (void)state;
    check_every_code(ATTUNE_DTYPE_BF16, 0x7f7f, 0x8000);
    assert_true(widen(0x3f80, ATTUNE_DTYPE_BF16) == 1);
    assert_true(widen(0x0001, ATTUNE_DTYPE_BF16) == 0x1p-133);
    assert_int_equal(round_to(1e39, ATTUNE_DTYPE_BF16), 0x7f80);
    assert_true(isinf(widen(0xff80, ATTUNE_DTYPE_BF16)) && isnan(widen(0x7f81, ATTUNE_DTYPE_BF16)));
    assert_true(isnan(widen(round_to(-NAN, ATTUNE_DTYPE_BF16), ATTUNE_DTYPE_BF16)));
}

static void test_e4m3_saturates(void **state) {
    (void)state;
    check_every_code(ATTUNE_DTYPE_E4M3, 0x7e, 0x80);
    assert_true(widen(0x38, ATTUNE_DTYPE_E4M3) == 1);
    assert_true(widen(0x01, ATTUNE_DTYPE_E4M3) == 0x1p-9);
    assert_true(widen(0x7e, ATTUNE_DTYPE_E4M3) == 448);
    assert_true(isnan(widen(0x7f, ATTUNE_DTYPE_E4M3)) && isnan(widen(0xff, ATTUNE_DTYPE_E4M3)));
    static const double large[] = {449, 464, 480, 1e30, INFINITY};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        assert_int_equal(round_to(large[i], ATTUNE_DTYPE_E4M3), 0x7e);
        assert_int_equal(round_to(-large[i], ATTUNE_DTYPE_E4M3), 0xfe);
    }
    assert_int_equal(round_to(NAN, ATTUNE_DTYPE_E4M3) & 0x7f, 0x7f);
}

static void test_a_file_is_rounded_once(void **state) {
    (void)state;
    /* By way of f32 this would be a tie, and go down to 1. */
    double value = 1 + 0x1p-11 + 0x1p-40;
    assert_int_equal(round_to(value, ATTUNE_DTYPE_F16), 0x3c01);
    uint16_t half = 0x3c01;
    uint16_t brain;
    floats_round(&half, ARRAY_F16, 1, ATTUNE_DTYPE_BF16, &brain);
    assert_int_equal(brain, 0x3f80);
}

static void test_bits_that_need_no_rounding_are_kept(void **state) {
    (void)state;
    uint32_t payload = 0x7fa00001; /* a signalling NaN */
    uint32_t kept;
    floats_round(&payload, ARRAY_F32, 1, ATTUNE_DTYPE_F32, &kept);
    assert_int_equal(kept, payload);
    floats_round(NULL, ARRAY_F32, 0, ATTUNE_DTYPE_F32, NULL);
}

static void test_types(void **state) {
    (void)state;
    assert_int_equal(array_type_to_dtype(ARRAY_F64), ATTUNE_DTYPE_F32);
    assert_int_equal(array_type_to_dtype(ARRAY_BF16), ATTUNE_DTYPE_BF16);
    assert_false(array_type_is_float(ARRAY_I32) || array_type_is_float(ARRAY_BOOL) || array_type_is_float(ARRAY_NONE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_e4m3_saturates),
        cmocka_unit_test(test_a_file_is_rounded_once),
        cmocka_unit_test(test_bits_that_need_no_rounding_are_kept),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
