/*
 * docs/semantics.md, "Splitting and merging": states of a row over parts of its keys, in index order.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_COMBINE_H
#define ATTUNE_GENERIC_COMBINE_H

#include "attune/attention.h"
#include "backends/cpu/kernel.h"
#include "core/portable/softmax.h"

/* By what a row's parts are multiplied. */
struct generic_weights {
    float weight[ATTUNE_MERGE_PARTS_MAX]; /* exp(max_n - max). An empty part, whose o may hold anything, is left out */
    float inverse;                        /* of the sum of all; 0 if all parts are empty */
    float lse;
};

/* state: of each part, whose o is not divided by its sum. */
void attune_generic_weigh_parts(const attune_softmax *state, int64_t parts, struct generic_weights *out_weights);

/* The weighted sum of a row's parts. It begins at -0, which leaves every first term as it is: with one part that is not
 * empty, the result is that part's, bit for bit. */
static inline void attune_generic_parts_begin(int64_t length, float *out_sum) {
    for (int64_t d = 0; d < length; d++) {
        out_sum[d] = -0.0f;
    }
}

static inline void attune_generic_parts_add(const float *part, float weight, int64_t length, float *sum) {
    for (int64_t d = 0; d < length; d++) {
        sum[d] += weight * part[d];
    }
}

static inline void attune_generic_parts_finish(const struct generic_weights *weights, int64_t length, float *sum) {
    for (int64_t d = 0; d < length; d++) {
        sum[d] = weights->inverse == 0.0f ? 0.0f : sum[d] * weights->inverse;
    }
}

/* Where a split leaves its state of a row: not o / sum and an lse, in which a large maximum would swallow the sum. */
struct generic_part {
    float *o;
    float *max; /* in partial_lse */
    float *sum; /* at the beginning of the workspace */
};

/* Of the sums of all splits. */
uint64_t attune_generic_parts_bytes(const attune_problem *problem, const attune_schedule *schedule);

struct generic_part attune_generic_part(const struct attune_cpu_run *run, int64_t split, int64_t batch, int64_t head,
                                        int64_t row);

/* Merges what the splits have left into o and lse. */
void attune_generic_combine(const struct attune_cpu_run *run);

#endif
