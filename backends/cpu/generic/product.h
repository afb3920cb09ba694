/*
 * Products of small matrices in panels: what most of attention's work is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_PRODUCT_H
#define ATTUNE_GENERIC_PRODUCT_H

#include "backends/cpu/generic/lanes.h"

/* Rows, and columns in a transposed product, are worked on in blocks: all up to the next multiple of BLOCK are read and
 * written. */
#define ATTUNE_GENERIC_BLOCK 8

/* out(i, n) = scale * sum_k a(i, k) b(k, n), for n of one panel: depth lines of b, one after the other, and rows begin
 * to end - 1 of a and out. begin: a multiple of BLOCK. width: the first so many lanes are wanted; others may be left as
 * they are. */
void attune_generic_multiply(struct generic_matrix a, int64_t begin, int64_t end, const float *b, int64_t depth,
                             int64_t width, float scale, float *out);

/* out(i, n) += sum_k a(i, k) b(k, n), for rows 0 to rows - 1 and all of so many panels of b and out. */
void attune_generic_multiply_add(struct generic_matrix a, int64_t rows, struct generic_matrix b, int64_t depth,
                                 int64_t panels, struct generic_matrix out);

/* Factors of 1, for the product below. */
extern const float attune_generic_keep[ATTUNE_GENERIC_LANES];

/* out(i, n) = factor[n] * out(i, n) + sum_k a(k, i) b(k, n), for n of one panel, k from begin to end - 1 and i below
 * columns. width: as above. */
void attune_generic_multiply_transposed(struct generic_matrix a, int64_t begin, int64_t end, const float *b,
                                        int64_t columns, int64_t width, const float *factor, float *out);

#endif
