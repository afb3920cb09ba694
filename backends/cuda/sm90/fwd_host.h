/*
 * What the host's sides of fwd.cu and fwd_split.cu share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_FWD_HOST_H
#define ATTUNE_CUDA_SM90_FWD_HOST_H

#include "backends/cuda/kernel.h"
#include "backends/cuda/sm90/fwd.h"

/* As attune_cuda_family.accepts. */
bool attune_sm90_forward_accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                 const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);

/* Query heads that share a tile's rows; 1 where the row is not general. */
int64_t attune_sm90_forward_pack(const attune_kernel_row *row, const attune_problem *problem);

attune_sm90_operand attune_sm90_operand_bind(const attune_problem *problem, const attune_bindings *bindings,
                                             attune_operand which);

/* All but the counter and the parts. */
attune_status attune_sm90_forward_fill(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                                       attune_sm90_forward_params *out_params);

/* Sets the counter of tiles, which lies so far into the backend's own part of the workspace, and clears it. */
attune_status attune_sm90_forward_count(const struct attune_cuda_plan *plan, CUstream stream,
                                        const attune_bindings *bindings, uint64_t offset,
                                        attune_sm90_forward_params *params);

#endif
