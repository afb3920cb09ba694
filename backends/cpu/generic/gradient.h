/*
 * docs/semantics.md, "Backward", for a strip of rows and a span of keys: what all gradients are made of.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_GRADIENT_H
#define ATTUNE_GENERIC_GRADIENT_H

#include "backends/cpu/generic/tiles.h"

/* A tile of rows, as panels by strip, and of keys. */
struct generic_gradient {
    struct generic_strip *strip;
    float *q;
    float *dout;
    float *lse;  /* by strip and lane; -inf past the rows in use */
    float *rest; /* dlse_i - D_i */
    struct generic_matrix k;
    struct generic_matrix v;
    float *slope;   /* of a strip: what softcap lets through; NULL: all */
    float *dropout; /* of a strip: Z; NULL: 1 */
};

struct generic_gradient attune_generic_gradient_take(struct reference_scratch *scratch, const attune_problem *problem,
                                                     int64_t rows, int64_t keys);

/* Loads what the rows of a tile have. */
void attune_generic_gradient_load(const struct generic_tile *tile, const struct generic_gradient *gradient);

/* The lines of a strip's pairs: P o Z in out_weight, and in out_grad dS or, if that is asked for, dA. Both are 0 where
 * a row does not see a key, and the weight's 0 is then -0, which no other weight is. */
void attune_generic_gradient_strip(const struct generic_tile *tile, int64_t s, struct generic_span span,
                                   const struct generic_gradient *gradient, bool wants_da, float *out_weight,
                                   float *out_grad);

static inline bool attune_generic_is_seen(float weight) {
    return weight != 0.0f || !__builtin_signbit(weight);
}

/* dlse_i - D_i of every row lies at the start of the workspace. */
uint64_t attune_generic_rests_bytes(const attune_problem *problem);
float *attune_generic_rest_at(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                              int64_t row);

#endif
