/*
 * Lists made of a boolean mask, and what lists amount to, against every row and key of small grids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "block_lists.h"

#include <stdlib.h>

static uint8_t mask[ENTRIES];

/* ---- Brute force ---- */

struct strides {
    int64_t row;
    int64_t key;
};

struct sight {
    int64_t visible;
    int64_t all;
};

static struct sight look_at(const attune_block_grid *grid, struct strides strides, int64_t block_row, int64_t block) {
    struct sight sight = {0, 0};
    for (int64_t i = 0; i < grid->rows; i++) {
        for (int64_t j = 0; j < grid->keys; j++) {
            if (i / grid->block_rows == block_row && j / grid->block_keys == block) {
                sight.visible += mask[i * strides.row + j * strides.key] != 0;
                sight.all++;
            }
        }
    }
    return sight;
}

struct expected {
    int64_t count;
    int64_t partial_count;
    int64_t pairs;
};

/* The lists must name every block that holds a visible pair, and no other. */
static struct expected check_lists(const attune_block_grid *grid, struct strides strides) {
    struct expected expected = {0, 0, 0};
    const int64_t block_rows = (grid->rows + grid->block_rows - 1) / grid->block_rows;
    const int64_t key_blocks = (grid->keys + grid->block_keys - 1) / grid->block_keys;
    for (int64_t block_row = 0; block_row < block_rows; block_row++) {
        assert_int_equal(grid->row_ptr[block_row], expected.count);
        for (int64_t block = 0; block < key_blocks; block++) {
            const struct sight sight = look_at(grid, strides, block_row, block);
            if (sight.visible > 0) {
                assert_int_equal(grid->col_idx[expected.count++], block);
                expected.partial_count += sight.visible < sight.all;
                expected.pairs += sight.all;
            }
        }
    }
    assert_int_equal(grid->row_ptr[block_rows], expected.count);
    return expected;
}

static void check_summary(const attune_block_grid *grid, const struct expected *expected) {
    attune_sparse_summary summary = {.struct_size = sizeof summary};
    assert_int_equal(attune_sparse_describe(grid, &summary), ATTUNE_OK);
    assert_int_equal(summary.blocks, expected->count);
    const int64_t block_rows = (grid->rows + grid->block_rows - 1) / grid->block_rows;
    assert_int_equal(summary.blocks_dense, block_rows * ((grid->keys + grid->block_keys - 1) / grid->block_keys));
    assert_true(summary.pairs == (double)expected->pairs);
    const double all = (double)(grid->rows * grid->keys);
    assert_true(summary.share == (all > 0 ? (double)expected->pairs / all : 0));
}

static void check_mask(const attune_block_grid *sizes, struct strides strides) {
    int64_t count = -1;
    int64_t partial_count = -1;
    assert_int_equal(attune_sparse_from_mask(sizes, mask, strides.row, strides.key, &count, &partial_count), ATTUNE_OK);
    assert_true(count >= 0 && count <= ENTRIES);
    const attune_block_grid grid = with_lists(*sizes, count);
    int64_t again = -1;
    assert_int_equal(attune_sparse_from_mask(&grid, mask, strides.row, strides.key, &again, NULL), ATTUNE_OK);
    assert_int_equal(again, count);
    const struct expected expected = check_lists(&grid, strides);
    assert_int_equal(count, expected.count);
    assert_int_equal(partial_count, expected.partial_count);
    check_summary(&grid, &expected);
}

/* ---- Masks ---- */

static void draw_mask(int percent) {
    for (int i = 0; i < ENTRIES; i++) {
        mask[i] = rand() % 100 < percent ? (uint8_t)(1 + rand() % 255) : 0;
    }
}

static void test_random_masks(void **state) {
    (void)state;
    static const int percents[] = {0, 3, 40, 97, 100};
    srand(7);
    for (int i = 0; i < 500; i++) {
        draw_mask(percents[i % 5]);
        const attune_block_grid grid = grid_of(rand() % 10, rand() % 12, 1 + rand() % 4, 1 + rand() % 5);
        check_mask(&grid, (struct strides){grid.keys, 1});
        check_mask(&grid, (struct strides){1, grid.rows});
    }
}

static void test_broadcast_masks(void **state) {
    (void)state;
    srand(8);
    for (int i = 0; i < 50; i++) {
        draw_mask(40);
        const attune_block_grid grid = grid_of(7, 9, 1 + rand() % 4, 1 + rand() % 5);
        check_mask(&grid, (struct strides){0, 1});
        check_mask(&grid, (struct strides){3, 0});
        check_mask(&grid, (struct strides){0, 0});
    }
}

static void test_block_shaped_mask_is_its_pattern(void **state) {
    (void)state;
    int64_t count = 0;
    int64_t partial_count = -1;
    const attune_block_grid grid = grid_of(6, 6, 2, 3);
    memset(mask, 0, sizeof mask);
    for (int64_t i = 2; i < 4; i++) {
        memset(mask + 6 * i + 3, 1, 3);
    }
    assert_int_equal(attune_sparse_from_mask(&grid, mask, 6, 1, &count, &partial_count), ATTUNE_OK);
    assert_true(count == 1 && partial_count == 0);
}

static void test_mask_is_checked(void **state) {
    (void)state;
    const attune_block_grid grid = grid_of(4, 4, 2, 2);
    const attune_block_grid empty = grid_of(0, 4, 2, 2);
    const attune_block_grid wrong = grid_of(4, 4, 0, 2);
    int64_t count = 5;
    memset(mask, 1, sizeof mask);
    assert_refused(attune_sparse_from_mask(NULL, mask, 4, 1, &count, NULL), "NULL");
    assert_refused(attune_sparse_from_mask(&grid, NULL, 4, 1, &count, NULL), "mask");
    assert_refused(attune_sparse_from_mask(&grid, mask, 4, 1, NULL, NULL), "out_count");
    assert_refused(attune_sparse_from_mask(&wrong, mask, 4, 1, &count, NULL), "block_rows = 0");
    assert_refused(attune_sparse_from_mask(&grid, mask, -1, 1, &count, NULL), "row_stride = -1");
    assert_refused(attune_sparse_from_mask(&grid, mask, 4, -1, &count, NULL), "key_stride = -1");
    assert_refused(attune_sparse_from_mask(&grid, mask, INT64_MAX, 1, &count, NULL), "2^63 bytes");
    assert_refused(attune_sparse_from_mask(&grid, mask, INT64_MAX / 3, INT64_MAX / 3, &count, NULL), "2^63 bytes");
    assert_int_equal(count, 5);
    assert_int_equal(attune_sparse_from_mask(&empty, NULL, 4, 1, &count, NULL), ATTUNE_OK);
    assert_int_equal(count, 0);
}

static void test_lists_that_are_too_short_stay_untouched(void **state) {
    (void)state;
    memset(mask, 1, sizeof mask);
    const attune_block_grid grid = with_lists(grid_of(4, 4, 2, 2), 3);
    int64_t count = 5;
    int64_t partial_count = 6;
    assert_refused(attune_sparse_from_mask(&grid, mask, 4, 1, &count, &partial_count), "capacity = 3");
    assert_true(row_ptr[0] == -1 && col_idx[0] == -1 && count == 5 && partial_count == 6);
}

/* ---- Lists ---- */

static attune_status describe(const attune_block_grid *grid) {
    attune_sparse_summary summary = {.struct_size = sizeof summary};
    return attune_sparse_describe(grid, &summary);
}

/* Of lists for several heads each head is described by its own offsets. */
static void test_lists_of_one_head(void **state) {
    (void)state;
    int32_t offsets[] = {2, 3, 5};
    int32_t blocks[] = {0, 1, 1, 0, 2};
    attune_sparse_summary summary = {.struct_size = sizeof summary};
    attune_block_grid grid = grid_of(5, 5, 3, 2);
    grid.row_ptr = offsets;
    grid.col_idx = blocks;
    grid.capacity = 5;
    assert_int_equal(attune_sparse_describe(&grid, &summary), ATTUNE_OK);
    assert_true(summary.blocks == 3 && summary.blocks_dense == 6);
    assert_true(summary.pairs == 3 * 2 + 2 * (2 + 1) && summary.share == 12.0 / 25.0);
}

static void test_lists_are_checked(void **state) {
    (void)state;
    int32_t offsets[] = {0, 1, 3};
    int32_t blocks[] = {0, 1, 1};
    attune_block_grid grid = grid_of(4, 4, 2, 2);
    assert_refused(describe(&grid), "row_ptr");
    grid.row_ptr = offsets;
    grid.capacity = 3;
    assert_refused(describe(&grid), "col_idx");
    grid.col_idx = blocks;
    assert_refused(describe(&grid), "col_idx[2] = 1: must be more than the one before it, 1");
    blocks[2] = 2;
    assert_refused(describe(&grid), "col_idx[2] = 2: must be one of 2 blocks");
    blocks[2] = -1;
    assert_refused(describe(&grid), "col_idx[2] = -1");
    offsets[2] = 4;
    assert_refused(describe(&grid), "row_ptr[2] = 4");
    offsets[1] = 5;
    assert_refused(describe(&grid), "row_ptr[1] = 5");
    offsets[0] = -1;
    assert_refused(describe(&grid), "row_ptr[0] = -1");
    assert_refused(attune_sparse_describe(&grid, NULL), "row_ptr[0] = -1");
    offsets[0] = offsets[1] = offsets[2] = 0;
    assert_refused(attune_sparse_describe(&grid, NULL), "NULL");
    assert_int_equal(describe(&grid), ATTUNE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_masks),
        cmocka_unit_test(test_broadcast_masks),
        cmocka_unit_test(test_block_shaped_mask_is_its_pattern),
        cmocka_unit_test(test_mask_is_checked),
        cmocka_unit_test(test_lists_that_are_too_short_stay_untouched),
        cmocka_unit_test(test_lists_of_one_head),
        cmocka_unit_test(test_lists_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
