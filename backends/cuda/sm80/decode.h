/*
 * What the host passes to the decode kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_DECODE_H
#define ATTUNE_CUDA_SM80_DECODE_H

#include "backends/cuda/sm80/fwd.h"

typedef struct attune_cuda_decode_params {
    attune_cuda_forward_params forward; /* no bias, mask, probs, dropout, descales or lists of blocks; rows of tiles are
                                           of packs */
    float *partial_o;                   /* (split, batch * heads, row, Dv), for splits > 1; not divided by the sum */
    float *partial_max, *partial_sum;   /* (split, batch * heads, row); not an lse, in which a large maximum would
                                           swallow the sum */
    int32_t splits;
    int32_t pack; /* query heads of a group that share a tile: row r of the tiles is of head r % pack */
} attune_cuda_decode_params;

#endif
