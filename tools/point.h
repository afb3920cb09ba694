/*
 * One line of bench's and tune's tables: a problem, by one kernel on one device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_POINT_H
#define ATTUNE_TOOLS_POINT_H

#include "measure.h"
#include "verify.h"
#include "work.h"

struct point {
    enum option_work work;
    const char *asked_backend; /* a selector; NULL: the library's choice */
    const char *asked_kernel;  /* NULL: likewise */
    int64_t length;            /* Sk */
    enum tool_exit status;
    char reason[ATTUNE_REASON_MAX]; /* why there are no numbers, where status is not TOOL_OK */
    char device[ATTUNE_NAME_MAX];
    attune_explanation explanation;
    struct spread spread;
    struct work cost;
    bool is_verified;
    struct verdict verdict;
};

/* Runs, verifies where reference is not NULL, and times. Everything but what was asked for is set; a failure was told
 * on stderr and is in point->status. */
void point_run(struct point *point, struct workload *workload, attune_device *reference, int64_t repeat);

/* Notes a failure before there was anything to run. */
void point_fail(struct point *point, enum tool_exit status);

/* "ok", "wrong", "unsupported", ... */
const char *point_status_word(const struct point *point);

/* What the problems of points have in common: the lengths are left out where they differ. "" if none got that far. */
void points_format_problem(const struct point *points, int count, char out_text[ATTUNE_REASON_MAX]);

double point_flops_per_second(const struct point *point);
double point_bytes_per_second(const struct point *point);
double point_ceiling_share(const struct point *point); /* 0: unknown */

#endif
