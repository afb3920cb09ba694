/*
 * OpenBLAS, if it is installed: opened at run time. Which of its kernels it takes, the variable OPENBLAS_CORETYPE says.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BENCH_UNFUSED_BLAS_H
#define ATTUNE_BENCH_UNFUSED_BLAS_H

#include <stdbool.h>
#include <stdint.h>

struct blas;

/* NULL if it is not there. */
struct blas *blas_open(int threads);
void blas_close(struct blas *blas);

/* Whose kernels run: "Nehalem". */
const char *blas_core(const struct blas *blas);

/* out = a b^T for a of (rows, depth) and b of (columns, depth), or a b for b of (depth, columns), row after row. */
void blas_multiply(const struct blas *blas, bool is_transposed, int64_t rows, int64_t columns, int64_t depth,
                   const float *a, const float *b, float *out);

#endif
