/*
 * Where the elements of a run's operands lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_OPERAND_H
#define ATTUNE_REFERENCE_OPERAND_H

#include "backends/cpu/kernel.h"

static inline bool attune_reference_has(const struct attune_cpu_run *run, attune_operand operand) {
    return run->problem->operand[operand].dtype != ATTUNE_DTYPE_NONE;
}

static inline int64_t attune_reference_size(attune_dtype dtype) {
    switch (dtype) {
    case ATTUNE_DTYPE_E4M3:
    case ATTUNE_DTYPE_U8:
        return 1;
    case ATTUNE_DTYPE_F16:
    case ATTUNE_DTYPE_BF16:
        return 2;
    case ATTUNE_DTYPE_U64:
    case ATTUNE_DTYPE_F64:
        return 8;
    default:
        return 4;
    }
}

/* The distance along one axis. */
static inline int64_t attune_reference_stride_bytes(const struct attune_cpu_run *run, attune_operand operand,
                                                    int axis) {
    const attune_layout *layout = &run->problem->operand[operand];
    return layout->stride[axis] * attune_reference_size(layout->dtype);
}

/* Element (i0, i1, i2, 0) of a layout whose first element lies at pointer. Through an integer, since data is NULL where
 * an operand has no elements, and then no address is used. */
static inline char *attune_reference_element(const attune_layout *layout, attune_pointer pointer, int64_t i0,
                                             int64_t i1, int64_t i2) {
    const int64_t index = i0 * layout->stride[0] + i1 * layout->stride[1] + i2 * layout->stride[2];
    return (char *)((uintptr_t)pointer.data + (uintptr_t)pointer.byte_offset +
                    (uintptr_t)(index * attune_reference_size(layout->dtype)));
}

static inline char *attune_reference_address(const struct attune_cpu_run *run, attune_operand operand, int64_t i0,
                                             int64_t i1, int64_t i2) {
    return attune_reference_element(&run->problem->operand[operand], run->bindings->operand[operand], i0, i1, i2);
}

#endif
