/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/sparse_grid.h"

#include <inttypes.h>

#include "core/args.h"
#include "core/status_internal.h"

#define LENGTH_MAX (INT64_C(1) << 61)

static attune_status check_lengths(const attune_block_grid *grid) {
    const struct {
        const char *argument;
        int64_t value;
        int64_t least;
    } numbers[] = {{"rows", grid->rows, 0},
                   {"keys", grid->keys, 0},
                   {"block_rows", grid->block_rows, 1},
                   {"block_keys", grid->block_keys, 1}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].value < numbers[i].least || numbers[i].value > LENGTH_MAX) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": must be %" PRId64 " to 2^61",
                               numbers[i].argument, numbers[i].value, numbers[i].least);
        }
    }
    return ATTUNE_OK;
}

attune_status attune_sparse_import_grid(const attune_block_grid *grid, attune_block_grid *out_grid) {
    attune_status status = attune_args_import("attune_block_grid", grid, sizeof *grid, out_grid);
    if (status == ATTUNE_OK) {
        status = check_lengths(out_grid);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (out_grid->capacity < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "capacity = %" PRId64 ": must be 0 or more", out_grid->capacity);
    }
    if (attune_sparse_count_block_rows(out_grid) > INT32_MAX || attune_sparse_count_key_blocks(out_grid) > INT32_MAX) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "block_rows = %" PRId64 ", block_keys = %" PRId64
                           ": must cut rows and keys into at most %" PRId32 " blocks each",
                           out_grid->block_rows, out_grid->block_keys, INT32_MAX);
    }
    if (out_grid->row_ptr == NULL && out_grid->col_idx != NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "row_ptr = NULL with col_idx given: must be given too");
    }
    return ATTUNE_OK;
}

attune_status attune_sparse_check_room(const attune_block_grid *grid, int64_t count) {
    if (count > 0 && grid->col_idx == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "col_idx = NULL with row_ptr given: must have room for %" PRId64 " entries", count);
    }
    if (grid->capacity < count) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "capacity = %" PRId64 ": must be at least out_count, %" PRId64,
                           grid->capacity, count);
    }
    return ATTUNE_OK;
}

attune_status attune_sparse_refuse_count(const attune_block_grid *grid) {
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "block_rows = %" PRId64 ", block_keys = %" PRId64 ": must make a pattern of at most %" PRId32
                       " blocks",
                       grid->block_rows, grid->block_keys, INT32_MAX);
}
