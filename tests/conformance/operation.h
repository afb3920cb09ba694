/*
 * Append, merge and quantize: their cases by number, and which kernel row takes them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_OPERATION_H
#define CONFORM_OPERATION_H

#include "case.h"

/* What a row's columns have to hold. */
struct conform_need {
    attune_op op;
    attune_dtype dtype;
    uint64_t features;
    int64_t head_dim;
    int64_t head_dim_v;
};

/* A family of cases. A case's variant is kernel * count + number; kernel 0 is the best, n + 1 the row of index n. */
struct conform_family_of_cases {
    const char *group;
    int64_t count;
    /* False: there is no such case. Otherwise what it needs, and its name. */
    bool (*describe)(int64_t number, struct conform_need *out_need, char out_name[CONFORM_NAME_MAX]);
    conform_check_fn check;
};

extern const struct conform_family_of_cases conform_append_cases;   /* check_append.c */
extern const struct conform_family_of_cases conform_merge_cases;    /* check_merge.c */
extern const struct conform_family_of_cases conform_empty_cases;    /* check_merge.c: B006 */
extern const struct conform_family_of_cases conform_quantize_cases; /* check_quantize.c */

/* The number of the case, and the row that it forces: NULL for the best. */
int64_t conform_operation_number(const struct conform_context *context, const struct conform_family_of_cases *family,
                                 const char **out_kernel);

/* Explains the call. False: it is skipped, failed where a row claims it, or the call failed. */
bool conform_operation_explain(struct conform_context *context, const struct conform_need *need, const char *kernel,
                               const void *args);

#endif
