/*
 * What became of one case.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_OUTCOME_H
#define CONFORM_OUTCOME_H

#include "attune/attune.h"

#define CONFORM_REASON_MAX 1024

enum conform_status { CONFORM_PASSED, CONFORM_FAILED, CONFORM_SKIPPED };

struct conform_outcome {
    enum conform_status status;
    char reason[CONFORM_REASON_MAX]; /* of the first failure, or why it was skipped */
    char kernel[ATTUNE_NAME_MAX];    /* the row that ran last */
    double error_ratio;              /* the largest error over its bound */
};

/* Marks the case as failed; the first reason stays. Returns false. */
ATTUNE_PRINTF(2, 3) bool conform_outcome_fail(struct conform_outcome *outcome, const char *format, ...);

/* Marks the case as skipped, unless it failed. Returns false. */
ATTUNE_PRINTF(2, 3) bool conform_outcome_skip(struct conform_outcome *outcome, const char *format, ...);

/* Fails with the status and attune's sentence unless status is OK. Returns whether it is. */
bool conform_outcome_expect_ok(struct conform_outcome *outcome, const char *call, attune_status status);

/* Fails unless status is the one expected. Returns whether it is. */
bool conform_outcome_expect(struct conform_outcome *outcome, const char *call, attune_status status,
                            attune_status expected);

#endif
