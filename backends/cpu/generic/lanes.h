/*
 * How the portable kernels lay out numbers: rows of q side by side, one in each lane, so that everything which is done
 * for a pair of row and key is a loop over lanes. Such a loop has no sum across lanes, whose order a compiler may not
 * change: every compiler makes vectors of it, for any instruction set.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_LANES_H
#define ATTUNE_GENERIC_LANES_H

#include <stdint.h>

#define ATTUNE_GENERIC_LANES 16

/* Before a loop over lanes. */
#define ATTUNE_GENERIC_SIMD _Pragma("omp simd")

/* For a function with loops whose bounds are constants only where it is called. */
#define ATTUNE_GENERIC_INLINE static inline __attribute__((always_inline))

/* A matrix in panels of LANES columns: element (row, column) is
 * value[(column / LANES * rows + row) * LANES + column % LANES]. The last panel is as wide as the others. */
struct generic_matrix {
    float *value;
    int64_t rows; /* there is room for */
};

static inline int64_t attune_generic_panels(int64_t columns) {
    return columns / ATTUNE_GENERIC_LANES + (columns % ATTUNE_GENERIC_LANES != 0);
}

static inline int64_t attune_generic_round_up(int64_t count) {
    return attune_generic_panels(count) * ATTUNE_GENERIC_LANES;
}

/* The first element of a row within a panel. */
static inline float *attune_generic_at(struct generic_matrix matrix, int64_t panel, int64_t row) {
    return matrix.value + (panel * matrix.rows + row) * ATTUNE_GENERIC_LANES;
}

#endif
