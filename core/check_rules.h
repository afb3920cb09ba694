/*
 * What lengths, offsets and tables have to be, once they can be read. No device is involved.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_CHECK_RULES_H
#define ATTUNE_CORE_CHECK_RULES_H

#include "attune/backend.h"

/* The i32 operands of a problem in host memory, each from its first element on, with the strides of its layout. */
struct attune_tables {
    const int32_t *values[ATTUNE_OPERAND_COUNT]; /* NULL: absent, or without elements */
};

/* INVALID_ARGUMENT names tensor, index, value and rule. */
ATTUNE_MUST_CHECK attune_status attune_tables_check(const attune_problem *problem, const struct attune_tables *tables);

#endif
