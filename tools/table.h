/*
 * A table of text: columns as wide as their widest cell, words to the left, numbers to the right.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_TABLE_H
#define ATTUNE_TOOLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>

enum { TABLE_CELL_BYTES = 72, TABLE_COLUMNS_MAX = 16 };

struct table_column {
    const char *title;
    bool is_word;
    void (*format)(const void *row, char out_cell[TABLE_CELL_BYTES]);
};

/* Prints rows, each of row_bytes, to stdout. A column whose cells are all empty is left out. column_count: to
 * TABLE_COLUMNS_MAX. */
void table_print(const struct table_column *columns, int column_count, const void *rows, int row_count,
                 size_t row_bytes);

#endif
