/*
 * The tensors of one call, and the rules that all operations share: what must be given, what goes together, dtypes,
 * shapes, ranges of options. problem_*.c say in which order, and add what only their operation has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_ARGUMENTS_H
#define ATTUNE_CORE_ARGUMENTS_H

#include "core/axis.h"
#include "core/call.h"

struct attune_arguments {
    attune_op op;
    bool descale_given;                                /* quantize */
    const attune_tensor *tensor[ATTUNE_OPERAND_COUNT]; /* NULL: absent. Of several parts the first */
    struct attune_extents extents;
};

/* Finds the tensors of an args struct and checks each by itself: those that must be given, those that the operation
 * does not take, and their fields. args must stay valid as long as out_arguments. */
ATTUNE_MUST_CHECK attune_status attune_arguments_collect(attune_op op, const void *args, bool descale_given,
                                                         struct attune_arguments *out_arguments);

enum attune_pairing { ATTUNE_PAIRING_NEEDS, ATTUNE_PAIRING_EXCLUDES };

/* operand needs other, or cannot be given with it. */
struct attune_pair {
    attune_operand operand;
    enum attune_pairing pairing;
    attune_operand other;
};
ATTUNE_MUST_CHECK attune_status attune_arguments_check_pairs(const struct attune_arguments *arguments,
                                                             const struct attune_pair *pairs, size_t count);

/* An option that is 1 or more with an operand, and 0 without. */
ATTUNE_MUST_CHECK attune_status attune_arguments_check_unit(const struct attune_arguments *arguments,
                                                            attune_operand operand, const char *option, int64_t value);

/* Every operand's dtype; descale tensors are for stored data of e4m3 only. What relations need must be present. */
ATTUNE_MUST_CHECK attune_status attune_arguments_check_dtypes(const struct attune_arguments *arguments,
                                                              attune_operand stored);

/* Checks the shape of one operand, if it is given, or of all. */
ATTUNE_MUST_CHECK attune_status attune_arguments_bind(struct attune_arguments *arguments, attune_operand operand);
ATTUNE_MUST_CHECK attune_status attune_arguments_bind_all(struct attune_arguments *arguments);

/* With a block table: sets Sk to columns * page_size. */
ATTUNE_MUST_CHECK attune_status attune_arguments_bind_pages(struct attune_arguments *arguments, int64_t page_size);

/* An integer option and what it may be. rule completes "NAME is VALUE; ". */
struct attune_range {
    const char *argument;
    int64_t value;
    int64_t low;
    int64_t high;
    const char *rule;
};
ATTUNE_MUST_CHECK attune_status attune_ranges_check(const struct attune_range *ranges, size_t count);

/* An extent that has been bound; absent: what to return if no tensor has the axis. */
int64_t attune_arguments_extent(const struct attune_arguments *arguments, enum attune_axis axis, int64_t absent);

/* Fills in what follows from the tensors alone, in a call that is zero: op, dtype, layouts, pointers, heads and head
 * sizes, the features that an operand's presence or dtype stands for, and the defaults of what an operation lacks.
 * INVALID_ARGUMENT: extents that multiply to too much. */
ATTUNE_MUST_CHECK attune_status attune_arguments_store(const struct attune_arguments *arguments, attune_operand stored,
                                                       struct attune_call *call);

#endif
