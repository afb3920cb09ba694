/*
 * What the host passes to the general forward kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_FWD_H
#define ATTUNE_CUDA_SM80_FWD_H

#include <stdint.h>

#include "backends/cuda/operand.h"

/* A tile: rows and keys of a work-group. */
#define ATTUNE_CUDA_FORWARD_ROWS 16
#define ATTUNE_CUDA_FORWARD_KEYS 32

typedef struct attune_cuda_forward_params {
    attune_cuda_operand q, k, v, o, lse, probs;
    attune_cuda_operand bias, mask, alibi_slopes, sink;
    attune_cuda_operand cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k;
    attune_cuda_operand block_table, block_row_ptr, block_col_idx;
    attune_cuda_operand descale_q, descale_k, descale_v;
    attune_cuda_operand dropout_seed, dropout_offset;

    int64_t batch, rows, keys, heads_q, heads_kv; /* as attune_problem; rows and keys are capacities */
    int32_t head_dim, head_dim_v;
    int64_t row_tiles; /* of a sequence */
    int64_t page_size; /* 0: not paged */
    int64_t block_rows, block_keys;

    int32_t bottom_right; /* shift is Sk - Sq */
    int32_t bias_dtype;   /* attune_dtype */
    int32_t o_dtype;
    float scale;
    float softcap;         /* 0: off */
    float dropout_rescale; /* 1 / (1 - rate) */
    int64_t diagonal;      /* if not bottom_right */
    int64_t window_left;   /* -1: open */
    int64_t window_right;
    uint64_t dropout_threshold; /* 0: no dropout */
    uint64_t seed;
    int64_t batch_origin, head_origin, row_origin, key_origin, heads_total;
    uint32_t offset;
} attune_cuda_forward_params;

#endif
