/*
 * Grids and lists of blocks, for tests of sparse.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_BLOCK_LISTS_H
#define ATTUNE_TESTS_BLOCK_LISTS_H

#include "attune/sparse.h"
#include "tests/support/cmocka_all.h"

enum { ENTRIES = 512 };

static int32_t row_ptr[ENTRIES];
static int32_t col_idx[ENTRIES];

static inline attune_block_grid grid_of(int64_t rows, int64_t keys, int64_t block_rows, int64_t block_keys) {
    attune_block_grid grid = attune_block_grid_init();
    grid.rows = rows;
    grid.keys = keys;
    grid.block_rows = block_rows;
    grid.block_keys = block_keys;
    return grid;
}

static inline attune_block_grid with_lists(attune_block_grid grid, int64_t count) {
    memset(row_ptr, 0xFF, sizeof row_ptr);
    memset(col_idx, 0xFF, sizeof col_idx);
    grid.row_ptr = row_ptr;
    grid.col_idx = count == 0 ? NULL : col_idx;
    grid.capacity = count;
    return grid;
}

#define assert_refused(call, part) assert_fails((call), ATTUNE_INVALID_ARGUMENT, (part))

#endif
