/*
 * Who sees whom: visible() against the page's own inequalities in 128 bits, and the intervals against visible().
 *
 * SPDX-License-Identifier: Apache-2.0
 */

#include "core/portable/mask.h"
#include "tests/support/cmocka_all.h"

#define FAR  (INT64_C(1) << 61)
#define WIDE (INT64_C(1) << 62)

__extension__ typedef __int128 wide;

static bool visible_by_the_page(attune_mask mask, int64_t i, int64_t j) {
    const wide diagonal = (wide)i + mask.shift;
    return j >= mask.leftpad && j < mask.keys && (mask.left == -1 || diagonal - mask.left <= j) &&
           (mask.right == -1 || j <= diagonal + mask.right);
}

static void check_visible(attune_mask mask) {
    for (int64_t i = 0; i < mask.rows; i++) {
        for (int64_t j = -1; j <= mask.keys + 1; j++) {
            if (attune_mask_visible(mask, i, j) != visible_by_the_page(mask, i, j)) {
                fail_msg("row %d, key %d, shift %lld, window %lld, %lld", (int)i, (int)j, (long long)mask.shift,
                         (long long)mask.left, (long long)mask.right);
            }
        }
    }
}

/* Exact: a key is in the interval if and only if some row of the tile sees it. */
static void check_keys(attune_mask mask) {
    for (int64_t first = 0; first < mask.rows; first++) {
        for (int64_t count = 1; first + count <= mask.rows; count++) {
            const attune_interval interval = attune_mask_keys(mask, first, count);
            assert_true(interval.begin <= interval.end);
            for (int64_t j = -1; j <= mask.keys + 1; j++) {
                bool seen = false;
                for (int64_t i = first; i < first + count; i++) {
                    seen |= attune_mask_visible(mask, i, j);
                }
                assert_int_equal(seen, j >= interval.begin && j < interval.end);
            }
        }
    }
}

static void check_rows(attune_mask mask) {
    for (int64_t first = mask.leftpad; first < mask.keys; first++) {
        for (int64_t count = 1; first + count <= mask.keys; count++) {
            const attune_interval interval = attune_mask_rows(mask, first, count);
            assert_true(interval.begin >= 0 && interval.begin <= interval.end && interval.end <= mask.rows);
            for (int64_t i = 0; i < mask.rows; i++) {
                bool sees = false;
                for (int64_t j = first; j < first + count; j++) {
                    sees |= attune_mask_visible(mask, i, j);
                }
                assert_int_equal(sees, i >= interval.begin && i < interval.end);
            }
        }
    }
}

static void check(attune_mask mask) {
    check_visible(mask);
    check_keys(mask);
    check_rows(mask);
}

static const int64_t sides[] = {-1, 0, 1, 2, 5, WIDE};
#define SIDES (sizeof sides / sizeof *sides)

static void check_every_window(attune_mask mask) {
    for (size_t left = 0; left < SIDES; left++) {
        for (size_t right = 0; right < SIDES; right++) {
            mask.left = sides[left];
            mask.right = sides[right];
            check(mask);
        }
    }
}

static void test_small_sizes(void **state) {
    (void)state;
    for (int64_t rows = 0; rows <= 5; rows++) {
        for (int64_t keys = 0; keys <= 6; keys++) {
            for (int64_t leftpad = 0; leftpad <= keys + 1; leftpad += 2) {
                for (int64_t shift = -8; shift <= 8; shift++) {
                    check_every_window((attune_mask){rows, keys, leftpad, shift, 0, 0});
                }
            }
        }
    }
}

static void test_extreme_diagonals(void **state) {
    (void)state;
    const int64_t shifts[] = {-FAR, -FAR + 1, FAR - 1, FAR};
    for (size_t n = 0; n < sizeof shifts / sizeof *shifts; n++) {
        check_every_window((attune_mask){4, 5, 0, shifts[n], 0, 0});
        /* Windows that just reach back from the diagonal to the keys, or just do not. */
        for (int64_t near = -7; near <= 7; near++) {
            const int64_t side = FAR + near;
            check((attune_mask){4, 5, 1, shifts[n], side, -1});
            check((attune_mask){4, 5, 1, shifts[n], -1, side});
            check((attune_mask){4, 5, 1, shifts[n], side, side});
        }
    }
}

/* Lengths that no test could walk: the ends of intervals alone. */
static void test_long_sequences(void **state) {
    (void)state;
    const attune_mask causal = {FAR, FAR, 0, FAR, -1, 0};
    assert_int_equal(attune_mask_keys(causal, FAR - 1, 1).end, FAR);
    assert_int_equal(attune_mask_rows(causal, 0, FAR).begin, 0);
    const attune_mask far_below = {FAR, FAR, 0, -FAR, WIDE, 0};
    const attune_interval none = attune_mask_keys(far_below, 0, FAR);
    assert_int_equal(none.begin, none.end);
    const attune_mask open = {FAR, FAR, 7, FAR, WIDE, WIDE};
    assert_int_equal(attune_mask_keys(open, 0, FAR).begin, 7);
    assert_int_equal(attune_mask_keys(open, 0, FAR).end, FAR);
}

static void test_shift(void **state) {
    (void)state;
    assert_int_equal(attune_mask_shift(true, 99, 5, 3), -2);
    assert_int_equal(attune_mask_shift(true, 99, 2, 5), 3);
    assert_int_equal(attune_mask_shift(false, 0, 2, 5), 0);
    assert_int_equal(attune_mask_shift(false, -FAR, 2, 5), -FAR);
}

static void test_saturation(void **state) {
    (void)state;
    assert_int_equal(attune_add_saturated(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(attune_add_saturated(INT64_MAX - 1, 1), INT64_MAX);
    assert_int_equal(attune_add_saturated(-INT64_MAX, -1), -INT64_MAX);
    assert_int_equal(attune_add_saturated(WIDE, WIDE), INT64_MAX);
    assert_int_equal(attune_add_saturated(-WIDE, -WIDE), -INT64_MAX);
    assert_int_equal(attune_add_saturated(INT64_MAX, -INT64_MAX), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_sizes),    cmocka_unit_test(test_extreme_diagonals),
        cmocka_unit_test(test_long_sequences), cmocka_unit_test(test_shift),
        cmocka_unit_test(test_saturation),
    };
    return cmocka_run_group_tests_name("portable mask", tests, NULL, NULL);
}
