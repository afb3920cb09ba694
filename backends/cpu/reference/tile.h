/*
 * A few rows worked on at once, so that each vector on the other side is converted to f64 once for all of them. Rows
 * are rows of q, or keys where backward walks the keys. Whatever the tile, each row's sums run over the other side in
 * ascending order, so no result depends on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_TILE_H
#define ATTUNE_REFERENCE_TILE_H

#include "backends/cpu/reference/scratch.h"
#include "backends/cpu/reference/vectors.h"

/* Rows of a tile where there are as many. */
#define ATTUNE_REFERENCE_TILE_ROWS 8

/* Numbers for each row of a tile and each position of the other side; element (r, position) is r * width + position. */
struct reference_matrix {
    double *value;
    int64_t width;
};

static inline struct reference_matrix attune_reference_matrix_take(struct reference_scratch *scratch, int64_t rows,
                                                                   int64_t width) {
    return (struct reference_matrix){attune_reference_take(scratch, rows, width, sizeof(double)), width};
}

/* Loads count vectors from position first on, one after the other. */
void attune_reference_tile_load(const struct reference_vectors *vectors, int64_t first, int64_t count, double *out);

void attune_reference_tile_store(const struct reference_vectors *vectors, int64_t first, int64_t count,
                                 const double *rows);

/* out(r, position) = dot(row r, vector at position). buffer holds one vector. */
void attune_reference_tile_dot(const double *rows, int64_t count, const struct reference_vectors *vectors,
                               attune_interval positions, double *buffer, struct reference_matrix out);

/* sum[r] += weight(r, position) * vector at position, where seen(r, position). What is not seen is not multiplied by 0:
 * it may be NaN. */
void attune_reference_tile_add(struct reference_matrix weight, const bool *seen, int64_t count,
                               const struct reference_vectors *vectors, attune_interval positions, double *buffer,
                               double *sum);

#endif
