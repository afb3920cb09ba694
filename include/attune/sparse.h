/*
 * Block-sparse patterns: builders of the lists that attune_attention_args takes as block_row_ptr and block_col_idx, and
 * what lists amount to.
 *
 * A pattern names, for each block of block_rows rows, the blocks of block_keys keys that hold a visible key: block row
 * r has the key blocks col_idx[row_ptr[r]] to col_idx[row_ptr[r + 1] - 1], strictly increasing. A block is all or
 * nothing; exactness within it comes from the window, lengths or mask of the call, which are ANDed with the pattern.
 *
 * Each builder fills host arrays of the caller; on a GPU the caller copies them to the device. It is called twice: with
 * NULL arrays to learn the sizes, then with arrays. Rows and keys are counted within one sequence, the same for all.
 *
 * Source: Child et al., Sparse Transformers (arXiv 1904.10509); Beltagy et al., Longformer (arXiv 2004.05150).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_SPARSE_H
#define ATTUNE_SPARSE_H

#include <string.h>

#include "attune/attention.h"
#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

/* The grid of blocks, and where the lists go. */
typedef struct attune_block_grid {
    size_t struct_size;
    int64_t rows;       /* Sq, the maximal length; 0 or more */
    int64_t keys;       /* Sk, the maximal length; 0 or more */
    int64_t block_rows; /* 1 or more */
    int64_t block_keys; /* 1 or more */
    int32_t *row_ptr;   /* ceil(rows / block_rows) + 1 entries, or NULL to ask for sizes */
    int32_t *col_idx;   /* out_count entries, or NULL with row_ptr */
    int64_t capacity;   /* entries that col_idx has room for */
} attune_block_grid;

static inline attune_block_grid attune_block_grid_init(void) {
    attune_block_grid grid;
    memset(&grid, 0, sizeof grid);
    grid.struct_size = sizeof grid;
    return grid;
}

/* The blocks that a window covers: row i sees keys i + shift - left to i + shift + right, -1 being open. Right 0 is
 * causal.
 *
 * align, diagonal: as in attune_attention_args. out_count: key blocks in all, set by both calls.
 * Ownership: the arrays stay the caller's. Threads: any.
 * Errors: INVALID_ARGUMENT (a range above; more than INT32_MAX blocks; capacity less than out_count: nothing written).
 */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_sliding_window(const attune_block_grid *grid,
                                                                        attune_window window, attune_align align,
                                                                        int64_t diagonal, int64_t *out_count);

/* The blocks of a window, and besides them: every row sees the first global_keys keys, and the first global_rows rows
 * see every key.
 *
 * global_keys, global_rows: 0 or more. The rest as attune_sparse_sliding_window. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_global_local(const attune_block_grid *grid,
                                                                      attune_window window, attune_align align,
                                                                      int64_t diagonal, int64_t global_rows,
                                                                      int64_t global_keys, int64_t *out_count);

/* The strided pattern in blocks: block row r sees the local_blocks blocks up to the diagonal's, and of those before it
 * every stride_blocks-th, counted from key block stride_blocks - 1 (a "fixed" column of summaries).
 *
 * local_blocks, stride_blocks: 1 or more. The rest as attune_sparse_sliding_window. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_strided(const attune_block_grid *grid, attune_align align,
                                                                 int64_t diagonal, int64_t local_blocks,
                                                                 int64_t stride_blocks, int64_t *out_count);

/* The blocks in which a row and a key belong to one document, for several documents packed into one sequence. The call
 * adds a mask for exactness inside the blocks at a border, or uses cu_seqlens in place of all this.
 *
 * document_ends: documents entries, strictly increasing: document n has positions document_ends[n - 1] to
 * document_ends[n] - 1, as rows and as keys; the last is rows, which equals keys. causal: also j <= i.
 * The rest as attune_sparse_sliding_window. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_documents(const attune_block_grid *grid,
                                                                   const int64_t *document_ends, int64_t documents,
                                                                   bool causal, int64_t *out_count);

/* The blocks in which a boolean mask shows at least one key to one row. Every block that is listed is computed whole,
 * so where a listed block is only partly visible the call is given the mask as well.
 *
 * mask: (rows, keys) u8 in host memory, nonzero is visible; element (i, j) at mask[i * row_stride + j * key_stride].
 * NULL only where rows or keys is 0. Strides: 0 (the same for all) or more. Each call reads the whole mask.
 * out_partial_count: of the listed blocks, those that are partly visible; 0 means that the pattern alone is the mask,
 * which the call then need not be given. May be NULL.
 * The rest as attune_sparse_sliding_window. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_from_mask(const attune_block_grid *grid, const uint8_t *mask,
                                                                   int64_t row_stride, int64_t key_stride,
                                                                   int64_t *out_count, int64_t *out_partial_count);

/* What lists amount to. */
typedef struct attune_sparse_summary {
    size_t struct_size;
    int64_t blocks;       /* that are listed: what a kernel computes */
    int64_t blocks_dense; /* of the whole grid */
    double pairs;         /* (row, key) pairs in the listed blocks, the last ones cut to rows and keys */
    double share;         /* of all rows * keys pairs, 0 to 1; 0 where there are none */
} attune_sparse_summary;

/* Checks lists, by whomever they were made, and tells how much of dense attention is left of them.
 *
 * grid: row_ptr and col_idx are read; capacity is the number of entries in col_idx. Of lists with a pattern for each
 * head, row_ptr is that of one head. out_summary->struct_size is set by the caller. Threads: any.
 * Errors: INVALID_ARGUMENT (a range above; row_ptr NULL, decreasing or outside of col_idx; a block that does not exist,
 * or is not greater than the one before it in its row: named with its place and value). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_sparse_describe(const attune_block_grid *grid,
                                                                  attune_sparse_summary *out_summary);

ATTUNE_EXTERN_C_END

#endif
