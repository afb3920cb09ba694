/*
 * The right answer: the CPU's reference kernel on the same values in the plainest form. No padding, no pages, no shared
 * memory, C order, and results in f64 that are not rounded.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_ORACLE_H
#define CONFORM_ORACLE_H

#include "problem.h"

struct conform_oracle {
    const struct conform_problem *problem;
    void *stored[CONFORM_OPERANDS];  /* inputs as stored, by compact index; elements of no sequence are 0 */
    double *exact[CONFORM_OPERANDS]; /* results by compact index; o, lse and probs are there in both passes */
};

/* Runs the reference. Of a backward problem it runs forward first, and puts o and lse into the problem's buffers and
 * its own inputs, rounded to their dtypes. Free it in any case. */
ATTUNE_MUST_CHECK attune_status conform_oracle_run(attune_device *cpu, struct conform_problem *problem,
                                                   struct conform_oracle *out_oracle);
void conform_oracle_free(struct conform_oracle *oracle);

/* Runs forward again over the stored inputs, which the caller may have changed: o and lse are replaced. */
ATTUNE_MUST_CHECK attune_status conform_oracle_forward(attune_device *cpu, struct conform_oracle *oracle);

#endif
