/*
 * What a problem costs, whatever computes it: operations, bytes, and the time that a device needs at its best.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_COST_H
#define ATTUNE_CORE_COST_H

#include "attune/backend.h"

struct attune_cost {
    double visible_pairs; /* over batches and query heads; 0 for append, merge and quantize */
    bool pairs_are_bound; /* an upper bound: what lies in device memory decides */
    double flops;
    double bytes;          /* what has to be moved: each element once, of a cache only what is used at most */
    uint64_t tensor_bytes; /* of all operands as given; UINT64_MAX if there are more */
};

void attune_cost_estimate(const attune_problem *problem, struct attune_cost *out_cost);

/* Williams et al., Roofline (CACM 52, 2009). */
struct attune_roofline {
    double intensity; /* flops / bytes; 0 without bytes */
    double seconds;   /* 0 unless both peaks are known */
    bool compute_bound;
};

void attune_roofline_estimate(const struct attune_cost *cost, const attune_device_limits *limits,
                              struct attune_roofline *out_roofline);

#endif
