/*
 * The host's side of merge.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/generic/merge.h"

#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/attention.h"

#define VECTOR       4
#define STATE_FLOATS (VECTOR + 2)
#define THREADS      64

_Static_assert(ATTUNE_MERGE_PARTS_MAX <= ATTUNE_OPENCL_PARTS_MAX * ATTUNE_OPENCL_STEPS_MAX, "a step for all parts");

static int64_t items_of(const attune_problem *problem) {
    const int64_t *shape = problem->operand[ATTUNE_OPERAND_O].shape;
    return shape[0] * shape[1] * shape[2] * attune_ceil_div(shape[3], VECTOR);
}

static uint64_t workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    return problem->parts <= ATTUNE_OPENCL_PARTS_MAX ? 0 : sizeof(float) * STATE_FLOATS * (uint64_t)items_of(problem);
}

static void add_step(struct attune_opencl_plan *plan, const char *symbol, int64_t first) {
    static const attune_operand operands[] = {ATTUNE_OPERAND_O, ATTUNE_OPERAND_LSE};
    plan->step[plan->step_count++] = (struct attune_opencl_step){
        .symbol = symbol,
        .groups = {(size_t)attune_ceil_div(items_of(&plan->problem), THREADS), 1, 1},
        .local = {THREADS, 1, 1},
        .operands = operands,
        .operand_count = 2,
        .part_first = (int32_t)first,
        .part_count = ATTUNE_OPENCL_PARTS_MAX,
    };
}

static void add_steps(struct attune_opencl_plan *plan) {
    const int64_t parts = plan->problem.parts;
    if (parts <= ATTUNE_OPENCL_PARTS_MAX) {
        add_step(plan, "attune_merge_only_o", 0);
        if (attune_problem_has(&plan->problem, ATTUNE_OPERAND_LSE)) {
            add_step(plan, "attune_merge_only_lse", 0);
        }
        return;
    }
    add_step(plan, "attune_merge_first", 0);
    for (int64_t first = ATTUNE_OPENCL_PARTS_MAX; first < parts; first += ATTUNE_OPENCL_PARTS_MAX) {
        const bool is_last = first + ATTUNE_OPENCL_PARTS_MAX >= parts;
        add_step(plan, is_last ? "attune_merge_last" : "attune_merge_next", first);
    }
}

static attune_status prepare(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const attune_layout *o = &problem->operand[ATTUNE_OPERAND_O];
    const attune_opencl_merge params = {
        .o = attune_opencl_strides_of(problem, ATTUNE_OPERAND_O),
        .lse = attune_opencl_strides_of(problem, ATTUNE_OPERAND_LSE),
        .part_o = attune_opencl_strides_of(problem, ATTUNE_OPERAND_PART_O),
        .part_lse = attune_opencl_strides_of(problem, ATTUNE_OPERAND_PART_LSE),
        .batch = o->shape[0],
        .rows = o->shape[1],
        .heads = o->shape[2],
        .parts = problem->parts,
        .state = (int64_t)plan->workspace.own.offset,
        .head_dim_v = (int)o->shape[3],
        .o_dtype = (int)o->dtype,
        .part_dtype = (int)problem->operand[ATTUNE_OPERAND_PART_O].dtype,
    };
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    snprintf(plan->options, sizeof plan->options, "-DATTUNE_VECTOR=%d -DATTUNE_IS_CPU=0 -DATTUNE_ALIGNED=0", VECTOR);
    add_steps(plan);
    return ATTUNE_OK;
}

const struct attune_opencl_family attune_opencl_merge_family = {.workspace_bytes = workspace_bytes, .prepare = prepare};
