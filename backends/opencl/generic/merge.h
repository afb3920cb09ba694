/*
 * What a plan gives the kernels of merge.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_MERGE_H
#define ATTUNE_OPENCL_GENERIC_MERGE_H

#include "backends/opencl/generic/params.h"

typedef struct attune_opencl_merge {
    attune_opencl_strides o, lse, part_o, part_lse;
    attune_i64 batch, rows, heads, parts;
    attune_i64 state; /* of the workspace, in bytes: what a work-item keeps from step to step */
    int head_dim_v;
    int o_dtype;
    int part_dtype;
    int padding;
} attune_opencl_merge;

#endif
