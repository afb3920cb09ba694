/*
 * Block-sparse builders against every row and key of small grids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "block_lists.h"

#include <stdlib.h>

/* Who sees whom, element by element. */
struct rule {
    int64_t shift;
    attune_window window;
    int64_t global_rows;
    int64_t global_keys;
    const int64_t *document_ends; /* NULL: no documents */
    bool causal;
};

static int64_t document_of(const struct rule *rule, int64_t position) {
    int64_t document = 0;
    while (rule->document_ends[document] <= position) {
        document++;
    }
    return document;
}

static bool sees(const struct rule *rule, int64_t row, int64_t key) {
    if (rule->document_ends != NULL) {
        return document_of(rule, row) == document_of(rule, key) && (!rule->causal || key <= row);
    }
    const int64_t distance = key - row - rule->shift;
    const bool left = rule->window.left < 0 || distance >= -rule->window.left;
    const bool right = rule->window.right < 0 || distance <= rule->window.right;
    return (left && right) || row < rule->global_rows || key < rule->global_keys;
}

static bool block_is_seen(const struct rule *rule, const attune_block_grid *grid, int64_t block_row, int64_t block) {
    for (int64_t row = block_row * grid->block_rows; row < (block_row + 1) * grid->block_rows; row++) {
        for (int64_t key = block * grid->block_keys; key < (block + 1) * grid->block_keys; key++) {
            if (row < grid->rows && key < grid->keys && sees(rule, row, key)) {
                return true;
            }
        }
    }
    return false;
}

/* The lists must name every block that holds a visible pair, and no other. */
static void check_lists(const struct rule *rule, const attune_block_grid *grid, int64_t count) {
    const int64_t block_rows = (grid->rows + grid->block_rows - 1) / grid->block_rows;
    const int64_t key_blocks = (grid->keys + grid->block_keys - 1) / grid->block_keys;
    int32_t next = 0;
    for (int64_t block_row = 0; block_row < block_rows; block_row++) {
        assert_int_equal(grid->row_ptr[block_row], next);
        for (int64_t block = 0; block < key_blocks; block++) {
            if (block_is_seen(rule, grid, block_row, block)) {
                assert_true(next < count);
                assert_int_equal(grid->col_idx[next], block);
                next++;
            }
        }
    }
    assert_int_equal(grid->row_ptr[block_rows], next);
    assert_int_equal(next, count);
}

/* ---- Windows ---- */

static void check_global_local(const attune_block_grid *sizes, attune_window window, int64_t diagonal,
                               int64_t global_rows, int64_t global_keys) {
    const struct rule rule = {diagonal, window, global_rows, global_keys, NULL, false};
    int64_t count = -1;
    int64_t again = -1;
    assert_int_equal(
        attune_sparse_global_local(sizes, window, ATTUNE_ALIGN_DIAGONAL, diagonal, global_rows, global_keys, &count),
        ATTUNE_OK);
    assert_true(count <= ENTRIES);
    const attune_block_grid grid = with_lists(*sizes, count);
    assert_int_equal(
        attune_sparse_global_local(&grid, window, ATTUNE_ALIGN_DIAGONAL, diagonal, global_rows, global_keys, &again),
        ATTUNE_OK);
    assert_int_equal(again, count);
    check_lists(&rule, &grid, count);
}

static void check_sizes(void (*check)(const attune_block_grid *sizes)) {
    for (int64_t rows = 0; rows <= 9; rows += 3) {
        for (int64_t keys = 0; keys <= 11; keys++) {
            for (int64_t block_rows = 1; block_rows <= 4; block_rows++) {
                for (int64_t block_keys = 1; block_keys <= 5; block_keys += 2) {
                    const attune_block_grid sizes = grid_of(rows, keys, block_rows, block_keys);
                    check(&sizes);
                }
            }
        }
    }
}

static void check_windows(const attune_block_grid *sizes) {
    for (int64_t diagonal = -8; diagonal <= 8; diagonal += 2) {
        for (int64_t left = -1; left <= 4; left++) {
            for (int64_t right = -1; right <= 4; right++) {
                check_global_local(sizes, ATTUNE_WINDOW(left, right), diagonal, 0, 0);
            }
        }
    }
}

static void check_globals(const attune_block_grid *sizes) {
    for (int64_t diagonal = -4; diagonal <= 4; diagonal += 4) {
        for (int64_t global_rows = 0; global_rows <= 6; global_rows += 2) {
            for (int64_t global_keys = 0; global_keys <= 12; global_keys += 3) {
                check_global_local(sizes, ATTUNE_WINDOW(1, 0), diagonal, global_rows, global_keys);
                check_global_local(sizes, ATTUNE_WINDOW(2, 3), diagonal, global_rows, global_keys);
            }
        }
    }
}

static void test_windows(void **state) {
    (void)state;
    check_sizes(check_windows);
}

static void test_global_and_local(void **state) {
    (void)state;
    check_sizes(check_globals);
}

static int64_t count_window(attune_align align, int64_t diagonal, attune_window window) {
    const attune_block_grid grid = grid_of(4, 12, 2, 2);
    int64_t count = -1;
    assert_int_equal(attune_sparse_sliding_window(&grid, window, align, diagonal, &count), ATTUNE_OK);
    return count;
}

static void test_alignment_moves_the_window(void **state) {
    (void)state;
    const attune_window causal = ATTUNE_WINDOW(-1, 0);
    assert_int_equal(count_window(ATTUNE_ALIGN_TOP_LEFT, 0, causal), 1 + 2);
    assert_int_equal(count_window(ATTUNE_ALIGN_BOTTOM_RIGHT, 0, causal), 5 + 6);
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, 8, causal), 5 + 6);
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, 2, causal), 2 + 3);
    const attune_window none = {false, 7, 7};
    assert_int_equal(count_window(ATTUNE_ALIGN_TOP_LEFT, 0, none), 12);
}

static void test_extreme_windows(void **state) {
    (void)state;
    const int64_t far = INT64_C(1) << 61;
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, far, ATTUNE_WINDOW(INT64_MAX, 0)), 12);
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, -far, ATTUNE_WINDOW(0, INT64_MAX)), 12);
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, far, ATTUNE_WINDOW(5, -1)), 0);
    assert_int_equal(count_window(ATTUNE_ALIGN_DIAGONAL, -far, ATTUNE_WINDOW(-1, 5)), 0);
}

/* ---- Strided: defined in blocks ---- */

static bool strided_lists(const attune_block_grid *grid, int64_t diagonal, int64_t local, int64_t stride,
                          int64_t block_row, int64_t block) {
    int64_t last_row = (block_row + 1) * grid->block_rows - 1;
    last_row = last_row < grid->rows ? last_row : grid->rows - 1;
    if (last_row + diagonal < 0) {
        return false;
    }
    const int64_t of_diagonal = (last_row + diagonal) / grid->block_keys;
    const bool is_local = block <= of_diagonal && block > of_diagonal - local;
    return is_local || (block <= of_diagonal - local && block % stride == stride - 1);
}

static void check_strided(const attune_block_grid *sizes) {
    for (int variant = 0; variant < 7 * 3 * 4; variant++) {
        const int64_t diagonal = 2 * (variant % 7) - 6;
        const int64_t local = 1 + variant / 7 % 3;
        const int64_t stride = 1 + variant / 21;
        int64_t count = -1;
        int32_t next = 0;
        assert_int_equal(attune_sparse_strided(sizes, ATTUNE_ALIGN_DIAGONAL, diagonal, local, stride, &count),
                         ATTUNE_OK);
        const attune_block_grid grid = with_lists(*sizes, count);
        assert_int_equal(attune_sparse_strided(&grid, ATTUNE_ALIGN_DIAGONAL, diagonal, local, stride, &count),
                         ATTUNE_OK);
        for (int64_t block_row = 0; block_row * grid.block_rows < grid.rows; block_row++) {
            assert_int_equal(row_ptr[block_row], next);
            for (int64_t block = 0; block * grid.block_keys < grid.keys; block++) {
                if (strided_lists(&grid, diagonal, local, stride, block_row, block)) {
                    assert_int_equal(col_idx[next], block);
                    next++;
                }
            }
        }
        assert_int_equal(next, count);
    }
}

static void test_strided(void **state) {
    (void)state;
    check_sizes(check_strided);
}

/* ---- Documents ---- */

static void check_documents(int64_t rows, const int64_t *ends, int64_t documents, bool causal) {
    const struct rule rule = {0, {false, 0, 0}, 0, 0, ends, causal};
    for (int64_t block_rows = 1; block_rows <= 4; block_rows++) {
        for (int64_t block_keys = 1; block_keys <= 4; block_keys++) {
            const attune_block_grid sizes = grid_of(rows, rows, block_rows, block_keys);
            int64_t count = -1;
            assert_int_equal(attune_sparse_documents(&sizes, ends, documents, causal, &count), ATTUNE_OK);
            const attune_block_grid grid = with_lists(sizes, count);
            assert_int_equal(attune_sparse_documents(&grid, ends, documents, causal, &count), ATTUNE_OK);
            check_lists(&rule, &grid, count);
        }
    }
}

/* Every way to cut nine positions into documents. */
static void test_documents(void **state) {
    (void)state;
    for (int cuts = 0; cuts < 1 << 8; cuts++) {
        int64_t ends[9];
        int64_t documents = 0;
        for (int64_t position = 1; position < 9; position++) {
            if ((cuts >> (position - 1) & 1) != 0) {
                ends[documents++] = position;
            }
        }
        ends[documents++] = 9;
        check_documents(9, ends, documents, false);
        check_documents(9, ends, documents, true);
    }
    const attune_block_grid empty = grid_of(0, 0, 4, 4);
    int64_t count = -1;
    assert_int_equal(attune_sparse_documents(&empty, NULL, 0, true, &count), ATTUNE_OK);
    assert_int_equal(count, 0);
}

/* ---- Errors ---- */

static attune_status window_of(attune_block_grid grid) {
    int64_t count = 0;
    return attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(1, 1), ATTUNE_ALIGN_TOP_LEFT, 0, &count);
}

static void test_sizes_are_checked(void **state) {
    (void)state;
    int64_t count = 0;
    assert_refused(attune_sparse_sliding_window(NULL, ATTUNE_WINDOW(1, 1), ATTUNE_ALIGN_TOP_LEFT, 0, &count), "NULL");
    assert_refused(window_of(grid_of(-1, 4, 1, 1)), "rows = -1");
    assert_refused(window_of(grid_of(4, -1, 1, 1)), "keys = -1");
    assert_refused(window_of(grid_of(4, 4, 0, 1)), "block_rows = 0");
    assert_refused(window_of(grid_of(4, 4, 1, 0)), "block_keys = 0");
    assert_refused(window_of(grid_of(INT64_C(1) << 40, 4, 1, 1)), "2147483647 blocks each");
    assert_refused(window_of(grid_of(4, INT64_C(1) << 40, 1, 1)), "2147483647 blocks each");
    assert_refused(window_of(grid_of(INT64_MAX, 4, INT64_MAX, 1)), "rows = 9223372036854775807");
    attune_block_grid grid = grid_of(4, 4, 1, 1);
    grid.capacity = -1;
    assert_refused(window_of(grid), "capacity = -1");
    grid.struct_size = 3;
    assert_refused(window_of(grid), "struct_size");
}

/* 65,536 block rows that see 65,536 blocks each. */
static void test_more_blocks_than_int32(void **state) {
    (void)state;
    const attune_block_grid grid = grid_of(1 << 16, 1 << 16, 1, 1);
    int64_t count = 5;
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(-1, -1), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "at most 2147483647 blocks");
    assert_int_equal(count, 5);
}

static void test_options_are_checked(void **state) {
    (void)state;
    const attune_block_grid grid = grid_of(4, 4, 2, 2);
    const attune_window window = ATTUNE_WINDOW(1, 1);
    int64_t count = 0;
    assert_refused(attune_sparse_sliding_window(&grid, window, ATTUNE_ALIGN_TOP_LEFT, 0, NULL), "out_count");
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(-2, 0), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "window.left = -2");
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(0, -2), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "window.right = -2");
    assert_refused(attune_sparse_sliding_window(&grid, window, (attune_align)3, 0, &count), "align = 3");
    assert_refused(attune_sparse_sliding_window(&grid, window, ATTUNE_ALIGN_TOP_LEFT, 1, &count), "diagonal = 1");
    assert_refused(attune_sparse_sliding_window(&grid, window, ATTUNE_ALIGN_DIAGONAL, INT64_MIN, &count), "2^61");
    assert_refused(attune_sparse_global_local(&grid, window, ATTUNE_ALIGN_TOP_LEFT, 0, -1, 0, &count),
                   "global_rows = -1");
    assert_refused(attune_sparse_global_local(&grid, window, ATTUNE_ALIGN_TOP_LEFT, 0, 0, -1, &count),
                   "global_keys = -1");
    assert_refused(attune_sparse_strided(&grid, ATTUNE_ALIGN_TOP_LEFT, 0, 0, 1, &count), "local_blocks = 0");
    assert_refused(attune_sparse_strided(&grid, ATTUNE_ALIGN_TOP_LEFT, 0, 1, 0, &count), "stride_blocks = 0");
}

static void test_documents_are_checked(void **state) {
    (void)state;
    const attune_block_grid grid = grid_of(4, 4, 2, 2);
    const attune_block_grid oblong = grid_of(4, 6, 2, 2);
    const int64_t falling[] = {2, 2, 4};
    const int64_t negative[] = {-1, 4};
    const int64_t shorter[] = {1, 3};
    int64_t count = 0;
    assert_refused(attune_sparse_documents(&oblong, shorter, 2, false, &count), "keys = 6");
    assert_refused(attune_sparse_documents(&grid, NULL, 2, false, &count), "document_ends");
    assert_refused(attune_sparse_documents(&grid, shorter, -1, false, &count), "documents = -1");
    assert_refused(attune_sparse_documents(&grid, shorter, 0, false, &count), "must be rows, 4");
    assert_refused(attune_sparse_documents(&grid, falling, 3, false, &count), "document_ends[1] = 2");
    assert_refused(attune_sparse_documents(&grid, negative, 2, false, &count), "document_ends[0] = -1");
    assert_refused(attune_sparse_documents(&grid, shorter, 2, false, &count), "must be rows, 4");
}

static void test_lists_that_are_too_short_stay_untouched(void **state) {
    (void)state;
    attune_block_grid grid = with_lists(grid_of(4, 4, 2, 2), 3);
    int64_t count = 0;
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(-1, -1), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "capacity = 3");
    assert_int_equal(row_ptr[0], -1);
    assert_int_equal(col_idx[0], -1);
    grid.col_idx = NULL;
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(-1, -1), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "col_idx");
    grid.row_ptr = NULL;
    grid.col_idx = col_idx;
    assert_refused(attune_sparse_sliding_window(&grid, ATTUNE_WINDOW(-1, -1), ATTUNE_ALIGN_TOP_LEFT, 0, &count),
                   "row_ptr");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_global_and_local),
        cmocka_unit_test(test_alignment_moves_the_window),
        cmocka_unit_test(test_extreme_windows),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_documents),
        cmocka_unit_test(test_sizes_are_checked),
        cmocka_unit_test(test_more_blocks_than_int32),
        cmocka_unit_test(test_options_are_checked),
        cmocka_unit_test(test_documents_are_checked),
        cmocka_unit_test(test_lists_that_are_too_short_stay_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
