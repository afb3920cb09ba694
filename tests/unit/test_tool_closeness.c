/*
 * How bench judges a result: the norm of the error, lse, and what has to be where it is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "closeness.h"

static struct closeness compare(const float *values, const double *exact, int64_t count) {
    struct closeness closeness = {0};
    closeness_add(&closeness, values, exact, count);
    return closeness;
}

static void test_norm(void **state) {
    (void)state;
    const float values[] = {3, 0};
    const double exact[] = {3, 4};
    struct closeness closeness = compare(values, exact, 2);
    assert_true(closeness_norm(&closeness) == 4.0 / 5.0);
    closeness_add(&closeness, values, exact, 1);
    assert_true(closeness_norm(&closeness) == sqrt(16.0 / 34.0));
    assert_int_equal(closeness.count, 3);
}

static void test_equal_is_no_error(void **state) {
    (void)state;
    const float values[] = {0, -INFINITY, INFINITY, NAN, 1};
    const double exact[] = {0, -INFINITY, INFINITY, NAN, 1};
    struct closeness closeness = compare(values, exact, 5);
    assert_true(closeness_norm(&closeness) == 0 && closeness_lse(&closeness, ATTUNE_DTYPE_F32) == 0);
    closeness = compare(values, exact, 1);
    assert_true(closeness_norm(&closeness) == 0);
}

static void test_any_error_of_zero_is_infinite(void **state) {
    (void)state;
    const struct closeness closeness = compare(&(float){1e-20F}, &(double){0}, 1);
    assert_true(isinf(closeness_norm(&closeness)));
}

static void test_a_gradient_that_cancels_is_held_to_dv(void **state) {
    (void)state;
    const struct closeness none = {0};
    const struct closeness dv = compare((const float[]){8, 0}, (const double[]){8, 0}, 2);
    struct closeness closeness = compare((const float[]){3e-9F, 4e-9F, 0, 0}, (const double[4]){0}, 4);
    assert_true(fabs(closeness_score_gradient(&closeness, &none) / 2.5e-9 - 1) < 1e-6);
    assert_true(fabs(closeness_score_gradient(&closeness, &dv) / (2.5e-9 / sqrt(32)) - 1) < 1e-6);
    closeness = compare((const float[]){1e-3F, 0}, (const double[]){2e-3, 0}, 2);
    assert_true(closeness_score_gradient(&closeness, &none) == closeness_norm(&closeness));
    closeness = compare(&(float){NAN}, &(double){0}, 1);
    assert_true(isinf(closeness_score_gradient(&closeness, &dv)));
}

static void test_strays(void **state) {
    (void)state;
    const float values[] = {NAN, 1, INFINITY, INFINITY, 0};
    const double exact[] = {1, NAN, 1, -INFINITY, -INFINITY};
    for (int i = 0; i < 5; i++) {
        const struct closeness closeness = compare(&values[i], &exact[i], 1);
        assert_true(isinf(closeness_norm(&closeness)) && isinf(closeness_lse(&closeness, ATTUNE_DTYPE_BF16)));
    }
}

static void test_lse(void **state) {
    (void)state;
    const float values[] = {0.5F, 101, 2004};
    const double exact[] = {0, 100, 2000};
    struct closeness closeness = compare(values, exact, 2);
    assert_true(closeness_lse(&closeness, ATTUNE_DTYPE_F32) == 0.5);
    assert_true(closeness_lse(&closeness, ATTUNE_DTYPE_F16) == 1);
    closeness = compare(&values[2], &exact[2], 1);
    assert_true(closeness_lse(&closeness, ATTUNE_DTYPE_F32) == 0.002);
    assert_true(closeness_lse(&closeness, ATTUNE_DTYPE_F16) == 2);
}

static void test_verdict_tells_the_worst(void **state) {
    (void)state;
    struct verdict verdict = {.is_right = true, .limit = 1, .result = "nothing"};
    verdict_add(&verdict, "o", 0.1, 1);
    verdict_add(&verdict, "lse", 0.001, 0.002);
    verdict_add(&verdict, "dq", 0.3, 1);
    assert_true(verdict.is_right && verdict.error == 0.001 && verdict.limit == 0.002);
    assert_string_equal(verdict.result, "lse");
    verdict_add(&verdict, "dk", NAN, 1);
    assert_false(verdict.is_right);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),
        cmocka_unit_test(test_equal_is_no_error),
        cmocka_unit_test(test_any_error_of_zero_is_infinite),
        cmocka_unit_test(test_a_gradient_that_cancels_is_held_to_dv),
        cmocka_unit_test(test_strays),
        cmocka_unit_test(test_lse),
        cmocka_unit_test(test_verdict_tells_the_worst),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
