/*
 * Vectors of any dtype as f32 and back, times their descale, in the kernels' own layouts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_LOAD_H
#define ATTUNE_GENERIC_LOAD_H

#include "backends/cpu/generic/lanes.h"
#include "backends/cpu/reference/vectors.h"

/* Longest vector that there is: D of forward with few rows. */
#define ATTUNE_GENERIC_LENGTH_MAX 576

/* Elements of an array times scale; those past its end up to the next multiple of LANES are 0. */
void attune_generic_load_array(attune_dtype dtype, const void *array, int64_t count, float scale, float *out);
/* Rounds to nearest even. */
void attune_generic_store_array(attune_dtype dtype, void *array, int64_t count, const float *values);

/* The vector at a position, elements past its end up to the next multiple of LANES being 0. */
void attune_generic_load_vector(const struct reference_vectors *vectors, int64_t position, float *out);

/* Asks for vectors first to first + count - 1, to be loaded after some work. */
void attune_generic_prefetch_rows(const struct reference_vectors *vectors, int64_t first, int64_t count);

/* Vectors first to first + count - 1 as rows 0 to count - 1; after them rows of 0 up to the next multiple of BLOCK. */
void attune_generic_load_rows(const struct reference_vectors *vectors, int64_t first, int64_t count,
                              struct generic_matrix out);

/* The vector at a position as one column of a panel: element d goes to out[d * LANES]. */
void attune_generic_load_lane(const struct reference_vectors *vectors, int64_t position, float *out);

void attune_generic_store_vector(const struct reference_vectors *vectors, int64_t position, const float *values);

/* Stores column values[d * LANES] times factor. */
void attune_generic_store_lane(const struct reference_vectors *vectors, int64_t position, const float *values,
                               float factor);

/* Stores rows 0 to count - 1 times factor as vectors first to first + count - 1. */
void attune_generic_store_rows(const struct reference_vectors *vectors, int64_t first, int64_t count,
                               struct generic_matrix rows, float factor);

/* One element of a tensor of any dtype that scores or results have. */
float attune_generic_load_element(attune_dtype dtype, const void *at);
void attune_generic_store_element(attune_dtype dtype, void *at, float value);

#endif
