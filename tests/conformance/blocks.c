/*
 * Draws a block-sparse pattern.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "problem.h"
#include "random.h"

/* Block row 1 names no block, and key block 1 is named by none, where there are more. Block (0, 0) is always named: the
 * list is never empty. */
static bool block_is_listed(struct conform_random *random, int64_t row, int64_t column, int64_t rows, int64_t columns) {
    bool drawn = conform_random_below(random, 5) < 3;
    bool is_first = row == 0 && column == 0;
    return is_first || (drawn && !(row == 1 && rows > 2) && !(column == 1 && columns > 2));
}

void conform_problem_draw_blocks(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    struct conform_random random = {problem->seed ^ UINT64_C(0x626C6F63)};
    int64_t heads = options->sparse == CONFORM_SPARSE_HEADS ? options->heads_q : 1;
    int64_t rows = (problem->longest_rows + options->block_rows - 1) / options->block_rows;
    int64_t columns = (problem->longest_keys + options->block_keys - 1) / options->block_keys;
    problem->block_rows_count = rows;
    problem->block_row_ptr = conform_alloc((uint64_t)(heads * (rows + 1)), sizeof(int32_t));
    problem->block_col_idx = conform_alloc((uint64_t)(heads * rows * columns), sizeof(int32_t));
    int32_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        int32_t *row_ptr = problem->block_row_ptr + h * (rows + 1);
        for (int64_t row = 0; row < rows; row++) {
            row_ptr[row] = count;
            for (int64_t column = 0; column < columns; column++) {
                if (block_is_listed(&random, row, column, rows, columns)) {
                    problem->block_col_idx[count++] = (int32_t)column;
                }
            }
        }
        row_ptr[rows] = count;
    }
    problem->block_col_count = count;
}
