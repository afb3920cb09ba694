/*
 * A kernel's share of the work: packed rows, common keys, splits, partial results, against brute force.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/portable/work.h"

#include "tests/support/cmocka_all.h"

static void test_packed_rows_keep_rows_together(void **state) {
    (void)state;
    for (attune_i64 pack = 1; pack <= 5; pack++) {
        attune_i64 packed_row = 0;
        for (attune_i64 row = 0; row < 7; row++) {
            for (attune_i64 head = 0; head < pack; head++) {
                const attune_packed packed = attune_packed_row(packed_row++, pack);
                assert_true(packed.row == row && packed.head == head);
            }
        }
    }
}

static bool all_rows_see(attune_mask mask, attune_i64 first, attune_i64 count, attune_i64 key) {
    for (attune_i64 row = first; row < first + count; row++) {
        if (!attune_mask_visible(mask, row, key)) {
            return false;
        }
    }
    return true;
}

static void check_common_keys(attune_mask mask) {
    for (attune_i64 first = 0; first < mask.rows; first++) {
        for (attune_i64 count = 1; first + count <= mask.rows; count++) {
            const attune_interval keys = attune_mask_common_keys(mask, first, count);
            assert_true(keys.begin <= keys.end);
            for (attune_i64 key = 0; key < mask.keys; key++) {
                assert_int_equal(key >= keys.begin && key < keys.end, all_rows_see(mask, first, count, key));
            }
        }
    }
}

static void test_common_keys_are_seen_by_every_row(void **state) {
    (void)state;
    attune_mask mask = {5, 0, 0, 0, 0, 0};
    for (mask.keys = 0; mask.keys <= 6; mask.keys++) {
        for (mask.leftpad = 0; mask.leftpad <= mask.keys; mask.leftpad += 2) {
            for (mask.shift = -6; mask.shift <= 6; mask.shift++) {
                for (mask.left = -1; mask.left <= 5; mask.left++) {
                    for (mask.right = -1; mask.right <= 5; mask.right++) {
                        check_common_keys(mask);
                    }
                }
            }
        }
    }
}

static void test_tiles_of_an_interval(void **state) {
    (void)state;
    for (attune_i64 size = 1; size <= 5; size++) {
        for (attune_i64 begin = 0; begin <= 12; begin++) {
            for (attune_i64 end = begin; end <= 14; end++) {
                const attune_interval keys = {begin, end};
                const attune_interval tiles = attune_interval_tiles(keys, size);
                attune_i64 touched = 0;
                for (attune_i64 tile = 0; tile <= 14; tile++) {
                    const bool touches = begin < end && tile * size < end && (tile + 1) * size > begin;
                    assert_int_equal(tile >= tiles.begin && tile < tiles.end, touches);
                    touched += touches ? 1 : 0;
                }
                assert_true(tiles.end - tiles.begin == touched);
            }
        }
    }
}

/* Every tile goes to one split, in order, whatever the number of splits; shares differ by one tile at most. */
static void test_splits_share_all_tiles(void **state) {
    (void)state;
    for (attune_i64 count = 0; count <= 70; count++) {
        for (attune_i64 splits = 1; splits <= 80; splits++) {
            const attune_interval tiles = {5, 5 + count};
            attune_i64 next = tiles.begin;
            for (attune_i64 split = 0; split < splits; split++) {
                const attune_interval part = attune_split_tiles(tiles, splits, split);
                const attune_i64 share = part.end - part.begin;
                assert_true(part.begin == next);
                assert_true(share == count / splits || share == count / splits + 1);
                assert_true(split < count || share == 0);
                next = part.end;
            }
            assert_true(next == tiles.end);
        }
    }
}

static void test_splits_of_long_sequences(void **state) {
    (void)state;
    const attune_interval tiles = {0, INT64_C(1) << 61};
    const attune_interval last = attune_split_tiles(tiles, 128, 127);
    assert_true(last.end == tiles.end && last.end - last.begin == INT64_C(1) << 54);
}

/* 400 sequences of 10,496 rows in 4 heads, Dv 128, where 32-bit offsets wrapped elsewhere. */
static void test_partial_rows_are_wide(void **state) {
    (void)state;
    assert_true(attune_partial_row(2, 3, 5, 1, 1, 2, 4) == ((1 * 2 + 1) * 3 + 2) * 5 + 4);
    const attune_i64 last = attune_partial_row(400, 4, 10496, 1, 399, 3, 10495);
    assert_true(last == INT64_C(2) * 400 * 4 * 10496 - 1);
    assert_true(last * 128 > INT64_C(1) << 31);
    assert_true(attune_partial_row(1 << 20, 64, 1 << 20, 127, 0, 0, 0) == INT64_C(127) << 46);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_rows_keep_rows_together), cmocka_unit_test(test_common_keys_are_seen_by_every_row),
        cmocka_unit_test(test_tiles_of_an_interval),           cmocka_unit_test(test_splits_share_all_tiles),
        cmocka_unit_test(test_splits_of_long_sequences),       cmocka_unit_test(test_partial_rows_are_wide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
