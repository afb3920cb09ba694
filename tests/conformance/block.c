/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "random.h"

#define GUARD_BYTES 256
#define POISON      0xFF

static void set_strides(struct conform_block *block, int32_t rank, const int64_t *shape, int64_t gap) {
    int64_t step = 1;
    for (int k = 3; k >= 0; k--) {
        block->extent[k] = k < rank ? shape[k] : 1;
        block->stride[k] = k < rank ? step : 0;
        step = k < rank ? step * (shape[k] > 0 ? shape[k] : 1) + (gap > 0 ? gap + 3 - k : 0) : step;
    }
    for (int32_t k = 0; k < rank; k++) {
        block->view.shape[k] = block->extent[k];
        block->view.stride[k] = block->stride[k];
    }
    block->size_bytes = (uint64_t)step;
}

bool conform_block_make(struct conform_subject *subject, attune_dtype dtype, int32_t rank, const int64_t *shape,
                        int64_t gap, struct conform_outcome *outcome, struct conform_block *out_block) {
    memset(out_block, 0, sizeof *out_block);
    out_block->subject = subject;
    out_block->view.dtype = dtype;
    out_block->view.rank = rank;
    out_block->view.byte_offset = GUARD_BYTES;
    set_strides(out_block, rank, shape, gap);
    out_block->size_bytes = out_block->size_bytes * attune_dtype_size_bytes(dtype) + 2 * GUARD_BYTES;
    out_block->image = conform_alloc(out_block->size_bytes, 1);
    out_block->after = conform_alloc(out_block->size_bytes, 1);
    out_block->may_change = conform_alloc(out_block->size_bytes, 1);
    memset(out_block->image, POISON, out_block->size_bytes);
    attune_status status =
        attune_memory_alloc(subject->device, ATTUNE_MEMORY_DEFAULT, out_block->size_bytes, &out_block->data);
    out_block->view.data = out_block->data;
    return conform_outcome_expect_ok(outcome, "attune_memory_alloc", status);
}

void conform_block_free(struct conform_block *block) {
    if (block->subject) {
        conform_subject_wait(block->subject, block->subject->stream);
        attune_memory_free(block->subject->device, block->data);
    }
    free(block->image);
    free(block->after);
    free(block->may_change);
    memset(block, 0, sizeof *block);
}

uint64_t conform_block_at(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    int64_t element = i0 * block->stride[0] + i1 * block->stride[1] + i2 * block->stride[2] + i3 * block->stride[3];
    return block->view.byte_offset + (uint64_t)element * attune_dtype_size_bytes(block->view.dtype);
}

void conform_block_set(struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value) {
    conform_number_store(block->view.dtype, value, block->image + conform_block_at(block, i0, i1, i2, i3));
}

void conform_block_set_integer(struct conform_block *block, int64_t i0, int64_t i1, int32_t value) {
    memcpy(block->image + conform_block_at(block, i0, i1, 0, 0), &value, sizeof value);
}

void conform_block_allow(struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    memset(block->may_change + conform_block_at(block, i0, i1, i2, i3), 1, attune_dtype_size_bytes(block->view.dtype));
}

/* Calls what for every element. */
static void for_each(struct conform_block *block, uint64_t seed,
                     void (*what)(struct conform_block *block, const int64_t at[4], uint64_t key)) {
    uint64_t key = conform_random_mix(seed);
    int64_t at[4];
    for (at[0] = 0; at[0] < block->extent[0]; at[0]++) {
        for (at[1] = 0; at[1] < block->extent[1]; at[1]++) {
            for (at[2] = 0; at[2] < block->extent[2]; at[2]++) {
                for (at[3] = 0; at[3] < block->extent[3]; at[3]++) {
                    what(block, at, key += CONFORM_RANDOM_GAMMA);
                }
            }
        }
    }
}

static void allow_one(struct conform_block *block, const int64_t at[4], uint64_t key) {
    (void)key;
    conform_block_allow(block, at[0], at[1], at[2], at[3]);
}

static void draw_one(struct conform_block *block, const int64_t at[4], uint64_t key) {
    conform_block_set(block, at[0], at[1], at[2], at[3], conform_random_normal(key));
}

void conform_block_allow_all(struct conform_block *block) {
    for_each(block, 0, allow_one);
}

void conform_block_draw(struct conform_block *block, uint64_t seed) {
    for_each(block, seed, draw_one);
}

double conform_block_before(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return conform_number_load(block->view.dtype, block->image + conform_block_at(block, i0, i1, i2, i3));
}

double conform_block_after(const struct conform_block *block, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    return conform_number_load(block->view.dtype, block->after + conform_block_at(block, i0, i1, i2, i3));
}

bool conform_block_upload(struct conform_block *block, struct conform_outcome *outcome) {
    attune_status status =
        attune_memory_copy(block->subject->device, block->subject->stream, ATTUNE_COPY_HOST_TO_DEVICE, block->data, 0,
                           block->image, 0, block->size_bytes);
    return conform_outcome_expect_ok(outcome, "attune_memory_copy", status);
}

bool conform_block_fetch(struct conform_block *block, const char *name, struct conform_outcome *outcome) {
    attune_status status =
        attune_memory_copy(block->subject->device, block->subject->stream, ATTUNE_COPY_DEVICE_TO_HOST, block->after, 0,
                           block->data, 0, block->size_bytes);
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(block->subject->device, block->subject->stream);
    }
    if (!conform_outcome_expect_ok(outcome, "attune_memory_copy", status)) {
        return false;
    }
    for (uint64_t byte = 0; byte < block->size_bytes; byte++) {
        if (!block->may_change[byte] && block->after[byte] != block->image[byte]) {
            return conform_outcome_fail(outcome, "byte %llu of the buffer of %s (%llu bytes) was overwritten",
                                        (unsigned long long)byte, name, (unsigned long long)block->size_bytes);
        }
    }
    return true;
}

bool conform_block_is_rounding(attune_dtype dtype, double x, double exact, double size) {
    if (isnan(exact)) {
        return isnan(x);
    }
    double rounded = conform_number_round(dtype, exact);
    if (!isfinite(rounded)) {
        return x == rounded;
    }
    double spacing = conform_number_smallest_normal(dtype) * 2 * conform_number_unit(dtype); /* of subnormals */
    double half_step = fmax(conform_number_unit(dtype) * fabs(exact), spacing / 2);
    return x == rounded || fabs(x - exact) <= half_step + 4 * 0x1p-24 * size;
}
