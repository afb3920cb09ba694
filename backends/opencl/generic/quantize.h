/*
 * What quantize.cl is called with. A cell is what is scaled alike at the least: 128 positions of a sequence's heads
 * that share a descale.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_QUANTIZE_H
#define ATTUNE_OPENCL_QUANTIZE_H

#include "core/portable/target.h"

#define ATTUNE_OPENCL_QUANTIZE_POSITIONS 128
#define ATTUNE_OPENCL_QUANTIZE_THREADS   64

typedef struct attune_opencl_quantize {
    attune_i64 positions; /* of x, in each batch */
    attune_i64 batches;
    attune_i64 groups; /* of heads, which share descales */
    attune_i64 blocks; /* of 128 positions */
    attune_i64 heads;  /* of a group */
    attune_i64 head_dim;
    attune_i64 largest;         /* where in the workspace each cell's largest is, in bytes */
    attune_i64 descale_batches; /* 1: one for all batches */
    attune_i64 descale_blocks;  /* 1: one for all positions */
    attune_i64 x_stride[3];
    attune_i64 y_stride[3];
    attune_i64 descale_stride[3];
} attune_opencl_quantize;

#endif
