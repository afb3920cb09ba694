/*
 * A block of the result stays in registers while k runs: each element of a is multiplied with a line of b's lanes.
 *
 * Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008), section 4.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/product.h"

#include "backends/cpu/generic/vector.h"

#define LANES ATTUNE_GENERIC_LANES

#define VECTORS 8 /* of a block: half of the registers, as loads and products want some */
#define ACROSS  ATTUNE_GENERIC_VECTORS
#define FLOATS  ATTUNE_GENERIC_FLOATS
#define UNROLL  ATTUNE_GENERIC_UNROLL

/* ---- A block: VECTORS / across rows of across vectors ---- */

ATTUNE_GENERIC_INLINE void block_clear(generic_vector *block) {
    UNROLL
    for (int n = 0; n < VECTORS; n++) {
        block[n] = (generic_vector){0};
    }
}

/* block(i, n) += a(i) b(n): one step along k. stride: from one element of a to the next. */
ATTUNE_GENERIC_INLINE void block_step(const float *a, int64_t stride, const float *b, int across,
                                      generic_vector *block) {
    UNROLL
    for (int i = 0; i < VECTORS / across; i++) {
        const float factor = a[i * stride];
        UNROLL
        for (int n = 0; n < across; n++) {
            block[i * across + n] += factor * ((const generic_vector *)b)[n];
        }
    }
}

/* k runs along rows of a, from panel to panel. */
ATTUNE_GENERIC_INLINE void block_rows(const float *a, int64_t panel_stride, const float *b, int64_t depth, int across,
                                      generic_vector *block) {
    for (int64_t k = 0; k < depth; k += LANES) {
        const int64_t lanes = depth - k < LANES ? depth - k : LANES;
        for (int64_t lane = 0; lane < lanes; lane++) {
            block_step(a + lane, LANES, b, across, block);
            b += LANES;
        }
        a += panel_stride;
    }
}

/* ---- Products, by how many vectors lie across ---- */

ATTUNE_GENERIC_INLINE void multiply(struct generic_matrix a, int64_t begin, int64_t end, const float *b, int64_t depth,
                                    int across, float scale, float *out) {
    for (int64_t row = begin; row < end; row += VECTORS / across) {
        generic_vector block[VECTORS];
        block_clear(block);
        block_rows(attune_generic_at(a, 0, row), a.rows * LANES, b, depth, across, block);
        UNROLL
        for (int i = 0; i < VECTORS / across; i++) {
            generic_vector *line = (generic_vector *)(out + (row + i) * LANES);
            UNROLL
            for (int n = 0; n < across; n++) {
                line[n] = scale * block[i * across + n];
            }
        }
    }
}

void attune_generic_multiply(struct generic_matrix a, int64_t begin, int64_t end, const float *b, int64_t depth,
                             int64_t width, float scale, float *out) {
    if (width <= FLOATS) {
        multiply(a, begin, end, b, depth, 1, scale, out);
    } else if (width <= 2 * FLOATS) {
        multiply(a, begin, end, b, depth, 2, scale, out);
    } else {
        multiply(a, begin, end, b, depth, ACROSS, scale, out);
    }
}

void attune_generic_multiply_add(struct generic_matrix a, int64_t rows, struct generic_matrix b, int64_t depth,
                                 int64_t panels, struct generic_matrix out) {
    for (int64_t panel = 0; panel < panels; panel++) {
        for (int64_t row = 0; row < rows; row += VECTORS / ACROSS) {
            generic_vector block[VECTORS];
            generic_vector *lines = (generic_vector *)attune_generic_at(out, panel, row);
            block_clear(block);
            block_rows(attune_generic_at(a, 0, row), a.rows * LANES, attune_generic_at(b, panel, 0), depth, ACROSS,
                       block);
            UNROLL
            for (int n = 0; n < VECTORS; n++) {
                lines[n] += block[n];
            }
        }
    }
}

const float attune_generic_keep[LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

ATTUNE_GENERIC_INLINE void multiply_transposed(struct generic_matrix a, int64_t begin, int64_t end, const float *b,
                                               int64_t columns, int across, const float *factor, float *out) {
    for (int64_t column = 0; column < columns; column += VECTORS / across) {
        generic_vector block[VECTORS];
        const float *from = attune_generic_at(a, column / LANES, begin) + column % LANES;
        block_clear(block);
        for (int64_t k = begin; k < end; k++) {
            block_step(from, 1, b + k * LANES, across, block);
            from += LANES;
        }
        UNROLL
        for (int i = 0; i < VECTORS / across; i++) {
            generic_vector *line = (generic_vector *)(out + (column + i) * LANES);
            UNROLL
            for (int n = 0; n < across; n++) {
                line[n] = ((const generic_vector *)factor)[n] * line[n] + block[i * across + n];
            }
        }
    }
}

void attune_generic_multiply_transposed(struct generic_matrix a, int64_t begin, int64_t end, const float *b,
                                        int64_t columns, int64_t width, const float *factor, float *out) {
    if (width <= FLOATS) {
        multiply_transposed(a, begin, end, b, columns, 1, factor, out);
    } else if (width <= 2 * FLOATS) {
        multiply_transposed(a, begin, end, b, columns, 2, factor, out);
    } else {
        multiply_transposed(a, begin, end, b, columns, ACROSS, factor, out);
    }
}
