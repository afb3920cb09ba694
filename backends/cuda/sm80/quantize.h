/*
 * What the host passes to the quantisation kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_QUANTIZE_H
#define ATTUNE_CUDA_SM80_QUANTIZE_H

#include "backends/cuda/operand.h"

#define ATTUNE_CUDA_QUANTIZE_WARPS 4

typedef struct attune_cuda_quantize_params {
    attune_cuda_operand x, y, descale;
    attune_cuda_operand largest; /* f32, the largest finite |x| that each descale serves; absent: descale is given */
    int64_t batch, rows, heads;
    int64_t descales[3]; /* batches, groups of heads, blocks of positions; 1: for all */
    int32_t head_dim;
    int32_t x_dtype;    /* attune_dtype */
    int32_t is_measure; /* this launch finds the largest, which are 0 when it begins; the next one stores */
} attune_cuda_quantize_params;

#endif
