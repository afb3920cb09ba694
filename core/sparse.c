/*
 * Builders of block-sparse patterns.
 *
 * Each pattern comes down to this: of the rows of one block row it can be said in closed form which blocks they see.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/sparse.h"

#include <inttypes.h>

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/portable/mask.h"
#include "core/sparse_grid.h"
#include "core/status_internal.h"

/* The key blocks of one block row: [0, global_end), [begin, end), and before begin those whose number, counted from 1,
 * is a multiple of stride. */
struct blocks {
    int64_t global_end;
    int64_t begin;
    int64_t end;
    int64_t stride; /* 0: none */
};

/* What a builder was asked for. All patterns share the fields of the mask. */
struct pattern {
    attune_block_grid grid;
    attune_mask mask;
    int64_t global_rows;
    int64_t global_keys;
    int64_t local_blocks;
    int64_t stride_blocks;
    const int64_t *document_ends;
    int64_t documents;
    bool causal;
    /* Of the rows first to end - 1, one block row. */
    struct blocks (*blocks_of)(const struct pattern *pattern, int64_t first, int64_t end);
};

/* ---- Building ---- */

static struct blocks blocks_of_block_row(const struct pattern *pattern, int64_t block_row) {
    int64_t first = block_row * pattern->grid.block_rows;
    int64_t end = attune_min(pattern->grid.rows - first, pattern->grid.block_rows) + first;
    return pattern->blocks_of(pattern, first, end);
}

/* The first strided block that is not below from. */
static int64_t first_strided(const struct blocks *blocks, int64_t from) {
    return attune_ceil_div(from + 1, blocks->stride) * blocks->stride - 1;
}

static int64_t count_blocks(const struct blocks *blocks) {
    int64_t global = blocks->global_end;
    int64_t local = attune_max(0, blocks->end - attune_max(blocks->begin, global));
    int64_t strided = 0;
    if (blocks->stride > 0 && blocks->begin > global) {
        strided = blocks->begin / blocks->stride - global / blocks->stride;
    }
    return global + local + strided;
}

/* Appends the blocks in order, and returns one past the last. */
static int32_t *write_blocks(const struct blocks *blocks, int32_t *col_idx) {
    for (int64_t block = 0; block < blocks->global_end; block++) {
        *col_idx++ = (int32_t)block;
    }
    if (blocks->stride > 0) {
        for (int64_t block = first_strided(blocks, blocks->global_end); block < blocks->begin;
             block += blocks->stride) {
            *col_idx++ = (int32_t)block;
        }
    }
    for (int64_t block = attune_max(blocks->begin, blocks->global_end); block < blocks->end; block++) {
        *col_idx++ = (int32_t)block;
    }
    return col_idx;
}

static attune_status count_all(const struct pattern *pattern, int64_t *out_count) {
    int64_t count = 0;
    for (int64_t row = 0; row < attune_sparse_count_block_rows(&pattern->grid); row++) {
        const struct blocks blocks = blocks_of_block_row(pattern, row);
        count += count_blocks(&blocks);
        if (count > INT32_MAX) {
            return attune_sparse_refuse_count(&pattern->grid);
        }
    }
    *out_count = count;
    return ATTUNE_OK;
}

static void write_all(const struct pattern *pattern) {
    const attune_block_grid *grid = &pattern->grid;
    int32_t *next = grid->col_idx;
    int64_t written = 0;
    for (int64_t row = 0; row < attune_sparse_count_block_rows(grid); row++) {
        const struct blocks blocks = blocks_of_block_row(pattern, row);
        grid->row_ptr[row] = (int32_t)written;
        next = write_blocks(&blocks, next);
        written += count_blocks(&blocks);
    }
    grid->row_ptr[attune_sparse_count_block_rows(grid)] = (int32_t)written;
}

static attune_status build(const struct pattern *pattern, int64_t *out_count) {
    int64_t count = 0;
    if (out_count == NULL) {
        return attune_args_refuse_null("out_count");
    }
    attune_status status = count_all(pattern, &count);
    if (status == ATTUNE_OK && pattern->grid.row_ptr != NULL) {
        status = attune_sparse_check_room(&pattern->grid, count);
        if (status == ATTUNE_OK) {
            write_all(pattern);
        }
    }
    if (status == ATTUNE_OK) {
        *out_count = count;
    }
    return status;
}

/* ---- Checking ---- */

static attune_status check_least(const char *argument, int64_t value, int64_t least) {
    if (value >= least) {
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": must be %" PRId64 " or more", argument, value,
                       least);
}

#define DIAGONAL_MAX (INT64_C(1) << 61)
#define SIDE_MAX     (INT64_C(1) << 62)

static attune_status check_diagonal(attune_align align, int64_t diagonal) {
    if (align < ATTUNE_ALIGN_BOTTOM_RIGHT || align > ATTUNE_ALIGN_DIAGONAL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "align = %d: must be one of attune_align", (int)align);
    }
    if (align != ATTUNE_ALIGN_DIAGONAL && diagonal != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "diagonal = %" PRId64 ": must be 0 without ATTUNE_ALIGN_DIAGONAL",
                           diagonal);
    }
    if (diagonal < -DIAGONAL_MAX || diagonal > DIAGONAL_MAX) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "diagonal = %" PRId64 ": must be within +-2^61", diagonal);
    }
    return ATTUNE_OK;
}

/* What all builders take. */
static attune_status pattern_init(const attune_block_grid *grid, attune_align align, int64_t diagonal,
                                  struct pattern *out_pattern) {
    *out_pattern = (struct pattern){0};
    attune_status status = attune_sparse_import_grid(grid, &out_pattern->grid);
    if (status == ATTUNE_OK) {
        status = check_diagonal(align, diagonal);
    }
    if (status == ATTUNE_OK) {
        attune_mask *mask = &out_pattern->mask;
        mask->rows = out_pattern->grid.rows;
        mask->keys = out_pattern->grid.keys;
        mask->shift = attune_mask_shift(align == ATTUNE_ALIGN_BOTTOM_RIGHT, diagonal, mask->rows, mask->keys);
        mask->left = -1;
        mask->right = -1;
    }
    return status;
}

/* A side of SIDE_MAX reaches past every key. */
static attune_status set_window(attune_window window, attune_mask *mask) {
    if (!window.set) {
        return ATTUNE_OK;
    }
    attune_status status = check_least("window.left", window.left, -1);
    if (status == ATTUNE_OK) {
        status = check_least("window.right", window.right, -1);
    }
    mask->left = attune_min(window.left, SIDE_MAX);
    mask->right = attune_min(window.right, SIDE_MAX);
    return status;
}

/* ---- Window; global and local ---- */

static struct blocks window_blocks(const struct pattern *pattern, int64_t first, int64_t end) {
    const int64_t size = pattern->grid.block_keys;
    const attune_interval keys = attune_mask_keys(pattern->mask, first, end - first);
    const int64_t global_keys = first < pattern->global_rows ? pattern->mask.keys : pattern->global_keys;
    struct blocks blocks = {0, 0, 0, 0};
    blocks.global_end = attune_ceil_div(attune_min(global_keys, pattern->mask.keys), size);
    if (keys.begin < keys.end) {
        blocks.begin = keys.begin / size;
        blocks.end = (keys.end - 1) / size + 1;
    }
    return blocks;
}

attune_status attune_sparse_sliding_window(const attune_block_grid *grid, attune_window window, attune_align align,
                                           int64_t diagonal, int64_t *out_count) {
    return attune_sparse_global_local(grid, window, align, diagonal, 0, 0, out_count);
}

attune_status attune_sparse_global_local(const attune_block_grid *grid, attune_window window, attune_align align,
                                         int64_t diagonal, int64_t global_rows, int64_t global_keys,
                                         int64_t *out_count) {
    struct pattern pattern;
    attune_status status = pattern_init(grid, align, diagonal, &pattern);
    if (status == ATTUNE_OK) {
        status = set_window(window, &pattern.mask);
    }
    if (status == ATTUNE_OK) {
        status = check_least("global_rows", global_rows, 0);
    }
    if (status == ATTUNE_OK) {
        status = check_least("global_keys", global_keys, 0);
    }
    pattern.global_rows = global_rows;
    pattern.global_keys = global_keys;
    pattern.blocks_of = window_blocks;
    return status == ATTUNE_OK ? build(&pattern, out_count) : status;
}

/* ---- Strided ---- */

static struct blocks strided_blocks(const struct pattern *pattern, int64_t first, int64_t end) {
    (void)first;
    const int64_t key_blocks = attune_sparse_count_key_blocks(&pattern->grid);
    const int64_t diagonal_key = end - 1 + pattern->mask.shift;
    struct blocks blocks = {0, 0, 0, 0};
    if (diagonal_key < 0) {
        return blocks;
    }
    const int64_t local_end = diagonal_key / pattern->grid.block_keys + 1;
    blocks.stride = pattern->stride_blocks;
    blocks.begin = attune_min(attune_max(0, local_end - pattern->local_blocks), key_blocks);
    blocks.end = attune_min(local_end, key_blocks);
    return blocks;
}

attune_status attune_sparse_strided(const attune_block_grid *grid, attune_align align, int64_t diagonal,
                                    int64_t local_blocks, int64_t stride_blocks, int64_t *out_count) {
    struct pattern pattern;
    attune_status status = pattern_init(grid, align, diagonal, &pattern);
    if (status == ATTUNE_OK) {
        status = check_least("local_blocks", local_blocks, 1);
    }
    if (status == ATTUNE_OK) {
        status = check_least("stride_blocks", stride_blocks, 1);
    }
    pattern.local_blocks = local_blocks;
    pattern.stride_blocks = stride_blocks;
    pattern.blocks_of = strided_blocks;
    return status == ATTUNE_OK ? build(&pattern, out_count) : status;
}

/* ---- Documents ---- */

/* The document that holds a position. */
static int64_t document_of(const struct pattern *pattern, int64_t position) {
    int64_t low = 0;
    int64_t high = pattern->documents - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (position < pattern->document_ends[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Neighbouring rows see neighbouring keys: from where the first row's document begins to where the last row's ends. */
static struct blocks document_blocks(const struct pattern *pattern, int64_t first, int64_t end) {
    const int64_t first_document = document_of(pattern, first);
    const int64_t keys_begin = first_document == 0 ? 0 : pattern->document_ends[first_document - 1];
    const int64_t keys_end = pattern->causal ? end : pattern->document_ends[document_of(pattern, end - 1)];
    struct blocks blocks = {0, 0, 0, 0};
    blocks.begin = keys_begin / pattern->grid.block_keys;
    blocks.end = attune_ceil_div(keys_end, pattern->grid.block_keys);
    return blocks;
}

static attune_status check_documents(const struct pattern *pattern) {
    const attune_block_grid *grid = &pattern->grid;
    int64_t end = 0;
    if (grid->rows != grid->keys) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "keys = %" PRId64 ": must equal rows, %" PRId64, grid->keys,
                           grid->rows);
    }
    attune_status status = check_least("documents", pattern->documents, 0);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (pattern->documents > 0 && pattern->document_ends == NULL) {
        return attune_args_refuse_null("document_ends");
    }
    for (int64_t document = 0; document < pattern->documents; document++) {
        if (pattern->document_ends[document] <= end) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "document_ends[%" PRId64 "] = %" PRId64 ": must be more than the one before, %" PRId64,
                               document, pattern->document_ends[document], end);
        }
        end = pattern->document_ends[document];
    }
    if (end != grid->rows) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "document_ends has %" PRId64 " as the last: must be rows, %" PRId64,
                           end, grid->rows);
    }
    return ATTUNE_OK;
}

attune_status attune_sparse_documents(const attune_block_grid *grid, const int64_t *document_ends, int64_t documents,
                                      bool causal, int64_t *out_count) {
    struct pattern pattern;
    attune_status status = pattern_init(grid, ATTUNE_ALIGN_TOP_LEFT, 0, &pattern);
    pattern.document_ends = document_ends;
    pattern.documents = documents;
    pattern.causal = causal;
    pattern.blocks_of = document_blocks;
    if (status == ATTUNE_OK) {
        status = check_documents(&pattern);
    }
    return status == ATTUNE_OK ? build(&pattern, out_count) : status;
}
