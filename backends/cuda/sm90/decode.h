/*
 * What the host passes to the Hopper decode kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_DECODE_H
#define ATTUNE_CUDA_SM90_DECODE_H

#include "backends/cuda/sm80/decode.h"
#include "backends/cuda/sm90/fwd.h"

typedef struct attune_sm90_decode_params {
    CUtensorMap k, v; /* axes (d, s, h, b), boxes of a panel of columns and box_keys keys */
    attune_sm90_steps k_step, v_step;
    int32_t box_keys; /* those of a stage, or as many of them as lie in one page */
    attune_cuda_decode_params decode;
} attune_sm90_decode_params;

#endif
