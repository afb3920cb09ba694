/*
 * What the host passes to the merge kernel: one struct, by value, for C and CUDA alike. Within 4 KiB, which every
 * driver takes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_MERGE_H
#define ATTUNE_CUDA_SM80_MERGE_H

#include "attune/attention.h"
#include "backends/cuda/operand.h"

#define ATTUNE_CUDA_MERGE_THREADS 128

typedef struct attune_cuda_merge_params {
    const void *part_o[ATTUNE_MERGE_PARTS_MAX];
    const void *part_lse[ATTUNE_MERGE_PARTS_MAX];
    int64_t part_o_stride[4]; /* of every part */
    int64_t part_lse_stride[4];
    attune_cuda_operand o, lse;
    int64_t batch, rows, heads;
    int32_t head_dim_v;
    int32_t parts;
    int32_t part_dtype; /* attune_dtype, of o parts */
    int32_t o_dtype;
} attune_cuda_merge_params;

#endif
