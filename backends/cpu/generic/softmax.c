/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/softmax.h"

#define LANES   ATTUNE_GENERIC_LANES
#define VECTORS ATTUNE_GENERIC_VECTORS
#define UNROLL  ATTUNE_GENERIC_UNROLL

/* The maximum of the state and of the scores; NaN is passed over. */
static void raise_max(struct generic_span keys, const float *score, generic_vector *max) {
    generic_vector raised[VECTORS];
    UNROLL
    for (int n = 0; n < VECTORS; n++) {
        raised[n] = max[n];
    }
    for (int64_t j = keys.begin; j < keys.end; j++) {
        const generic_vector *line = (const generic_vector *)(score + j * LANES);
        UNROLL
        for (int n = 0; n < VECTORS; n++) {
            raised[n] = attune_generic_larger(line[n], raised[n]);
        }
    }
    UNROLL
    for (int n = 0; n < VECTORS; n++) {
        max[n] = raised[n];
    }
}

/* Weights in place of scores; adds them to sum. */
static void weigh(struct generic_span keys, const generic_vector *base, float *score, generic_vector *sum) {
    generic_vector total[VECTORS];
    UNROLL
    for (int n = 0; n < VECTORS; n++) {
        total[n] = attune_generic_all(0.0f);
    }
    for (int64_t j = keys.begin; j < keys.end; j++) {
        generic_vector *line = (generic_vector *)(score + j * LANES);
        UNROLL
        for (int n = 0; n < VECTORS; n++) {
            line[n] = attune_generic_exp(line[n] - base[n]);
            total[n] += line[n];
        }
    }
    UNROLL
    for (int n = 0; n < VECTORS; n++) {
        sum[n] += total[n];
    }
}

void attune_generic_softmax_add(struct generic_softmax *state, struct generic_span keys, float *score,
                                float *out_factor) {
    generic_vector *max = (generic_vector *)state->max;
    generic_vector *sum = (generic_vector *)state->sum;
    generic_vector *factor = (generic_vector *)out_factor;
    generic_vector before[VECTORS];
    generic_vector base[VECTORS];
    for (int n = 0; n < VECTORS; n++) {
        before[n] = max[n];
    }
    raise_max(keys, score, max);
    for (int n = 0; n < VECTORS; n++) {
        base[n] = attune_generic_softmax_base(max[n]);
        factor[n] = attune_generic_exp(before[n] - base[n]);
        sum[n] *= factor[n];
    }
    weigh(keys, base, score, sum);
}
