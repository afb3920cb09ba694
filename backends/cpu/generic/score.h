/*
 * docs/semantics.md, "The score", "Who sees whom" and "Dropout" for a strip of rows and a span of keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_SCORE_H
#define ATTUNE_GENERIC_SCORE_H

#include "backends/cpu/generic/rows.h"

/* Keys first + begin to first + end - 1: lines begin to end - 1 of an array with one element a lane. Lines from count
 * on are of no key, and fill a block. */
struct generic_span {
    int64_t first;
    int64_t begin;
    int64_t end;
    int64_t count;
};

/* Scores in place of raw ones, scale * q k; -inf where a row does not see the key. */
void attune_generic_score(const struct generic_tile *tile, const struct generic_strip *strip, struct generic_span keys,
                          float *score);

/* ds / draw, what softcap lets through: 1 - tanh^2(raw / softcap), from raw scores. */
void attune_generic_score_slope(const attune_problem *problem, struct generic_span keys, const float *raw, float *out);

/* Z, what dropout multiplies a weight by. */
void attune_generic_dropout(const struct generic_tile *tile, const struct generic_strip *strip,
                            struct generic_span keys, float *out);

#endif
