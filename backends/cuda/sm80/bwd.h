/*
 * What the host passes to the general backward kernel: one struct, by value, for C and CUDA alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_BWD_H
#define ATTUNE_CUDA_SM80_BWD_H

#include "backends/cuda/sm80/fwd.h"

#define ATTUNE_CUDA_BACKWARD_WARPS 4 /* of a work-group; each has an item of its own */

/* What a launch computes, and what an item of it is. */
typedef enum attune_cuda_backward_stage {
    ATTUNE_CUDA_BACKWARD_SUMS = 0,  /* the sum of do o, less dlse: a row */
    ATTUNE_CUDA_BACKWARD_DQ = 1,    /* a row */
    ATTUNE_CUDA_BACKWARD_DKV = 2,   /* a key */
    ATTUNE_CUDA_BACKWARD_DBIAS = 3, /* an element */
    ATTUNE_CUDA_BACKWARD_DSINK = 4, /* a head */
    ATTUNE_CUDA_BACKWARD_STAGES
} attune_cuda_backward_stage;

typedef struct attune_cuda_backward_params {
    attune_cuda_forward_params forward; /* o and lse are read */
    attune_cuda_operand dout, dlse, dq, dk, dv, dbias, dsink;
    int32_t dout_dtype, dq_dtype, dk_dtype, dv_dtype, dbias_dtype; /* attune_dtype */
    int64_t dbias_shape[4];

    float *row_sums;         /* in the workspace: (b, h, s), packed sequences after one another */
    int64_t row_sums_length; /* along s */
    int32_t is_packed;

    int32_t stage;
    int64_t items;
} attune_cuda_backward_params;

#endif
