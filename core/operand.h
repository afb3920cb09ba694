/*
 * What each operation takes: one table of operands with name, place in the args struct, use, form and dtypes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_OPERAND_H
#define ATTUNE_CORE_OPERAND_H

#include "attune/backend.h"
#include "core/axis.h"

/* What an operation does with a tensor of its args. */
enum attune_use {
    ATTUNE_USE_REFUSED, /* the struct has it for another operation */
    ATTUNE_USE_READ,
    ATTUNE_USE_READ_ALWAYS, /* must be given */
    ATTUNE_USE_WRITE,
    ATTUNE_USE_WRITE_ALWAYS
};

/* Which dtypes besides fixed an operand may have, by that of another. */
enum attune_dtype_relation {
    ATTUNE_RELATION_NONE,
    ATTUNE_RELATION_SAME,
    ATTUNE_RELATION_AS,           /* the same; f16 or bf16 where that is e4m3 */
    ATTUNE_RELATION_STORED_IN,    /* the same; any that can be converted where that is e4m3 */
    ATTUNE_RELATION_NARROWED_FROM /* the same; f16 or bf16 too where that is f32 */
};

struct attune_operand_rule {
    attune_operand operand;
    const char *argument; /* the field of the args struct */
    size_t offset;        /* its place there */
    bool is_array;        /* the field points to the first of several tensors that are alike */
    enum attune_use use;
    enum attune_use use_in_backward;
    enum attune_form form;
    uint32_t dtypes; /* ATTUNE_DTYPE_BIT of those that are always allowed; f64 only where it is written */
    enum attune_dtype_relation relation;
    attune_operand relative;
};

/* The operands of an operation in the order of its args struct; count 0 for a value that is no operation. */
const struct attune_operand_rule *attune_operand_rules(attune_op op, size_t *out_count);

/* NULL if the operation does not have the operand. */
const struct attune_operand_rule *attune_operand_find(attune_op op, attune_operand operand);

/* The argument's name as the operation's caller wrote it, for sentences; "" if the operation has no such operand. */
const char *attune_operand_name(attune_op op, attune_operand operand);

/* descale_given: of attune_quantize_args, which makes descale an input. */
enum attune_use attune_operand_use(attune_op op, bool descale_given, const struct attune_operand_rule *rule);

bool attune_use_writes(enum attune_use use);

/* Whether a run of the problem writes the operand. */
bool attune_problem_writes(const attune_problem *problem, attune_operand operand);

/* The dtypes that an operand may have, relative_dtype being that of rule->relative. */
uint32_t attune_operand_dtypes(const struct attune_operand_rule *rule, enum attune_use use,
                               attune_dtype relative_dtype);

/* "attune_forward" */
const char *attune_op_function(attune_op op);

#endif
