/*
 * The state of a row whose keys are processed in parts: what online softmax keeps between tiles, in f32.
 *
 * Scores are natural, not multiplied by log2(e) beforehand: a finite score near -FLT_MAX is an ordinary score, and the
 * product would make it -inf. Only differences of scores are multiplied.
 *
 * Nothing here branches on NaN or infinity, yet the edges of docs/semantics.md come out: a row without a visible key
 * has sum 0; a score of +inf or NaN gives a weight of NaN, which stays in sum. Source: Milakov and Gimelshein, Online
 * normalizer calculation for softmax (arXiv 1805.02867); arXiv 2307.08691, algorithm 1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_SOFTMAX_H
#define ATTUNE_PORTABLE_SOFTMAX_H

#include "core/portable/target.h"

typedef struct attune_softmax {
    float max; /* of the scores seen so far; NaN is passed over, as its weight tells */
    float sum; /* of exp(score - max) over them; 0: no key seen */
} attune_softmax;

#define ATTUNE_LOG2_E 1.44269504088896340736f

ATTUNE_FN attune_softmax attune_softmax_empty(void) {
    attune_softmax state;
    state.max = -ATTUNE_INFINITY;
    state.sum = 0.0f;
    return state;
}

/* What scores are taken relative to. A maximum of -inf would make -inf - -inf, NaN, of an unseen key's score. */
ATTUNE_FN float attune_softmax_base(float max) {
    return max == -ATTUNE_INFINITY ? 0.0f : max;
}

/* exp(score - base): the weight p of a score, 0 for -inf. */
ATTUNE_FN float attune_softmax_weight(float score, float base) {
    return attune_exp2f((score - base) * ATTUNE_LOG2_E);
}

/* Raises the maximum to that of the next scores. Returns the factor by which o is multiplied, as sum is here; the
 * caller then adds the weights of the new scores, relative to base(max), to sum. */
ATTUNE_FN float attune_softmax_raise(attune_softmax *state, float max) {
    const float raised = attune_fmaxf(state->max, max);
    const float factor = attune_softmax_weight(state->max, attune_softmax_base(raised));
    state->max = raised;
    state->sum *= factor;
    return factor;
}

/* The state of one logit, such as a sink or the lse of a finished part: -inf is no logit at all. */
ATTUNE_FN attune_softmax attune_softmax_from_logit(float logit) {
    attune_softmax state;
    state.max = logit;
    /* NaN for NaN and +inf; their max would be lost. */
    state.sum = logit == -ATTUNE_INFINITY ? 0.0f : logit - logit + 1.0f;
    return state;
}

typedef struct attune_softmax_merged {
    attune_softmax state;
    float factor_a; /* by which o of a, not yet divided by its sum, is multiplied */
    float factor_b;
} attune_softmax_merged;

/* The state over the keys of both. Merging with an empty state gives factor 1 and the other's own state. */
ATTUNE_FN attune_softmax_merged attune_softmax_merge(attune_softmax a, attune_softmax b) {
    attune_softmax_merged merged;
    const float max = attune_fmaxf(a.max, b.max);
    const float base = attune_softmax_base(max);
    merged.factor_a = attune_softmax_weight(a.max, base);
    merged.factor_b = attune_softmax_weight(b.max, base);
    merged.state.max = max;
    merged.state.sum = a.sum * merged.factor_a + b.sum * merged.factor_b;
    return merged;
}

typedef struct attune_softmax_result {
    float inverse; /* 1 / sum, by which o is multiplied; 0 for a row without a visible key, whose o is then 0 */
    float lse;     /* natural logarithm; -inf for that row */
} attune_softmax_result;

ATTUNE_FN attune_softmax_result attune_softmax_finish(attune_softmax state) {
    attune_softmax_result result;
    const bool empty = state.sum == 0.0f;
    result.inverse = empty ? 0.0f : 1.0f / state.sum;
    result.lse = empty ? -ATTUNE_INFINITY : state.max + attune_logf(state.sum);
    return result;
}

#endif
