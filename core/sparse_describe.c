/*
 * What the lists of a block-sparse pattern amount to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <string.h>

#include "core/args.h"
#include "core/sparse_grid.h"
#include "core/status_internal.h"

/* ---- Checking ---- */

static attune_status check_row_ptr(const attune_block_grid *grid, int64_t block_row) {
    const int32_t begin = grid->row_ptr[block_row];
    const int32_t end = grid->row_ptr[block_row + 1];
    if (begin < 0 || end < begin || end > grid->capacity) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "row_ptr[%" PRId64 "] = %" PRId32 ", row_ptr[%" PRId64 "] = %" PRId32
                           ": must be 0 or more, not decrease, and not exceed capacity, %" PRId64,
                           block_row, begin, block_row + 1, end, grid->capacity);
    }
    if (begin < end && grid->col_idx == NULL) {
        return attune_args_refuse_null("col_idx");
    }
    return ATTUNE_OK;
}

/* before: the block listed before it in its row; -1: none. */
static attune_status check_block(const attune_block_grid *grid, int32_t place, int32_t before) {
    const int32_t block = grid->col_idx[place];
    const int64_t blocks = attune_sparse_count_key_blocks(grid);
    if (block < 0 || block >= blocks) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "col_idx[%" PRId32 "] = %" PRId32 ": must be one of %" PRId64 " blocks", place, block,
                           blocks);
    }
    if (block <= before) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "col_idx[%" PRId32 "] = %" PRId32 ": must be more than the one before it, %" PRId32, place,
                           block, before);
    }
    return ATTUNE_OK;
}

/* ---- Counting ---- */

/* Adds up one block row, and checks it. */
static attune_status add_block_row(const attune_block_grid *grid, int64_t block_row, attune_sparse_summary *summary) {
    attune_status status = check_row_ptr(grid, block_row);
    double keys = 0;
    int32_t before = -1;
    if (status != ATTUNE_OK) {
        return status;
    }
    for (int32_t place = grid->row_ptr[block_row]; place < grid->row_ptr[block_row + 1]; place++) {
        status = check_block(grid, place, before);
        if (status != ATTUNE_OK) {
            return status;
        }
        before = grid->col_idx[place];
        keys += (double)attune_sparse_keys_of(grid, before);
        summary->blocks++;
    }
    summary->pairs += keys * (double)attune_sparse_rows_of(grid, block_row);
    return ATTUNE_OK;
}

attune_status attune_sparse_describe(const attune_block_grid *grid, attune_sparse_summary *out_summary) {
    attune_block_grid own;
    attune_sparse_summary summary;
    memset(&summary, 0, sizeof summary);
    attune_status status = attune_sparse_import_grid(grid, &own);
    if (status == ATTUNE_OK && own.row_ptr == NULL) {
        status = attune_args_refuse_null("row_ptr");
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const int64_t block_rows = attune_sparse_count_block_rows(&own);
    for (int64_t block_row = 0; status == ATTUNE_OK && block_row < block_rows; block_row++) {
        status = add_block_row(&own, block_row, &summary);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    summary.blocks_dense = block_rows * attune_sparse_count_key_blocks(&own);
    if (summary.pairs > 0) {
        summary.share = summary.pairs / ((double)own.rows * (double)own.keys);
    }
    return attune_args_export("attune_sparse_summary", &summary, sizeof summary, out_summary);
}
