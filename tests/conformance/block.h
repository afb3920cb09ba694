/*
 * A tensor alone in guarded device memory: what append, merge and quantize are tested with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_BLOCK_H
#define CONFORM_BLOCK_H

#include "subject.h"

/* Elements are named by four indices; those that the tensor lacks are 0. */
struct conform_block {
    struct conform_subject *subject;
    attune_tensor view;
    int64_t extent[4];
    int64_t stride[4];
    void *data;
    uint64_t size_bytes;
    uint8_t *image; /* poison where nothing was stored */
    uint8_t *after;
    uint8_t *may_change;
};

/* gap: elements between lines of the last axis, and one more for each axis further out. */
bool conform_block_make(struct conform_subject *subject, attune_dtype dtype, int32_t rank, const int64_t *shape,
                        int64_t gap, struct conform_outcome *outcome, struct conform_block *out_block);
void conform_block_free(struct conform_block *block);

uint64_t conform_block_at(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
void conform_block_set(struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value);
void conform_block_set_integer(struct conform_block *block, int64_t i0, int64_t i1, int32_t value);
void conform_block_allow(struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
void conform_block_allow_all(struct conform_block *block);
/* Fills with standard normal values. */
void conform_block_draw(struct conform_block *block, uint64_t seed);

double conform_block_before(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3);
double conform_block_after(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

bool conform_block_upload(struct conform_block *block, struct conform_outcome *outcome);
/* Copies back, waits, and fails unless all that may not change is what it was. name: for the sentence. */
bool conform_block_fetch(struct conform_block *block, const char *name, struct conform_outcome *outcome);

/* Whether x is the rounding of exact to dtype, up to size times a few units of f32. */
bool conform_block_is_rounding(attune_dtype dtype, double x, double exact, double size);

#endif
