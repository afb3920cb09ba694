/*
 * What the host's sides of the kernels in this folder share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_HOST_H
#define ATTUNE_CUDA_SM80_HOST_H

#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/decode.h"

/* The plan's problem with the bindings; without row_tiles. */
attune_cuda_forward_params attune_cuda_forward_fill(const struct attune_cuda_plan *plan,
                                                    const attune_bindings *bindings);

/* What decode kernels ask of a problem: few rows, whose query heads of a group are counted together, and strides of
 * whole 16 bytes. */
bool attune_cuda_decode_sizes_fit(const attune_problem *problem, int64_t packed_rows_most,
                                  char reason[ATTUNE_REASON_MAX]);
bool attune_cuda_decode_strides_fit(const attune_problem *problem, attune_operand which, const char *operand,
                                    char reason[ATTUNE_REASON_MAX]);

/* The plan's problem with the bindings, its splits and what they leave in the workspace. */
attune_cuda_decode_params attune_cuda_decode_fill(const struct attune_cuda_plan *plan, const attune_bindings *bindings);

/* Merges the partial results that the plan's splits left in the workspace into o and lse. */
attune_status attune_cuda_merge_splits(const struct attune_cuda_plan *plan, CUstream stream,
                                       const attune_bindings *bindings);

#endif
