/*
 * Attention without fusion, one head at a time: S = scale Q K^T as a whole, its softmax, O = P V. It is made of the
 * same products and the same exponential as the fused kernel that it is compared with, so that nothing but fusion
 * differs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BENCH_UNFUSED_ATTENTION_H
#define ATTUNE_BENCH_UNFUSED_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

/* Lengths are multiples of this, and head sizes of 16. */
#define UNFUSED_TILE 128

struct unfused {
    int64_t length; /* rows, and keys */
    int64_t head_dim;
    int threads;
    bool causal;
    float *score; /* S, then P */
    float *q;     /* packed for the products */
    float *k;
    float *v;
    float *o;
    uint64_t bytes; /* of all five */
};

/* Seconds that the three steps took; packing counts with the product that it is for. */
struct unfused_times {
    double scores;
    double softmax;
    double values;
};

/* False without memory. length, head_dim, threads and causal are set by the caller. */
bool unfused_create(struct unfused *unfused);
void unfused_release(struct unfused *unfused);

/* q, k, v, o: (length, head_dim), row after row. */
struct unfused_times unfused_run(const struct unfused *unfused, const float *q, const float *k, const float *v,
                                 float *o);

double unfused_now(void);

#endif
