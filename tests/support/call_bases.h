/*
 * Calls that are right, one for each way to use an operation: what tests break and fuzzers mutate.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_CALL_BASES_H
#define ATTUNE_TESTS_CALL_BASES_H

#include "attune/plan.h"

struct call_base {
    const char *name; /* NULL ends the table */
    attune_op op;
    const char *text; /* for call_text_apply */
};
extern const struct call_base call_bases[];

/* Aborts if there is none of that name. */
const struct call_base *call_base_find(const char *name);

#endif
