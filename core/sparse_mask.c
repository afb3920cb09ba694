/*
 * A boolean mask as a block-sparse pattern.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>

#include "core/args.h"
#include "core/sparse_grid.h"
#include "core/status_internal.h"

struct strided_mask {
    const uint8_t *data;
    int64_t row_stride;
    int64_t key_stride;
};

/* ---- Checking ---- */

static attune_status check_stride(const char *argument, int64_t stride) {
    if (stride < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": must be 0 or more", argument, stride);
    }
    return ATTUNE_OK;
}

/* The last element's offset has to be a number. */
static attune_status check_extent(const attune_block_grid *grid, const struct strided_mask *mask) {
    uint64_t down;
    uint64_t across;
    uint64_t last;
    bool fits = attune_multiply_checked((uint64_t)grid->rows - 1, (uint64_t)mask->row_stride, &down) &&
                attune_multiply_checked((uint64_t)grid->keys - 1, (uint64_t)mask->key_stride, &across) &&
                attune_add_checked(down, across, &last) && last < INT64_MAX;
    if (!fits) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "row_stride = %" PRId64 ", key_stride = %" PRId64
                           ": the mask's last element must lie less than 2^63 bytes from its first",
                           mask->row_stride, mask->key_stride);
    }
    return ATTUNE_OK;
}

static attune_status check_mask(const attune_block_grid *grid, const struct strided_mask *mask) {
    attune_status status = check_stride("row_stride", mask->row_stride);
    if (status == ATTUNE_OK) {
        status = check_stride("key_stride", mask->key_stride);
    }
    if (status != ATTUNE_OK || grid->rows == 0 || grid->keys == 0) {
        return status;
    }
    return mask->data == NULL ? attune_args_refuse_null("mask") : check_extent(grid, mask);
}

/* ---- Building ---- */

/* How many of a row's keys, first_key to first_key + count - 1, are visible. */
static int64_t count_visible(const struct strided_mask *mask, int64_t row, int64_t first_key, int64_t count) {
    const uint8_t *at = mask->data + row * mask->row_stride + first_key * mask->key_stride;
    int64_t visible = 0;
    for (int64_t key = 0; key < count; key++) {
        visible += at[key * mask->key_stride] != 0;
    }
    return visible;
}

enum sight { SIGHT_NONE, SIGHT_PART, SIGHT_WHOLE };

static enum sight look_at(const attune_block_grid *grid, const struct strided_mask *mask, int64_t block_row,
                          int64_t key_block) {
    const int64_t first_row = block_row * grid->block_rows;
    const int64_t first_key = key_block * grid->block_keys;
    const int64_t rows = attune_sparse_rows_of(grid, block_row);
    const int64_t keys = attune_sparse_keys_of(grid, key_block);
    const int64_t first = count_visible(mask, first_row, first_key, keys);
    if (first > 0 && first < keys) {
        return SIGHT_PART;
    }
    for (int64_t row = 1; row < rows; row++) {
        if (count_visible(mask, first_row + row, first_key, keys) != first) {
            return SIGHT_PART;
        }
    }
    return first == 0 ? SIGHT_NONE : SIGHT_WHOLE;
}

/* Lists the blocks if the grid has lists that they fit in, and counts them either way. */
static attune_status walk(const attune_block_grid *grid, const struct strided_mask *mask, bool lists,
                          int64_t *out_count, int64_t *out_partial_count) {
    const int64_t block_rows = attune_sparse_count_block_rows(grid);
    int64_t count = 0;
    int64_t partial_count = 0;
    for (int64_t block_row = 0; block_row < block_rows; block_row++) {
        if (lists) {
            grid->row_ptr[block_row] = (int32_t)count;
        }
        for (int64_t block = 0; block < attune_sparse_count_key_blocks(grid); block++) {
            const enum sight sight = look_at(grid, mask, block_row, block);
            if (sight != SIGHT_NONE && count == INT32_MAX) {
                return attune_sparse_refuse_count(grid);
            }
            if (sight != SIGHT_NONE && lists) {
                grid->col_idx[count] = (int32_t)block;
            }
            count += sight != SIGHT_NONE;
            partial_count += sight == SIGHT_PART;
        }
    }
    if (lists) {
        grid->row_ptr[block_rows] = (int32_t)count;
    }
    *out_count = count;
    *out_partial_count = partial_count;
    return ATTUNE_OK;
}

attune_status attune_sparse_from_mask(const attune_block_grid *grid, const uint8_t *mask, int64_t row_stride,
                                      int64_t key_stride, int64_t *out_count, int64_t *out_partial_count) {
    const struct strided_mask strided = {mask, row_stride, key_stride};
    attune_block_grid own;
    int64_t count;
    int64_t partial_count;
    if (out_count == NULL) {
        return attune_args_refuse_null("out_count");
    }
    attune_status status = attune_sparse_import_grid(grid, &own);
    if (status == ATTUNE_OK) {
        status = check_mask(&own, &strided);
    }
    if (status == ATTUNE_OK) {
        status = walk(&own, &strided, false, &count, &partial_count);
    }
    if (status == ATTUNE_OK && own.row_ptr != NULL) {
        status = attune_sparse_check_room(&own, count);
        if (status == ATTUNE_OK) {
            status = walk(&own, &strided, true, &count, &partial_count);
        }
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    *out_count = count;
    if (out_partial_count != NULL) {
        *out_partial_count = partial_count;
    }
    return ATTUNE_OK;
}
