/*
 * What the files of forward share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_FORWARD_H
#define ATTUNE_GENERIC_FORWARD_H

#include "backends/cpu/generic/softmax.h"
#include "backends/cpu/generic/tiles.h"

/* What a thread works with. */
struct generic_forward {
    struct generic_strip *strip;
    struct generic_softmax *state; /* of each strip */
    float *inverse;                /* 1 / l of each row, by strip and lane; 0 where nothing is seen */
    float *q;                      /* panels of the tile's rows */
    float *o;
    struct generic_matrix k;
    struct generic_matrix v;
    float *score; /* of a strip; then weights */
    float *dropout;
};

/* Scores of strip s, from its q and the k that are loaded. */
void attune_generic_forward_score(const struct generic_tile *tile, int64_t s, struct generic_span span,
                                  const struct generic_forward *scratch);

/* Stores p / l over every key of the sequence, if it is wanted: a second walk over the keys. */
void attune_generic_store_probs(const struct generic_tile *tile, const struct generic_forward *scratch);

#endif
