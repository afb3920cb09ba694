/*
 * Operands of a run in the terms of the Hopper kernels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BIND_H
#define ATTUNE_CUDA_SM90_BIND_H

#include "backends/cuda/kernel.h"
#include "backends/cuda/sm90/fwd.h"
#include "backends/cuda/tensormap.h"

/* Of an operand (b, s, h, d). */
attune_sm90_steps attune_sm90_steps_of(const attune_problem *problem, attune_operand which);

/* Boxes of a panel of columns and some rows, of an operand (b, s, h, d). */
struct attune_cuda_boxes attune_sm90_boxes(const attune_problem *problem, const attune_bindings *bindings,
                                           attune_operand which, int64_t rows);

/* How far right of its own index a row sees, where lengths are not in device memory. */
int32_t attune_sm90_right_side(const attune_problem *problem);

#endif
