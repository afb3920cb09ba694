/*
 * Where the elements of a run's operands lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_OPERAND_H
#define ATTUNE_REFERENCE_OPERAND_H

#include "attune/backend_util.h"
#include "backends/cpu/kernel.h"

static inline bool attune_reference_has(const struct attune_cpu_run *run, attune_operand operand) {
    return attune_problem_has(run->problem, operand);
}

/* The distance along one axis. */
static inline int64_t attune_reference_stride_bytes(const struct attune_cpu_run *run, attune_operand operand,
                                                    int axis) {
    const attune_layout *layout = &run->problem->operand[operand];
    return layout->stride[axis] * attune_element_bytes(layout->dtype);
}

/* Element (i0, i1, i2, 0) of a layout whose first element lies at pointer. Through an integer, since data is NULL where
 * an operand has no elements, and then no address is used. */
static inline char *attune_reference_element(const attune_layout *layout, attune_pointer pointer, int64_t i0,
                                             int64_t i1, int64_t i2) {
    const int64_t index = attune_layout_offset(layout, i0, i1, i2, 0);
    return (char *)((uintptr_t)pointer.data + (uintptr_t)pointer.byte_offset +
                    (uintptr_t)(index * attune_element_bytes(layout->dtype)));
}

static inline char *attune_reference_address(const struct attune_cpu_run *run, attune_operand operand, int64_t i0,
                                             int64_t i1, int64_t i2) {
    return attune_reference_element(&run->problem->operand[operand], run->bindings->operand[operand], i0, i1, i2);
}

#endif
