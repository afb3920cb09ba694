/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/bind.h"

#include "attune/backend_util.h"
#include "core/portable/mask.h"

enum { AXIS_B, AXIS_S, AXIS_H, AXIS_D };

attune_sm90_steps attune_sm90_steps_of(const attune_problem *problem, attune_operand which) {
    const attune_layout *layout = &problem->operand[which];
    const attune_sm90_steps made = {
        .head = layout->stride[AXIS_H] != 0 && layout->shape[AXIS_H] > 1,
        .batch = layout->stride[AXIS_B] != 0 && layout->shape[AXIS_B] > 1,
    };
    return made;
}

struct attune_cuda_boxes attune_sm90_boxes(const attune_problem *problem, const attune_bindings *bindings,
                                           attune_operand which, int64_t rows) {
    const attune_layout *layout = &problem->operand[which];
    const struct attune_cuda_boxes made = {
        .dtype = layout->dtype,
        .rank = 4,
        .data = attune_pointer_address(bindings->operand[which]),
        .extent = {layout->shape[AXIS_D], layout->shape[AXIS_S], layout->shape[AXIS_H], layout->shape[AXIS_B]},
        .stride = {1, layout->stride[AXIS_S], layout->stride[AXIS_H], layout->stride[AXIS_B]},
        .box = {ATTUNE_SM90_PANEL, rows, 1, 1},
    };
    return made;
}

int32_t attune_sm90_right_side(const attune_problem *problem) {
    const int64_t shift =
        attune_mask_shift(problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT, problem->diagonal, problem->rows, problem->keys);
    const int64_t right = problem->window_right < 0 ? ATTUNE_SM90_LENGTH_MAX : shift + problem->window_right;
    return (int32_t)attune_clamp(right, -ATTUNE_SM90_LENGTH_MAX, ATTUNE_SM90_LENGTH_MAX);
}
