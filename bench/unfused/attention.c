/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "bench/unfused/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/generic/product.h"
#include "backends/cpu/generic/softmax.h"

#define LANES ATTUNE_GENERIC_LANES
#define TILE  UNFUSED_TILE

double unfused_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Memory ---- */

static float *take(struct unfused *unfused, int64_t rows, int64_t columns) {
    const size_t bytes = (size_t)(rows * columns) * sizeof(float);
    unfused->bytes += bytes;
    return aligned_alloc(64, bytes);
}

bool unfused_create(struct unfused *unfused) {
    const int64_t length = unfused->length;
    unfused->bytes = 0;
    unfused->score = take(unfused, length, length);
    unfused->q = take(unfused, length, unfused->head_dim);
    unfused->k = take(unfused, length, unfused->head_dim);
    unfused->v = take(unfused, length, unfused->head_dim);
    unfused->o = take(unfused, length, unfused->head_dim);
    const bool has_all = unfused->score && unfused->q && unfused->k && unfused->v && unfused->o;
    if (!has_all) {
        unfused_release(unfused);
    }
    return has_all;
}

void unfused_release(struct unfused *unfused) {
    free(unfused->score);
    free(unfused->q);
    free(unfused->k);
    free(unfused->v);
    free(unfused->o);
    unfused->score = unfused->q = unfused->k = unfused->v = unfused->o = NULL;
}

/* ---- Packing ---- */

/* A tile of rows as a matrix in panels. */
static struct generic_matrix tile_of(const struct unfused *unfused, float *packed, int64_t tile) {
    return (struct generic_matrix){packed + tile * TILE * unfused->head_dim, TILE};
}

static void pack_rows(const struct unfused *unfused, const float *from, float *packed) {
#pragma omp parallel for num_threads(unfused->threads)
    for (int64_t row = 0; row < unfused->length; row++) {
        const struct generic_matrix tile = tile_of(unfused, packed, row / TILE);
        for (int64_t d = 0; d < unfused->head_dim; d += LANES) {
            memcpy(attune_generic_at(tile, d / LANES, row % TILE), from + row * unfused->head_dim + d,
                   LANES * sizeof(float));
        }
    }
}

/* LANES rows side by side. */
static float *strip_of(const struct unfused *unfused, float *packed, int64_t strip) {
    return packed + strip * unfused->head_dim * LANES;
}

static void pack_strip(const struct unfused *unfused, const float *from, int64_t strip) {
    float *to = strip_of(unfused, unfused->q, strip);
    for (int64_t d = 0; d < unfused->head_dim; d++) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            to[d * LANES + lane] = from[(strip * LANES + lane) * unfused->head_dim + d];
        }
    }
}

static void unpack_strip(const struct unfused *unfused, int64_t strip, float *to) {
    const float *from = strip_of(unfused, unfused->o, strip);
    for (int64_t lane = 0; lane < LANES; lane++) {
        for (int64_t d = 0; d < unfused->head_dim; d++) {
            to[(strip * LANES + lane) * unfused->head_dim + d] = from[d * LANES + lane];
        }
    }
}

/* ---- Products ----
 *
 * In tiles of rows and keys, so that K and V, and what is packed of Q and O, come from caches. */

#define TILE_STRIPS (TILE / LANES)

/* Scores of a strip's rows and a tile's keys. */
static float *score_of(const struct unfused *unfused, int64_t strip, int64_t tile) {
    return unfused->score + (strip * unfused->length + tile * TILE) * LANES;
}

static void find_scores(const struct unfused *unfused, const float *q, const float *k) {
    const int64_t tiles = unfused->length / TILE;
    const float scale = 1.0F / sqrtf((float)unfused->head_dim);
    pack_rows(unfused, k, unfused->k);
#pragma omp parallel for num_threads(unfused->threads) schedule(dynamic)
    for (int64_t rows = 0; rows < tiles; rows++) {
        for (int64_t strip = rows * TILE_STRIPS; strip < (rows + 1) * TILE_STRIPS; strip++) {
            pack_strip(unfused, q, strip);
        }
        for (int64_t keys = 0; keys < tiles; keys++) {
            for (int64_t strip = rows * TILE_STRIPS; strip < (rows + 1) * TILE_STRIPS; strip++) {
                attune_generic_multiply(tile_of(unfused, unfused->k, keys), 0, TILE,
                                        strip_of(unfused, unfused->q, strip), unfused->head_dim, LANES, scale,
                                        score_of(unfused, strip, keys));
            }
        }
    }
}

static void find_values(const struct unfused *unfused, const float *v, float *o) {
    const int64_t tiles = unfused->length / TILE;
    const int64_t head_dim = unfused->head_dim;
    pack_rows(unfused, v, unfused->v);
#pragma omp parallel for num_threads(unfused->threads) schedule(dynamic)
    for (int64_t rows = 0; rows < tiles; rows++) {
        memset(strip_of(unfused, unfused->o, rows * TILE_STRIPS), 0, (size_t)(TILE * head_dim) * sizeof(float));
        for (int64_t keys = 0; keys < tiles; keys++) {
            for (int64_t strip = rows * TILE_STRIPS; strip < (rows + 1) * TILE_STRIPS; strip++) {
                attune_generic_multiply_transposed(tile_of(unfused, unfused->v, keys), 0, TILE,
                                                   score_of(unfused, strip, keys), head_dim, LANES, attune_generic_keep,
                                                   strip_of(unfused, unfused->o, strip));
            }
        }
        for (int64_t strip = rows * TILE_STRIPS; strip < (rows + 1) * TILE_STRIPS; strip++) {
            unpack_strip(unfused, strip, o);
        }
    }
}

/* ---- Softmax ---- */

/* Of whole rows: like a product, a softmax does not know what a mask will hide. */
static void softmax_strip(const struct unfused *unfused, int64_t strip) {
    float *score = score_of(unfused, strip, 0);
    const int64_t first = strip * LANES;
    const int64_t end = unfused->length;
    struct generic_softmax state;
    float factor[LANES];
    for (int64_t lane = 0; lane < LANES; lane++) {
        state.max[lane] = -ATTUNE_INFINITY;
        state.sum[lane] = 0.0F;
    }
    for (int64_t j = first + 1; j < end && unfused->causal; j++) {
        for (int64_t lane = 0; lane < LANES && first + lane < j; lane++) {
            score[j * LANES + lane] = -ATTUNE_INFINITY;
        }
    }
    attune_generic_softmax_add(&state, (struct generic_span){0, 0, end, end}, score, factor);
    for (int64_t lane = 0; lane < LANES; lane++) {
        factor[lane] = 1.0F / state.sum[lane];
    }
    for (int64_t j = 0; j < end; j++) {
        for (int64_t lane = 0; lane < LANES; lane++) {
            score[j * LANES + lane] *= factor[lane];
        }
    }
}

static void find_weights(const struct unfused *unfused) {
#pragma omp parallel for num_threads(unfused->threads) schedule(dynamic)
    for (int64_t strip = 0; strip < unfused->length / LANES; strip++) {
        softmax_strip(unfused, strip);
    }
}

/* ---- All of it ---- */

struct unfused_times unfused_run(const struct unfused *unfused, const float *q, const float *k, const float *v,
                                 float *o) {
    const double began = unfused_now();
    find_scores(unfused, q, k);
    const double scored = unfused_now();
    find_weights(unfused);
    const double weighed = unfused_now();
    find_values(unfused, v, o);
    return (struct unfused_times){scored - began, weighed - scored, unfused_now() - weighed};
}
