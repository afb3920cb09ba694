/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/tile.h"

void attune_reference_tile_load(const struct reference_vectors *vectors, int64_t first, int64_t count, double *out) {
    for (int64_t r = 0; r < count; r++) {
        attune_reference_vector_load(vectors, first + r, out + r * vectors->length);
    }
}

void attune_reference_tile_store(const struct reference_vectors *vectors, int64_t first, int64_t count,
                                 const double *rows) {
    for (int64_t r = 0; r < count; r++) {
        attune_reference_vector_store(vectors, first + r, rows + r * vectors->length);
    }
}

/* Eight sums, since the order of one sum may not be changed by the compiler. */
static double dot(const double *a, const double *b, int64_t length) {
    double lane[8] = {0};
    int64_t d = 0;
    for (; d + 8 <= length; d += 8) {
        for (int l = 0; l < 8; l++) {
            lane[l] += a[d + l] * b[d + l];
        }
    }
    for (int l = 0; d < length; d++, l++) {
        lane[l] += a[d] * b[d];
    }
    return ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
}

void attune_reference_tile_dot(const double *rows, int64_t count, const struct reference_vectors *vectors,
                               attune_interval positions, double *buffer, struct reference_matrix out) {
    for (int64_t position = positions.begin; position < positions.end; position++) {
        attune_reference_vector_load(vectors, position, buffer);
        for (int64_t r = 0; r < count; r++) {
            out.value[r * out.width + position] = dot(rows + r * vectors->length, buffer, vectors->length);
        }
    }
}

static void add_scaled(double weight, const double *vector, int64_t length, double *sum) {
    for (int64_t d = 0; d < length; d++) {
        sum[d] += weight * vector[d];
    }
}

void attune_reference_tile_add(struct reference_matrix weight, const bool *seen, int64_t count,
                               const struct reference_vectors *vectors, attune_interval positions, double *buffer,
                               double *sum) {
    for (int64_t position = positions.begin; position < positions.end; position++) {
        attune_reference_vector_load(vectors, position, buffer);
        for (int64_t r = 0; r < count; r++) {
            const int64_t at = r * weight.width + position;
            if (seen[at]) {
                add_scaled(weight.value[at], buffer, vectors->length, sum + r * vectors->length);
            }
        }
    }
}
