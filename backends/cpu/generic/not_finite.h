/*
 * NaN and infinity in products with weights and their gradients. 0 times such a number is NaN, and the 0 of a pair that
 * is not seen must not bring that about: so products take it as 0, and what it gives to the pairs that are seen is
 * added afterwards, number by number.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_NOT_FINITE_H
#define ATTUNE_GENERIC_NOT_FINITE_H

#include "backends/cpu/generic/gradient.h"

struct generic_clean {
    struct generic_matrix matrix;
    bool is_changed;
};

/* Rows 0 to rows - 1 of a matrix, with 0 for what is not finite: the matrix itself, or room if there is any such
 * number. They may be the same. */
struct generic_clean attune_generic_clean(struct generic_matrix matrix, int64_t rows, int64_t panels,
                                          struct generic_matrix room);

/* out(key, d) += factor(key, row) x(row, d) over what is not finite in the rows of a tile, loaded as panels, and seen
 * by weight. */
void attune_generic_add_not_finite_rows(const struct generic_tile *tile, attune_interval keys, float *x, int64_t length,
                                        struct generic_matrix weight, struct generic_matrix factor,
                                        struct generic_matrix out);

/* out(row, d) += factor(row, key) x(key, d) likewise over keys, for a strip's panel of out and lines of pairs. */
void attune_generic_add_not_finite_keys(struct generic_matrix x, struct generic_span span, int64_t length,
                                        const float *weight, const float *factor, float *out);

#endif
