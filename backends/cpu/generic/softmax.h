/*
 * core/portable/softmax.h for a strip of rows at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_SOFTMAX_H
#define ATTUNE_GENERIC_SOFTMAX_H

#include "backends/cpu/generic/score.h"
#include "backends/cpu/generic/vector.h"
#include "core/portable/softmax.h"

/* Each lane's state. */
struct generic_softmax {
    float max[ATTUNE_GENERIC_LANES];
    float sum[ATTUNE_GENERIC_LANES];
};

ATTUNE_GENERIC_INLINE generic_vector attune_generic_softmax_base(generic_vector max) {
    return attune_generic_select(max == -ATTUNE_INFINITY, attune_generic_all(0.0f), max);
}

/* Takes in the scores of some keys and leaves weights in their place, relative to the new maximum. out_factor: by what
 * o is multiplied. */
void attune_generic_softmax_add(struct generic_softmax *state, struct generic_span keys, float *score,
                                float *out_factor);

#endif
