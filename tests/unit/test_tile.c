/*
 * Tiles: the choice under each amount of memory, and counts against brute force.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/tile.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/problems.h"

#define KIB 1024

/* ---- The choice ---- */

static struct attune_tile_need need_of(const attune_problem *problem, int64_t memory_bytes) {
    struct attune_tile_need need;
    memset(&need, 0, sizeof need);
    need.problem = problem;
    need.packed_rows = problem->rows;
    need.memory_bytes = memory_bytes;
    return need;
}

static bool is_side(int32_t side) {
    return side == 4 || side == 8 || side == 16 || side == 32 || side == 64 || side == 128;
}

/* Memory as devices have it, every head size, every dtype, both passes: the tile fits, or none would. */
static void test_every_head_size_fits_or_is_refused(void **state) {
    static const int64_t memory[] = {16 * KIB, 32 * KIB, 48 * KIB, 64 * KIB, 99 * KIB, 163 * KIB, 227 * KIB};
    static const attune_op ops[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};
    (void)state;
    int64_t refusals = 0;
    for (size_t m = 0; m < sizeof memory / sizeof memory[0]; m++) {
        for (int variant = 0; variant < 8; variant++) {
            for (int64_t head_dim = 1; head_dim <= 256; head_dim++) {
                attune_problem problem = test_problem();
                problem.op = ops[variant / 4];
                problem.dtype = (attune_dtype)(ATTUNE_DTYPE_F32 + variant % 4);
                problem.head_dim = head_dim;
                problem.head_dim_v = head_dim;
                struct attune_tile tile;
                struct attune_tile_need need = need_of(&problem, memory[m]);
                if (attune_tile_choose(&need, &tile)) {
                    assert_true(is_side(tile.rows) && is_side(tile.keys));
                    assert_true(attune_tile_bytes(&problem, tile.rows, tile.keys) <= memory[m]);
                } else {
                    assert_true(attune_tile_bytes_least(&problem) > memory[m]);
                    refusals++;
                }
            }
        }
    }
    /* f32 backward in 16 KiB is the one thing that does not fit, from D = 255 on. */
    assert_int_equal(refusals, 2);
}

static void test_large_memory_gives_large_tiles(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.dtype = ATTUNE_DTYPE_F16;
    problem.head_dim = 128;
    problem.head_dim_v = 128;
    struct attune_tile tile;
    struct attune_tile_need need = need_of(&problem, 227 * KIB);
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 128);
    assert_int_equal(tile.keys, 128);
    need.memory_bytes = 99 * KIB;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 128);
    assert_int_equal(tile.keys, 64);
    need.memory_bytes = 0; /* unknown */
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 128);
    assert_int_equal(tile.keys, 128);
}

static void test_tiles_are_no_longer_than_the_problem(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.rows = 1;
    problem.keys = 33;
    struct attune_tile tile;
    struct attune_tile_need need = need_of(&problem, 227 * KIB);
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 16);
    assert_int_equal(tile.keys, 64);
    need.packed_rows = 17;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 32);
    need.packed_rows = 0;
    problem.keys = 0;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 16);
    assert_int_equal(tile.keys, 16);
}

static void test_sides_below_16_only_where_memory_asks_for_it(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.rows = 4;
    problem.head_dim = 256;
    problem.head_dim_v = 256;
    struct attune_tile tile;
    struct attune_tile_need need = need_of(&problem, 64 * KIB);
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 16);
    assert_true(tile.keys >= 16);
    need.memory_bytes = 32 * KIB;
    assert_true(attune_tile_choose(&need, &tile));
    assert_true(tile.rows < 16 || tile.keys < 16);
}

static void test_requests(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    struct attune_tile tile;
    struct attune_tile_need need = need_of(&problem, 48 * KIB);
    need.request.rows = 48;
    need.request.keys = 24;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 48);
    assert_int_equal(tile.keys, 24);
    need.request.keys = 0; /* one side is the caller's, the other automatic */
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 48);
    assert_true(is_side(tile.keys));
    need.request.rows = 128;
    need.request.keys = 128; /* does not fit: automatic */
    assert_true(attune_tile_choose(&need, &tile));
    assert_true(attune_tile_bytes(&problem, tile.rows, tile.keys) <= 48 * KIB);
    need.may_exceed = true;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 128);
    assert_int_equal(tile.keys, 128);
}

static void test_a_cache_refuses_nothing(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    struct attune_tile tile;
    struct attune_tile_need need = need_of(&problem, 1);
    assert_false(attune_tile_choose(&need, &tile));
    need.may_exceed = true;
    assert_true(attune_tile_choose(&need, &tile));
    assert_int_equal(tile.rows, 16);
    assert_int_equal(tile.keys, 16);
}

/* ---- Counts ---- */

static double count_pairs(const attune_mask *mask) {
    double pairs = 0;
    for (int64_t row = 0; row < mask->rows; row++) {
        for (int64_t key = 0; key < mask->keys; key++) {
            pairs += attune_mask_visible(*mask, row, key) ? 1 : 0;
        }
    }
    return pairs;
}

static void check_all_windows(attune_mask mask) {
    for (mask.shift = -7; mask.shift <= 7; mask.shift++) {
        for (mask.left = -1; mask.left <= 6; mask.left++) {
            for (mask.right = -1; mask.right <= 6; mask.right++) {
                if (attune_mask_pairs(&mask) != count_pairs(&mask)) {
                    fail_msg("rows %lld keys %lld leftpad %lld shift %lld window %lld %lld", (long long)mask.rows,
                             (long long)mask.keys, (long long)mask.leftpad, (long long)mask.shift, (long long)mask.left,
                             (long long)mask.right);
                }
            }
        }
    }
}

static void test_pairs_are_exact(void **state) {
    (void)state;
    attune_mask mask = {0, 0, 0, 0, 0, 0};
    for (mask.rows = 0; mask.rows <= 6; mask.rows++) {
        for (mask.keys = 0; mask.keys <= 6; mask.keys++) {
            for (mask.leftpad = 0; mask.leftpad <= mask.keys + 1; mask.leftpad++) {
                check_all_windows(mask);
            }
        }
    }
}

static void test_pairs_of_long_sequences(void **state) {
    (void)state;
    const int64_t million = 1000000;
    const attune_mask causal = {million, million, 0, 0, -1, 0};
    assert_true(attune_mask_pairs(&causal) == 500000500000.0);
    const attune_mask window = {million, million, 0, 0, 1023, 0};
    assert_true(attune_mask_pairs(&window) == 1024.0 * (1000000 - 1024) + 1024.0 * 1025 / 2);
    const int64_t huge = INT64_C(1) << 61;
    const attune_mask all = {huge, huge, 0, huge, INT64_C(1) << 62, INT64_C(1) << 62};
    assert_true(attune_mask_pairs(&all) == (double)huge * (double)huge);
    const attune_mask none = {huge, huge, huge, -huge, INT64_C(1) << 62, 0};
    assert_true(attune_mask_pairs(&none) == 0);
}

/* Bottom-right with more rows than keys, where a block count once went negative elsewhere. */
static void test_pairs_where_first_rows_see_nothing(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.rows = 2048;
    problem.keys = 1024;
    problem.window_right = 0;
    const attune_mask mask = attune_mask_longest(&problem);
    assert_int_equal(mask.shift, -1024);
    assert_true(attune_mask_pairs(&mask) == 1024.0 * 1025 / 2);
}

static void test_longest_sequence_takes_the_alignment(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.rows = 3;
    problem.keys = 10;
    assert_int_equal(attune_mask_longest(&problem).shift, 7);
    problem.align = ATTUNE_ALIGN_TOP_LEFT;
    assert_int_equal(attune_mask_longest(&problem).shift, 0);
    problem.align = ATTUNE_ALIGN_DIAGONAL;
    problem.diagonal = -4;
    assert_int_equal(attune_mask_longest(&problem).shift, -4);
}

static int64_t count_key_tiles(const attune_problem *problem, int64_t rows, int64_t tile_keys) {
    int64_t most = 0;
    attune_mask mask = attune_mask_longest(problem);
    for (int64_t first = 0; first < problem->rows; first++) {
        const int64_t count = attune_min(rows, problem->rows - first);
        const attune_interval keys = attune_mask_keys(mask, first, count);
        if (keys.begin < keys.end) {
            most = attune_max(most, (keys.end - 1) / tile_keys - keys.begin / tile_keys + 1);
        }
    }
    return most;
}

static void test_key_tiles_are_never_too_few(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    for (problem.keys = 0; problem.keys <= 40; problem.keys += 5) {
        for (problem.window_left = -1; problem.window_left <= 12; problem.window_left++) {
            for (problem.window_right = -1; problem.window_right <= 6; problem.window_right += 2) {
                problem.rows = 24;
                const int64_t exact = count_key_tiles(&problem, 8, 4);
                const int64_t bound = attune_key_tiles_max(&problem, 8, 4);
                assert_true(exact <= bound && bound <= (problem.keys + 3) / 4);
                bool is_closed = problem.window_left >= 0 && problem.window_right >= 0;
                assert_true(!is_closed || bound <= (8 + problem.window_left + problem.window_right + 3) / 4 + 1);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_head_size_fits_or_is_refused),
        cmocka_unit_test(test_large_memory_gives_large_tiles),
        cmocka_unit_test(test_tiles_are_no_longer_than_the_problem),
        cmocka_unit_test(test_sides_below_16_only_where_memory_asks_for_it),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_a_cache_refuses_nothing),
        cmocka_unit_test(test_pairs_are_exact),
        cmocka_unit_test(test_pairs_of_long_sequences),
        cmocka_unit_test(test_pairs_where_first_rows_see_nothing),
        cmocka_unit_test(test_longest_sequence_takes_the_alignment),
        cmocka_unit_test(test_key_tiles_are_never_too_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
