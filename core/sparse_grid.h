/*
 * The grid of blocks that all of sparse.h works on: its rules, and how many blocks it has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_SPARSE_GRID_H
#define ATTUNE_CORE_SPARSE_GRID_H

#include "attune/backend_util.h"
#include "attune/sparse.h"

/* Copies a caller's grid and checks it, lists aside. INVALID_ARGUMENT names the field, its value and the rule. */
attune_status attune_sparse_import_grid(const attune_block_grid *grid, attune_block_grid *out_grid);

/* INVALID_ARGUMENT if the grid's lists, which row_ptr asks for, have no room for count blocks. */
attune_status attune_sparse_check_room(const attune_block_grid *grid, int64_t count);

/* INVALID_ARGUMENT: the pattern has more blocks than int32 can count. */
attune_status attune_sparse_refuse_count(const attune_block_grid *grid);

static inline int64_t attune_sparse_count_block_rows(const attune_block_grid *grid) {
    return attune_ceil_div(grid->rows, grid->block_rows);
}

static inline int64_t attune_sparse_count_key_blocks(const attune_block_grid *grid) {
    return attune_ceil_div(grid->keys, grid->block_keys);
}

/* Rows of a block row, keys of a key block: the last one of either may be cut. */
static inline int64_t attune_sparse_rows_of(const attune_block_grid *grid, int64_t block_row) {
    return attune_min(grid->rows - block_row * grid->block_rows, grid->block_rows);
}

static inline int64_t attune_sparse_keys_of(const attune_block_grid *grid, int64_t key_block) {
    return attune_min(grid->keys - key_block * grid->block_keys, grid->block_keys);
}

#endif
