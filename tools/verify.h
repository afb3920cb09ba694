/*
 * Holds what a device computed for a workload to the CPU's reference kernel, before it is timed.
 *
 * Of attention a few blocks of rows and, in backward, of keys are computed again, the first and the last ones among
 * them, and compared in norm; an append is computed again as a whole.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_VERIFY_H
#define ATTUNE_TOOLS_VERIFY_H

#include "workload.h"

struct verdict {
    bool is_right;
    double error;       /* ||X - G|| / ||G|| of the result that comes nearest to its limit; of lse the largest error */
    double limit;       /* docs/semantics.md, "Accuracy", for normal inputs */
    const char *result; /* its name: "o", "dk" */
};

/* reference: the device "cpu". The workload has run. */
enum tool_exit verify(struct workload *workload, attune_device *reference, struct verdict *out_verdict);

/* The same for an append alone. */
enum tool_exit verify_append(struct workload *workload, attune_device *reference, struct verdict *out_verdict);

#endif
