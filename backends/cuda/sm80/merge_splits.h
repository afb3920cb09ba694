/*
 * What the host passes to the kernel that merges what splits of the keys leave: one struct, by value, for C and CUDA
 * alike. The kernel is in the image of merge.cu, beside the merge of (o, lse) states.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_MERGE_SPLITS_H
#define ATTUNE_CUDA_SM80_MERGE_SPLITS_H

#include "attune/attention.h"
#include "backends/cuda/operand.h"

#define ATTUNE_CUDA_MERGE_SPLITS_SUFFIX  "_splits" /* of the kernel's name */
#define ATTUNE_CUDA_MERGE_SPLITS_WARPS   4
#define ATTUNE_CUDA_MERGE_SPLITS_COLUMNS 256 /* at most */
#define ATTUNE_CUDA_MERGE_SPLITS_SHARED                                                                                \
    (4 * ATTUNE_CUDA_MERGE_SPLITS_WARPS * (ATTUNE_MERGE_PARTS_MAX + ATTUNE_CUDA_MERGE_SPLITS_COLUMNS))

typedef struct attune_cuda_merge_splits_params {
    const float *partial_o;                 /* (split, batch * heads, row, Dv); not divided by the sum */
    const float *partial_max, *partial_sum; /* (split, batch * heads, row) */
    attune_cuda_operand o, lse;
    attune_cuda_operand cu_seqlens_q, seqused_q; /* whose rows are merged, and where o and lse have them; absent: all */
    uint32_t batch, rows, heads;
    int32_t head_dim_v;
    int32_t splits;
    int32_t row_warps; /* that share a row's splits; the others of a work-group have other rows */
    int32_t o_dtype;   /* attune_dtype */
} attune_cuda_merge_splits_params;

#endif
