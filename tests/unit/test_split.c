/*
 * Splits and packs: the rule against a plain restatement of it, and cases known from decode.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/split.h"

#include <math.h>

#include "tests/support/cmocka_all.h"

/* ---- Splits ---- */

static int32_t choose(int64_t processors, int64_t work_groups, int64_t key_tiles) {
    const struct attune_split_need need = {processors, work_groups, key_tiles};
    return attune_split_choose(&need);
}

static void test_a_full_device_is_not_split(void **state) {
    (void)state;
    assert_int_equal(choose(132, 132, 1024), 1);
    assert_int_equal(choose(132, 106, 1024), 1); /* 80% */
    assert_true(choose(132, 105, 1024) >= 1);
    assert_int_equal(choose(2, 64, 1024), 1);
    assert_int_equal(choose(1, 1, 1024), 1);
}

static void test_few_key_tiles_are_not_split(void **state) {
    (void)state;
    assert_int_equal(choose(132, 1, 4), 1);
    assert_int_equal(choose(132, 1, 0), 1);
    assert_true(choose(132, 1, 5) > 1);
}

static void test_nothing_known_and_nothing_to_do(void **state) {
    (void)state;
    assert_int_equal(choose(0, 1, 1024), 1);
    assert_int_equal(choose(132, 0, 1024), 1);
}

static void test_decode_is_split(void **state) {
    (void)state;
    /* One sequence, 8 kv heads, 64k keys in tiles of 128. */
    const int32_t splits = choose(132, 8, 512);
    assert_true(splits * 8 >= 0.8 * 132 && splits * 8 <= 2 * 132);
    assert_int_equal(choose(132, 1, 1 << 20), 109); /* the least within 85% of 128, the best that merges */
    assert_true(choose(304, 1, 1 << 20) <= ATTUNE_MERGE_PARTS_MAX);
}

static double efficiency(double processors, double work_groups) {
    const double waves = work_groups / processors;
    return waves / ceil(waves);
}

static bool helps(int64_t key_tiles, int64_t splits) {
    return splits == 1 || (key_tiles + splits - 1) / splits < (key_tiles + splits - 2) / (splits - 1);
}

/* The fewest splits within 85% of the best, over the numbers that make the longest part shorter. */
static int32_t restate(int64_t processors, int64_t work_groups, int64_t key_tiles) {
    int64_t most = processors < key_tiles ? processors : key_tiles;
    most = most < ATTUNE_MERGE_PARTS_MAX ? most : ATTUNE_MERGE_PARTS_MAX;
    if (work_groups >= 0.8 * (double)processors || key_tiles <= 4) {
        return 1;
    }
    double best = 0;
    for (int64_t splits = 1; splits <= most; splits++) {
        if (helps(key_tiles, splits)) {
            best = fmax(best, efficiency((double)processors, (double)(work_groups * splits)));
        }
    }
    for (int64_t splits = 1; splits <= most; splits++) {
        if (helps(key_tiles, splits) && efficiency((double)processors, (double)(work_groups * splits)) >= 0.85 * best) {
            return (int32_t)splits;
        }
    }
    return 0;
}

static void test_the_rule_on_every_small_problem(void **state) {
    static const int64_t processors[] = {1, 2, 76, 132, 304};
    (void)state;
    for (size_t p = 0; p < sizeof processors / sizeof processors[0]; p++) {
        for (int64_t work_groups = 1; work_groups <= 320; work_groups++) {
            for (int64_t key_tiles = 0; key_tiles <= 140; key_tiles++) {
                const int32_t splits = choose(processors[p], work_groups, key_tiles);
                assert_int_equal(splits, restate(processors[p], work_groups, key_tiles));
                assert_true(splits == 1 || splits <= key_tiles);
            }
        }
    }
}

static void test_requests_are_honoured_up_to_what_merges(void **state) {
    (void)state;
    assert_int_equal(attune_split_clamp(1), 1);
    assert_int_equal(attune_split_clamp(64), 64);
    assert_int_equal(attune_split_clamp(ATTUNE_MERGE_PARTS_MAX), ATTUNE_MERGE_PARTS_MAX);
    assert_int_equal(attune_split_clamp(INT32_MAX), ATTUNE_MERGE_PARTS_MAX);
}

/* ---- Packs ---- */

static void test_packs_where_rows_are_few(void **state) {
    (void)state;
    assert_int_equal(attune_pack_choose(1, 8, 64), 8);
    assert_int_equal(attune_pack_choose(1, 71, 64), 71);
    assert_int_equal(attune_pack_choose(16, 4, 64), 4);
    assert_int_equal(attune_pack_choose(33, 2, 128), 2);
}

static void test_no_pack_where_it_gains_nothing(void **state) {
    (void)state;
    assert_int_equal(attune_pack_choose(1, 1, 64), 1);
    assert_int_equal(attune_pack_choose(64, 8, 64), 1);
    assert_int_equal(attune_pack_choose(4096, 8, 128), 1);
    assert_int_equal(attune_pack_choose(0, 8, 64), 1);
    assert_int_equal(attune_pack_choose(INT64_C(1) << 61, 8, 16), 1);
    assert_int_equal(attune_pack_choose(1, INT64_C(1) << 40, 16), 1);
}

/* Past the first tiles no pack can gain a tenth: the shortcut takes nothing away. */
static void test_packs_never_cost_rows(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 3000; rows++) {
        for (int32_t tile_rows = 16; tile_rows <= 128; tile_rows *= 2) {
            const int32_t pack = attune_pack_choose(rows, 6, tile_rows);
            const int64_t tiles_apart = 6 * ((rows + tile_rows - 1) / tile_rows);
            const int64_t tiles_packed = (6 * rows + tile_rows - 1) / tile_rows;
            assert_int_equal(pack, 10 * tiles_packed < 9 * tiles_apart ? 6 : 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_full_device_is_not_split),
        cmocka_unit_test(test_few_key_tiles_are_not_split),
        cmocka_unit_test(test_nothing_known_and_nothing_to_do),
        cmocka_unit_test(test_decode_is_split),
        cmocka_unit_test(test_the_rule_on_every_small_problem),
        cmocka_unit_test(test_requests_are_honoured_up_to_what_merges),
        cmocka_unit_test(test_packs_where_rows_are_few),
        cmocka_unit_test(test_no_pack_where_it_gains_nothing),
        cmocka_unit_test(test_packs_never_cost_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
