/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <stdio.h>
#include <string.h>

struct view {
    const struct table_column *columns;
    int column_count;
    const char *rows;
    int row_count;
    size_t row_bytes;
};

/* 0: no cell of the column has text. */
static int measure(const struct view *view, const struct table_column *column) {
    char cell[TABLE_CELL_BYTES];
    size_t width = 0;
    for (int row = 0; row < view->row_count; row++) {
        column->format(view->rows + (size_t)row * view->row_bytes, cell);
        width = strlen(cell) > width ? strlen(cell) : width;
    }
    return width > 0 && width < strlen(column->title) ? (int)strlen(column->title) : (int)width;
}

/* row NULL: the titles. No line ends in a blank. */
static void print_line(const struct view *view, const char *row) {
    char line[TABLE_COLUMNS_MAX * (TABLE_CELL_BYTES + 2)] = "";
    int length = 0;
    for (int i = 0; i < view->column_count; i++) {
        const struct table_column *column = &view->columns[i];
        char cell[TABLE_CELL_BYTES];
        int width = measure(view, column);
        if (row) {
            column->format(row, cell);
        } else {
            snprintf(cell, sizeof cell, "%s", column->title);
        }
        if (width > 0) {
            length += sprintf(line + length, column->is_word ? "%-*s  " : "%*s  ", width, cell);
        }
    }
    while (length > 0 && line[length - 1] == ' ') {
        --length;
    }
    printf("%.*s\n", length, line);
}

void table_print(const struct table_column *columns, int column_count, const void *rows, int row_count,
                 size_t row_bytes) {
    struct view view = {columns, column_count, rows, row_count, row_bytes};
    print_line(&view, NULL);
    for (int row = 0; row < row_count; row++) {
        print_line(&view, view.rows + (size_t)row * row_bytes);
    }
}
