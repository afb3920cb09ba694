/*
 * What a problem costs once its lengths and block lists are known: attune_explain has to leave those to device memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_WORK_H
#define ATTUNE_TOOLS_WORK_H

#include "workload.h"

struct work {
    double flops;
    double bytes;           /* each tensor moved once, of keys and values those that some row sees */
    double ceiling_seconds; /* the device's best; 0: unknown */
    bool is_bound;          /* a mask decides: at most */
};

/* explanation: of the workload. */
enum tool_exit work_count(struct workload *workload, const attune_explanation *explanation, struct work *out_work);

#endif
