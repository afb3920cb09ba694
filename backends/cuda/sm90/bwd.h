/*
 * What the host passes to the Hopper backward kernels: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_H
#define ATTUNE_CUDA_SM90_BWD_H

#include "backends/cuda/operand.h"
#include "backends/cuda/sm90/fwd.h"

/* Threads of a work-group of the kernels that run beside the main one. */
#define ATTUNE_SM90_BESIDE_THREADS 256

#define ATTUNE_SM90_CONSUMERS 2 /* warpgroups that share a tile of keys */

/* Keys of a work-group for heads of more than 128 columns. A tile of more is a cluster's. */
#define ATTUNE_SM90_WIDE_KEYS 64

#define ATTUNE_SM90_ROW_MARKS 4 /* values that follow those of a tile's rows */
#define ATTUNE_SM90_LARGEST   3 /* values that are measured for f16 */

typedef struct attune_sm90_backward_params {
    /* Axes (d, s, h, b). q and dout have boxes of a tile's rows, the others of 64 keys. */
    CUtensorMap q, k, v, dout, dk, dv;
    attune_cuda_operand direct_q, direct_v, o, direct_dout, lse, dlse, dq, sink,
        dsink; /* what is read or written without a map */

    /* In the workspace, for each tile of rows: lse in units of log2, the row sums less dlse, and dq / scale in the
     * order in which the accumulators hold it. */
    float *row_lse, *row_sum, *dq_sum;

    /* In the workspace, for a deterministic dq; else NULL: the work-groups that have begun, and for each tile of dq the
     * parts that have been added. */
    int32_t *begun, *added;

    /* In the workspace, for f16; else NULL: the largest |dO|^2 and |V|^2 of a row, and |row sum|. */
    float *largest;

    float scale;
    float score_factor; /* scale log2(e) */

    int32_t heads_q, heads_kv;
    int32_t group; /* query heads to a kv head */
    int32_t batch, rows, keys;
    int32_t head_dim, head_dim_v;
    int32_t right;                /* row i sees the keys up to i + right; the general kernel counts its own */
    int32_t row_tiles, key_tiles; /* of a sequence */
    int32_t heads;                /* kv heads of all batches */
    int32_t section;              /* of those, so many whose q, dout and dq stay in the L2 cache together */
    int32_t has_dk, has_dv;
    attune_sm90_steps q_step, k_step, v_step, dout_step, dk_step, dv_step;

    /* ---- Only the general kernel reads the rest ---- */

    attune_cuda_operand direct_dk, direct_dv; /* for a tile whose last keys are not the problem's own */
    attune_cuda_operand cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k;
    int32_t is_capped;
    float cap_factor; /* scale / softcap */
    float cap;        /* softcap log2(e) */
    int32_t bottom_right;
    int64_t diagonal;                  /* the shift, if not bottom_right */
    int64_t window_left, window_right; /* -1: open */
} attune_sm90_backward_params;

#endif
