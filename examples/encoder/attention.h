/*
 * The encoder's attention, by attune, on whatever device ATTUNE_BACKEND opens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ENCODER_ATTENTION_H
#define ENCODER_ATTENTION_H

#include <attune/attune.h>

#include "texts.h"

/* Device memory for the tokens of all texts, packed one after the other: no row is padding. */
struct attention {
    attune_device *device;
    attune_forward_args args;
    size_t bytes; /* of q, k, v and o each */
};

/* 0, or -1 after a sentence on stderr; so for all below. Closed also after an error. */
int attention_open(const struct texts *texts, int64_t heads, int64_t head_dim, struct attention *out_attention);
void attention_close(struct attention *attention);

/* q, k, v, out_o: (tokens, heads, head_dim) in host memory. */
int attention_run(struct attention *attention, const float *q, const float *k, const float *v, float *out_o);

#endif
