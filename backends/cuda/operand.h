/*
 * An operand as kernels of plain strides see it, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_OPERAND_H
#define ATTUNE_CUDA_OPERAND_H

#include <stdint.h>

/* Axes as attune_layout has them, strides in elements; NULL if it is absent. */
typedef struct attune_cuda_operand {
    void *data;
    int64_t stride[4];
} attune_cuda_operand;

#endif
