/*
 * What a plan gives the attention kernels: one struct, for C and OpenCL C alike. Pointers are arguments of their own.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_PARAMS_H
#define ATTUNE_OPENCL_GENERIC_PARAMS_H

#include "core/portable/target.h"

/* attune_dtype, for kernels: they do not include types.h. */
#define ATTUNE_OPENCL_F32  1
#define ATTUNE_OPENCL_F16  2
#define ATTUNE_OPENCL_BF16 3
#define ATTUNE_OPENCL_E4M3 4

/* Strides of attune_layout, in elements. */
typedef struct attune_opencl_strides {
    attune_i64 axis[4];
} attune_opencl_strides;

typedef struct attune_opencl_attention {
    attune_opencl_strides q, k, v, o, lse, probs;
    attune_opencl_strides dout, dlse, dq, dk, dv, dbias, dsink;
    attune_opencl_strides bias, mask, alibi_slopes, sink;
    attune_opencl_strides cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, leftpad_k;
    attune_opencl_strides block_table, block_row_ptr, block_col_idx;
    attune_opencl_strides descale_q, descale_k, descale_v;

    attune_i64 batch, rows, keys, heads_q, heads_kv; /* as attune_problem; rows and keys are capacities */
    attune_i64 row_tiles;                            /* of a sequence and pack of heads */
    attune_i64 key_tiles;                            /* of a sequence */
    attune_i64 chunks;                               /* of the key tiles of a sequence */
    attune_i64 page_size;                            /* 0: not paged */
    attune_i64 block_rows, block_keys;               /* 0: not sparse */
    attune_i64 diagonal;                             /* if not bottom_right */
    attune_i64 window_left;                          /* -1: open */
    attune_i64 window_right;
    attune_i64 dbias_shape[4];

    attune_u64 dropout_threshold; /* 0: no dropout */
    attune_i64 batch_origin, head_origin, row_origin, key_origin, heads_total;

    attune_i64 partial_o; /* of the workspace, in bytes */
    attune_i64 partial_lse;
    attune_i64 own;
    attune_i64 partial_dq;
    attune_i64 partial_dkv;

    int head_dim;
    int head_dim_v;
    int splits;
    int pack;
    int bottom_right; /* shift is Sk - Sq */
    int bias_dtype;
    int dtype; /* of q, k and v */
    int o_dtype;
    int dout_dtype;
    int dq_dtype;
    int dk_dtype;
    int dv_dtype;
    int dbias_dtype;
    float softcap;         /* 0: off */
    float dropout_rescale; /* 1 / (1 - rate) */
} attune_opencl_attention;

#endif
