/*
 * What a plan gives the kernels of append.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_APPEND_H
#define ATTUNE_OPENCL_GENERIC_APPEND_H

#include "backends/opencl/generic/params.h"

/* Vectors that one kernel moves: new keys, new values, or q. */
typedef struct attune_opencl_moved {
    attune_opencl_strides from, to, descale;
    attune_i64 rows, heads;
    int length;
    int rotary_dim; /* 0: they are not rotated */
    int from_dtype;
    int to_dtype;
} attune_opencl_moved;

typedef struct attune_opencl_append {
    attune_opencl_moved k, v, q;
    attune_opencl_strides seqused_k, block_table, rotary_cos, rotary_sin;
    attune_i64 batch;
    attune_i64 page_size; /* 0: not paged */
    attune_i64 capacity;
    attune_i64 positions; /* that there are angles of */
    int is_interleaved;
    int padding;
} attune_opencl_append;

#endif
