/*
 * What the host passes to the Hopper forward kernels: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_FWD_H
#define ATTUNE_CUDA_SM90_FWD_H

#include <cuda.h>
#include <stdint.h>

/* Columns of a box of the copy engine: 128 bytes, the span of its swizzle. */
#define ATTUNE_SM90_PANEL 64

/* Rows of q that a warpgroup multiplies, and rows of a box of o. */
#define ATTUNE_SM90_WARPGROUP_ROWS 64
#define ATTUNE_SM90_WARPGROUP      128 /* threads */

/* Rows and keys of a sequence, and what is added to either, stay within this, so that sums of two fit 32 bits. */
#define ATTUNE_SM90_LENGTH_MAX (1 << 29)

/* An operand that is read or written without the copy engine; NULL if it is absent. Strides are in elements. */
typedef struct attune_sm90_operand {
    void *data;
    int64_t stride[4];
} attune_sm90_operand;

/* What an index along an axis is multiplied by to give a coordinate: 0 where the axis has stride 0, 1 elsewhere. */
typedef struct attune_sm90_steps {
    int32_t head, batch;
} attune_sm90_steps;

/* Softcap of a small score s, times log2(e), is s (term[0] + term[1] s^2 + term[2] s^4 + ...). */
#define ATTUNE_SM90_CAPS      2
#define ATTUNE_SM90_CAP_SHORT 2 /* terms of the first */
#define ATTUNE_SM90_CAP_LONG  5 /* and of the second */
typedef struct attune_sm90_cap {
    float term[ATTUNE_SM90_CAP_LONG];
    float square; /* of the largest small score */
} attune_sm90_cap;

/* What a warpgroup leaves of a part of a tile: O, and the references and sums of two rows of each thread. */
#define ATTUNE_SM90_STATE_FLOATS(head_dim_v) (ATTUNE_SM90_WARPGROUP_ROWS * (head_dim_v) + 4 * ATTUNE_SM90_WARPGROUP)

/* Columns of O that a work-group of the merge has. */
#define ATTUNE_SM90_SLICE_COLUMNS 16

/* How tiles are cut along their keys. */
typedef struct attune_sm90_parts {
    int32_t key_tiles; /* of a part; the last one of a tile has what is left */
    int32_t most;      /* parts of a tile; 1: none is cut */
    int32_t first_cut; /* that may be cut: of all tiles with full visibility, of a sequence's row tiles elsewhere */
    float *states;     /* that parts leave, by tile, part and warpgroup */

    /* Of the kernel for full visibility. */
    int32_t units; /* tiles that are not cut, and parts */
    int32_t work_groups;

    /* Of the general kernel. */
    int32_t packs;         /* heads of a sequence, counted in packs */
    int32_t cut_row_tiles; /* of a sequence, that may be cut */
} attune_sm90_parts;

typedef struct attune_sm90_forward_params {
    /* Axes (d, s, h, b). The general kernel's q: (d, member of the pack, s, pack, b). o has boxes of one warpgroup. */
    CUtensorMap q, k, v, o;
    attune_sm90_operand lse, sink;
    int32_t *tile_counter; /* of this launch, 0 at its start; not read by kernels for full visibility */

    float score_factor;   /* what is left to multiply a score by before exp2; above 0 */
    int32_t score_change; /* attune_sm90_score_change: what is done to q k^T before that */
    float change_factor;
    attune_sm90_cap cap[ATTUNE_SM90_CAPS];
    int32_t first_cap; /* of them, that a tile begins with */

    int32_t heads_q;
    int32_t group; /* query heads to a kv head */
    int32_t rows, keys;
    int32_t right;     /* row i sees the keys up to i + right; a kernel for full visibility does not read it */
    int32_t row_tiles; /* of a sequence */
    int32_t tiles;     /* of the launch; the general kernel counts its own */
    int32_t section;   /* heads whose k and v stay in the L2 cache together */
    attune_sm90_steps q_step, k_step, v_step, o_step;

    /* ---- Only the general kernel reads the rest ---- */

    attune_sm90_operand direct_o; /* o again, for what the copy engine cannot write */
    attune_sm90_operand cu_seqlens_q, cu_seqlens_k, seqused_q, seqused_k, block_table;
    int32_t batch;
    int32_t head_dim_v;
    int32_t o_is_f32;
    int32_t pack;        /* query heads of a group whose rows interleave in a tile: row r is of head r % pack */
    int32_t tile_places; /* rows of a sequence to a tile: tile_rows / pack */
    int32_t page_size;   /* 0: not paged */
    int32_t page_box;    /* keys that are copied at once: the largest common divisor of page_size and tile_keys */
    int32_t page_boxes;  /* of a key tile */
    int32_t page_tiles;  /* key tiles whose boxes a warp looks up at once, one at least */
    int32_t page_step;   /* tile_keys % page_size */
    int32_t pages;       /* a page past the last one reads as zeros */
    int32_t bottom_right;
    int64_t diagonal;                  /* the shift, if not bottom_right */
    int64_t window_left, window_right; /* -1: open */

    /* ---- Only kernels that cut tiles read the rest, and direct_o and head_dim_v ---- */

    attune_sm90_parts parts;
} attune_sm90_forward_params;

typedef enum attune_sm90_score_change {
    ATTUNE_SM90_SCORE_AS_IS = 0,
    ATTUNE_SM90_SCORE_TIMES = 1, /* change_factor: the sign of a negative scale, or a scale of 0 */
    ATTUNE_SM90_SCORE_TANH = 2   /* of the score times change_factor: softcap */
} attune_sm90_score_change;

#endif
