/*
 * What the host passes to the decode kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_DECODE_H
#define ATTUNE_CUDA_SM80_DECODE_H

#include "backends/cuda/sm80/fwd.h"

/* Past these a tile of more rows, which reads the keys less often, is sooner done. */
#define ATTUNE_CUDA_DECODE_PACKED_ROWS_MAX 64

/* Sums of a row, keys and a side of the mask stay within 32 bits, and a side this far out is as good as open. */
#define ATTUNE_CUDA_DECODE_KEYS_MAX (INT32_C(1) << 29)
#define ATTUNE_CUDA_DECODE_SIDE_MAX ((INT32_C(1) << 30) - ATTUNE_CUDA_DECODE_PACKED_ROWS_MAX)

typedef struct attune_cuda_decode_params {
    attune_cuda_forward_params forward; /* no bias, mask, probs, dropout, descales or lists of blocks; rows of tiles are
                                           of packs */
    float *partial_o;                   /* (split, batch * heads, row, Dv), for splits > 1; not divided by the sum */
    float *partial_max, *partial_sum;   /* (split, batch * heads, row); not an lse, in which a large maximum would
                                           swallow the sum */
    int32_t seen_from, seen_to; /* row i sees the keys i + seen_from to i + seen_to - 1, plus keys - rows if the mask is
                                   bottom_right; within +-ATTUNE_CUDA_DECODE_SIDE_MAX, which is an open side */
    uint32_t tiles, packs;      /* of the launch; of batches and heads */
    uint32_t splits;
    uint32_t group; /* query heads of a kv head */
    uint32_t pack;  /* query heads of a group that share a tile: row r of the tiles is of head r % pack */
} attune_cuda_decode_params;

#endif
