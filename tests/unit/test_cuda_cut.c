/*
 * How the Hopper forward cuts its tiles: what is cut and what is not, and that parts have each key tile once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/cut.h"

#include "tests/support/cmocka_all.h"

enum { PROCESSORS = 132, TILE_ROWS = 192, TILE_KEYS = 64, STATES_MAX = 512 };

struct launch {
    attune_kernel_row row;
    attune_problem problem;
};

static struct launch launch_of(bool causal, int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
    const struct launch made = {
        .row = {.tile_rows = TILE_ROWS,
                .tile_keys = TILE_KEYS,
                .head_dim_max = 128,
                .head_dim_v_max = 128,
                .features = causal ? ATTUNE_FEATURE_CAUSAL : 0},
        .problem = {.batch = batch,
                    .heads_q = heads,
                    .heads_kv = heads,
                    .rows = rows,
                    .keys = keys,
                    .align = ATTUNE_ALIGN_BOTTOM_RIGHT,
                    .window_left = -1,
                    .window_right = causal ? 0 : -1},
    };
    return made;
}

static attune_sm90_cut choose(const struct launch *of, int64_t processors) {
    attune_sm90_cut cut;
    const int32_t splits = attune_sm90_splits_choose(&of->row, &of->problem, 1, processors);
    attune_sm90_cut_make(&of->row, &of->problem, 1, processors, splits, &cut);
    assert_int_equal(cut.most, splits);
    return cut;
}

static attune_sm90_cut choose_for(bool causal, int64_t batch, int64_t heads, int64_t rows, int64_t keys) {
    const struct launch of = launch_of(causal, batch, heads, rows, keys);
    return choose(&of, PROCESSORS);
}

static void test_few_tiles_are_cut_for_all_processors(void **state) {
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        assert_in_range(choose_for(causal, 1, 8, 512, 8192).units, 100, 2 * PROCESSORS);
        assert_in_range(choose_for(causal, 1, 8, 128, 65536).units, 100, PROCESSORS);
        assert_in_range(choose_for(causal, 1, 32, 128, 8192).units, 100, PROCESSORS);
    }
}

static void test_of_many_equal_tiles_the_last_are_cut(void **state) {
    (void)state;
    const attune_sm90_cut cut = choose_for(false, 2, 16, 8192, 8192);
    assert_true(cut.most > 1);
    assert_int_equal(cut.first_cut, 10 * PROCESSORS);
    assert_int_equal(cut.cut_tiles, 2 * 16 * 43 - 10 * PROCESSORS);
    assert_int_equal(cut.units, cut.first_cut + cut.cut_tiles * cut.most);
}

static void test_what_is_balanced_is_not_cut(void **state) {
    (void)state;
    assert_int_equal(choose_for(false, 1, PROCESSORS, 192, 4096).most, 1);
    assert_int_equal(choose_for(false, 32, 16, 512, 512).most, 1);
    assert_int_equal(choose_for(true, 2, 16, 8192, 8192).most, 1);
    assert_int_equal(choose_for(true, 1, 32, 8192, 8192).most, 1);
    assert_int_equal(choose_for(false, 1, 1, 64, 64).most, 1); /* one key tile */
    assert_int_equal(choose_for(false, 0, 8, 512, 512).most, 1);
    assert_int_equal(choose_for(false, 1, 8, 0, 512).most, 1);
    assert_int_equal(choose_for(true, 1, 8, 512, 0).most, 1);
}

/* Key tiles of a row tile of a causal problem. */
static int64_t length_of(const attune_problem *problem, int64_t row_tile) {
    const int64_t rows = problem->rows < (row_tile + 1) * TILE_ROWS ? problem->rows : (row_tile + 1) * TILE_ROWS;
    const int64_t keys = problem->window_right < 0 ? problem->keys : rows + problem->keys - problem->rows;
    return keys > 0 ? (keys + TILE_KEYS - 1) / TILE_KEYS : 1;
}

static void assert_covers(const struct launch *of, const attune_sm90_cut *cut) {
    const int64_t row_tiles = (of->problem.rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t heads = of->problem.batch * of->problem.heads_q;
    const bool are_equal = of->problem.window_right < 0;
    int64_t units = 0;
    int64_t cut_tiles = 0;
    for (int64_t tile = 0; tile < row_tiles * heads; tile++) {
        const int64_t length = length_of(&of->problem, tile % row_tiles);
        const bool is_whole = (are_equal ? tile : tile % row_tiles) < cut->first_cut;
        const int64_t parts = is_whole ? 1 : (length + cut->key_tiles - 1) / cut->key_tiles;
        assert_in_range(parts, 1, cut->most);
        units += parts;
        cut_tiles += parts > 1;
    }
    assert_int_equal(units, cut->units);
    assert_true(cut->most == 1 || cut_tiles == cut->cut_tiles);
    assert_true(cut->most == 1 || cut->cut_tiles * cut->most <= STATES_MAX);
}

/* Any number of processors, and any request. */
static void test_parts_have_each_key_tile_once(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1},     {192, 64},    {193, 65},  {150, 300},
                                       {512, 512}, {1000, 3000}, {700, 600}, {2048, 2048}};
    for (size_t n = 0; n < 2 * sizeof sizes / sizeof sizes[0]; n++) {
        const struct launch of = launch_of(n % 2, 2, 3, sizes[n / 2][0], sizes[n / 2][1]);
        for (int64_t processors = 1; processors < 200; processors += 1 + processors / 4) {
            attune_sm90_cut cut = choose(&of, processors);
            assert_covers(&of, &cut);
            for (int32_t splits = 1; splits <= 20; splits++) {
                attune_sm90_cut_make(&of.row, &of.problem, 1, processors, splits, &cut);
                assert_in_range(cut.most, 1, splits);
                assert_covers(&of, &cut);
            }
        }
    }
}

/* A device of one processor, tests' smallest: tiles before the last round stay whole. */
static void test_a_request_cuts_small_problems(void **state) {
    (void)state;
    const struct launch of = launch_of(false, 1, 3, 150, 300);
    attune_sm90_cut cut;
    attune_sm90_cut_make(&of.row, &of.problem, 1, PROCESSORS, 3, &cut);
    assert_true(cut.most == 3 && cut.first_cut == 0 && cut.units == 9);
    attune_sm90_cut_make(&of.row, &of.problem, 1, 2, 3, &cut);
    assert_true(cut.most == 3 && cut.units > 3);
    attune_sm90_cut_make(&of.row, &of.problem, 1, PROCESSORS, 100, &cut);
    assert_int_equal(cut.most, 5); /* key tiles */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_tiles_are_cut_for_all_processors),
        cmocka_unit_test(test_of_many_equal_tiles_the_last_are_cut),
        cmocka_unit_test(test_what_is_balanced_is_not_cut),
        cmocka_unit_test(test_parts_have_each_key_tile_once),
        cmocka_unit_test(test_a_request_cuts_small_problems),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
