/*
 * What every kernel of this folder is called with, as C and as OpenCL C: the same bytes in both, so it holds numbers of
 * a fixed width only, and no pointer.
 *
 * A kernel's arguments, in this order:
 *
 *   __constant struct of its family's, as the plan prepared it
 *   attune_opencl_run by value
 *   __global uchar *workspace; NULL if the plan has none
 *   __global uchar *operand..., those that its step lists, in that order; NULL for one that is absent
 *   __global uchar *part_o[0], ... then part_lse[0], ..., as many as its step says; NULL past the last part
 *   __local uchar *, if its step wants local memory by argument
 *
 * A pointer is the beginning of a memory object: the first element lies at run.offset[n] bytes from it, where n counts
 * the operands of the step, from 0.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_RUN_H
#define ATTUNE_OPENCL_RUN_H

#include "core/portable/target.h"

#define ATTUNE_OPENCL_OPERANDS_MAX                                                                                     \
    28 /* of a step; with all else it is under 1024 bytes of arguments, the least limit */
#define ATTUNE_OPENCL_PARTS_MAX 8

typedef struct attune_opencl_run {
    attune_u64 seed; /* of the call: SEED and OFFSET in device memory are operands */
    attune_u32 dropout_offset;
    float scale;
    attune_i64 workspace; /* bytes from the workspace's pointer to the workspace */
    attune_i64 offset[ATTUNE_OPENCL_OPERANDS_MAX];
    attune_i64 part_o_offset[ATTUNE_OPENCL_PARTS_MAX];
    attune_i64 part_lse_offset[ATTUNE_OPENCL_PARTS_MAX];
} attune_opencl_run;

#endif
