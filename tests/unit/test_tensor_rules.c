/*
 * Where sizes stop: the last that fits, and the first that does not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include "attune/status.h"
#include "core/tensor_rules.h"

#define LIMIT (INT64_C(1) << 60)

static void products_stop_at_the_limit(void **state) {
    (void)state;
    assert_true(attune_extents_multiply(LIMIT, 1, 1, 1) == LIMIT);
    assert_true(attune_extents_multiply(LIMIT / 4, 2, 1, 2) == LIMIT);
    assert_true(attune_extents_multiply(LIMIT + 1, 1, 1, 1) == -1);
    assert_true(attune_extents_multiply(LIMIT / 2, 1, 1, 3) == -1);
    assert_true(attune_extents_multiply(1, 2, LIMIT, 1) == -1);
    assert_true(attune_extents_multiply(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX) == -1);
    assert_true(attune_extents_multiply(0, 5, 7, 0) == 35); /* an extent of 0 hides no other */
    assert_true(attune_extents_multiply(0, LIMIT, 2, 1) == -1);
}

static attune_status check_view(attune_dtype dtype, uint64_t byte_offset, int64_t extent, int64_t stride) {
    attune_tensor tensor = {.byte_offset = byte_offset, .dtype = dtype, .rank = 2, .shape = {extent, 1}};
    tensor.stride[0] = stride;
    tensor.stride[1] = LIMIT; /* of an extent of 1: reaches nowhere */
    return attune_tensor_check("t", &tensor, false);
}

static void ends_stop_at_the_limit(void **state) {
    (void)state;
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, 0, 2, LIMIT - 1), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, 0, 2, LIMIT), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "t has shape (2, 1), stride (1152921504606846976, 1152921504606846976)");
    assert_int_equal(check_view(ATTUNE_DTYPE_F64, 0, 2, LIMIT / 8 - 1), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_F64, 8, 2, LIMIT / 8 - 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(check_view(ATTUNE_DTYPE_F64, 8, 2, LIMIT / 8 - 2), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, LIMIT - 1, 1, 0), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, LIMIT, 1, 0), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, LIMIT - 2, 2, 1), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, LIMIT - 2, 3, 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, 0, LIMIT, 1), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_F16, 0, LIMIT, 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(check_view(ATTUNE_DTYPE_F16, 0, LIMIT, 0), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, 0, 0, INT64_MAX), ATTUNE_OK);
    assert_int_equal(check_view(ATTUNE_DTYPE_U8, 0, 3, INT64_MAX), ATTUNE_INVALID_ARGUMENT);
}

static void the_longest_shape_is_written_whole(void **state) {
    (void)state;
    const int64_t shape[] = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    assert_string_equal(attune_shape_format(4, shape).text,
                        "(-9223372036854775808, -9223372036854775808, -9223372036854775808, -9223372036854775808)");
    assert_string_equal(attune_shape_format(1, shape + 3).text, "(-9223372036854775808)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_stop_at_the_limit),
        cmocka_unit_test(ends_stop_at_the_limit),
        cmocka_unit_test(the_longest_shape_is_written_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
