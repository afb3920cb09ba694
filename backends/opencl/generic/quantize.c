/*
 * The host's side of quantize.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/quantize.h"
#include "backends/opencl/kernel.h"

#define GROUPS_MAX 65535 /* each goes on where the last one ends */

static int64_t cells_of(const attune_problem *problem) {
    const int64_t *x = problem->operand[ATTUNE_OPERAND_X].shape;
    return x[0] * problem->operand[ATTUNE_OPERAND_DESCALE].shape[1] *
           attune_ceil_div(x[1], ATTUNE_OPENCL_QUANTIZE_POSITIONS);
}

static uint64_t workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    return problem->descale_given ? 0 : sizeof(float) * (uint64_t)cells_of(problem);
}

static void set_shape(const struct attune_opencl_plan *plan, attune_opencl_quantize *out_shape) {
    const attune_layout *x = &plan->problem.operand[ATTUNE_OPERAND_X];
    const attune_layout *y = &plan->problem.operand[ATTUNE_OPERAND_Y];
    const attune_layout *descale = &plan->problem.operand[ATTUNE_OPERAND_DESCALE];
    *out_shape = (attune_opencl_quantize){
        .positions = x->shape[1],
        .batches = x->shape[0],
        .groups = descale->shape[1],
        .blocks = attune_ceil_div(x->shape[1], ATTUNE_OPENCL_QUANTIZE_POSITIONS),
        .heads = descale->shape[1] == 0 ? 0 : x->shape[2] / descale->shape[1],
        .head_dim = x->shape[3],
        .largest = (int64_t)plan->workspace.own.offset,
        .descale_batches = descale->shape[0],
        .descale_blocks = descale->shape[2],
    };
    for (int axis = 0; axis < 3; axis++) {
        out_shape->x_stride[axis] = x->stride[axis];
        out_shape->y_stride[axis] = y->stride[axis];
        out_shape->descale_stride[axis] = descale->stride[axis];
    }
}

static void add_step(struct attune_opencl_plan *plan, const char *symbol, int64_t groups) {
    static const attune_operand operands[] = {ATTUNE_OPERAND_X, ATTUNE_OPERAND_Y, ATTUNE_OPERAND_DESCALE};
    plan->step[plan->step_count++] = (struct attune_opencl_step){
        .symbol = symbol,
        .groups = {(size_t)attune_min(groups, GROUPS_MAX), 1, 1},
        .local = {ATTUNE_OPENCL_QUANTIZE_THREADS, 1, 1},
        .operands = operands,
        .operand_count = 3,
    };
}

static attune_status prepare(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const int64_t descales = attune_layout_elements(&problem->operand[ATTUNE_OPERAND_DESCALE]);
    attune_opencl_quantize shape;
    set_shape(plan, &shape);
    memcpy(plan->constants.bytes, &shape, sizeof shape);
    plan->constants_bytes = sizeof shape;
    snprintf(plan->options, sizeof plan->options, "-DATTUNE_DTYPE=%d", (int)problem->operand[ATTUNE_OPERAND_X].dtype);
    if (!problem->descale_given) {
        add_step(plan, "quantize_largest", cells_of(problem));
        add_step(plan, "quantize_descale", attune_ceil_div(descales, ATTUNE_OPENCL_QUANTIZE_THREADS));
    }
    add_step(plan, "quantize_store", cells_of(problem));
    return ATTUNE_OK;
}

const struct attune_opencl_family attune_opencl_quantize_family = {.workspace_bytes = workspace_bytes,
                                                                   .prepare = prepare};
