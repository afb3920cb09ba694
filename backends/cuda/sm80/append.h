/*
 * What the host passes to the append kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_APPEND_H
#define ATTUNE_CUDA_SM80_APPEND_H

#include "backends/cuda/operand.h"

#define ATTUNE_CUDA_APPEND_WARPS 4

typedef struct attune_cuda_append_params {
    attune_cuda_operand k, v, k_new, v_new, q, q_out; /* k and v are the cache */
    attune_cuda_operand seqused_k, block_table, descale_k, descale_v, rotary_cos, rotary_sin;

    int64_t batch, rows_new, rows_q, heads_kv, heads_q;
    int64_t capacity;  /* positions of a sequence */
    int64_t positions; /* of the rotation */
    int64_t page_size; /* 0: not paged */
    int32_t head_dim, head_dim_v;
    int32_t rotary_dim; /* 0: no rotation */
    int32_t rotary_interleaved;
    int32_t cache_dtype, new_dtype, q_dtype; /* attune_dtype */
} attune_cuda_append_params;

#endif
