/* SPDX-License-Identifier: Apache-2.0 */
#include "block_list.h"

#include "attune/sparse.h"
#include "inputs.h"

static enum tool_exit describe(const struct options *options, const struct array *row_ptr, const struct array *col_idx,
                               struct block_list *list) {
    int64_t heads = row_ptr->rank == 2 ? row_ptr->shape[0] : 1;
    int64_t offsets = row_ptr->rank > 0 ? row_ptr->shape[row_ptr->rank - 1] : 0;
    for (int64_t head = 0; head < heads; head++) {
        attune_block_grid grid = attune_block_grid_init();
        attune_sparse_summary summary = {.struct_size = sizeof summary};
        grid.rows = options->shape.rows;
        grid.keys = options->shape.keys;
        grid.block_rows = options->block_sparse.rows;
        grid.block_keys = options->block_sparse.keys;
        grid.row_ptr = (int32_t *)row_ptr->data + head * offsets;
        grid.col_idx = col_idx->data;
        grid.capacity = col_idx->count;
        attune_status status = attune_sparse_describe(&grid, &summary);
        if (status != ATTUNE_OK) {
            return tool_fail_library(status);
        }
        list->blocks += summary.blocks;
        list->blocks_dense += summary.blocks_dense;
        list->share += summary.share / (double)heads;
    }
    return TOOL_OK;
}

enum tool_exit block_list_describe(const struct options *options, struct block_list *out_list) {
    *out_list = (struct block_list){.given = options->block_sparse.row_ptr != NULL};
    if (!out_list->given) {
        return TOOL_OK;
    }
    struct array row_ptr, col_idx;
    enum tool_exit status = input_read_integers("--block-sparse", options->block_sparse.row_ptr, &row_ptr);
    if (status) {
        return status;
    }
    status = input_read_integers("--block-sparse", options->block_sparse.col_idx, &col_idx);
    if (!status) {
        status = describe(options, &row_ptr, &col_idx, out_list);
        array_release(&col_idx);
    }
    array_release(&row_ptr);
    return status;
}
