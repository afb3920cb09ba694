/*
 * What the host's sides of the attention kernels share: the problem in their terms, and how they are built.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_ATTENTION_H
#define ATTUNE_OPENCL_GENERIC_ATTENTION_H

#include "backends/opencl/generic/params.h"
#include "backends/opencl/kernel.h"

/* How a work-group is laid out: product.h's macros. */
struct opencl_tiling {
    int32_t vector;
    int32_t held;
    int32_t walked;
    int32_t held_threads;
    int32_t walked_threads;
    int32_t lines;
    int32_t out_threads;
    int32_t out_lines;
    int32_t depth;
    int32_t steps;
    int32_t columns;
    bool is_resident;
    bool is_ahead;      /* slices are loaded ahead: ahead.h */
    int32_t head_dim;   /* rounded up */
    int32_t head_dim_v; /* likewise */
};

static inline int32_t attune_opencl_threads(const struct opencl_tiling *tiling) {
    return tiling->held_threads * tiling->walked_threads;
}

/* Local memory of a build, as its source declares it. */
typedef int64_t (*opencl_local_bytes)(const struct opencl_tiling *tiling);

/* How a row goes about a problem: its tile, and the deepest slices that fit the device's local memory. False if none
 * fits. */
bool attune_opencl_tiling_choose(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                 const attune_problem *problem, opencl_local_bytes local_bytes,
                                 struct opencl_tiling *out_tiling);

/* Whether a problem needs what only ATTUNE_GENERAL builds have. pack: of the schedule. */
bool attune_opencl_is_general(const attune_problem *problem, int32_t pack);

/* Whether each so many elements of q, k, v and their kind can be loaded as one. */
bool attune_opencl_all_aligned(const attune_problem *problem, int32_t vector);

/* Sets the plan's options for the build. */
void attune_opencl_options(struct attune_opencl_plan *plan, const struct opencl_tiling *tiling);

void attune_opencl_attention_fill(const struct attune_opencl_plan *plan, attune_opencl_attention *out);

/* Whether rows and keys fit what kernels count with, and a tile fits the device. */
bool attune_opencl_attention_accepts(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                     const attune_problem *problem, opencl_local_bytes local_bytes,
                                     char reason[ATTUNE_REASON_MAX]);

attune_opencl_strides attune_opencl_strides_of(const attune_problem *problem, attune_operand operand);

/* What generic/operands.h names OPTION_OPERANDS, for C's lists. */
#define ATTUNE_OPENCL_OPTION_OPERANDS                                                                                  \
    ATTUNE_OPERAND_SINK, ATTUNE_OPERAND_BIAS, ATTUNE_OPERAND_MASK, ATTUNE_OPERAND_ALIBI_SLOPES,                        \
        ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_OPERAND_SEQUSED_Q, ATTUNE_OPERAND_SEQUSED_K,  \
        ATTUNE_OPERAND_LEFTPAD_K, ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_OPERAND_BLOCK_COL_IDX,                          \
        ATTUNE_OPERAND_DESCALE_Q, ATTUNE_OPERAND_DESCALE_K, ATTUNE_OPERAND_DESCALE_V, ATTUNE_OPERAND_DROPOUT_SEED,     \
        ATTUNE_OPERAND_DROPOUT_OFFSET, ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_OPERAND_PROBS

/* Kernels that are not general take the first of these only, the sink; backward has no block table and no probs. */
#define ATTUNE_OPENCL_OPTION_COUNT 18

#endif
