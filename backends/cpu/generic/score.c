/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/score.h"

#include "attune/backend_util.h"
#include "backends/cpu/generic/listed.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/generic/vector.h"
#include "backends/cpu/reference/operand.h"

#define LANES   ATTUNE_GENERIC_LANES
#define VECTORS ATTUNE_GENERIC_VECTORS
#define UNROLL  ATTUNE_GENERIC_UNROLL

/* ---- Softcap ---- */

static void add_softcap(float softcap, struct generic_span keys, float *score) {
    generic_vector *vector = (generic_vector *)score;
    for (int64_t n = keys.begin * VECTORS; n < keys.end * VECTORS; n++) {
        vector[n] = softcap * attune_generic_tanh(vector[n] / softcap);
    }
}

void attune_generic_score_slope(const attune_problem *problem, struct generic_span keys, const float *raw, float *out) {
    const float softcap = attune_f32_softcap(problem);
    const generic_vector *from = (const generic_vector *)raw;
    generic_vector *to = (generic_vector *)out;
    for (int64_t n = keys.begin * VECTORS; n < keys.end * VECTORS; n++) {
        const generic_vector t = attune_generic_tanh(from[n] / softcap);
        to[n] = 1.0f - t * t;
    }
}

/* ---- Bias ---- */

static void add_bias(const struct reference_plane *plane, const struct generic_strip *strip, struct generic_span keys,
                     float *score) {
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        const char *at = strip->bias[lane] + (keys.first + keys.begin) * plane->stride_key_bytes;
        for (int64_t j = keys.begin; j < keys.end; j++) {
            score[j * LANES + lane] += attune_generic_load_element(plane->dtype, at);
            at += plane->stride_key_bytes;
        }
    }
}

/* ---- ALiBi ---- */

static void add_alibi(const struct generic_strip *strip, int64_t shift, struct generic_span keys, float *score) {
    double diagonal[LANES]; /* where i + shift lies, counted from the span's first key */
    for (int lane = 0; lane < LANES; lane++) {
        diagonal[lane] = (double)(strip->row[lane] + shift - keys.first);
    }
    for (int64_t j = keys.begin; j < keys.end; j++) {
        float *line = score + j * LANES;
        ATTUNE_GENERIC_SIMD
        for (int lane = 0; lane < LANES; lane++) {
            line[lane] -= strip->slope[lane] * (float)__builtin_fabs(diagonal[lane] - (double)j);
        }
    }
}

/* ---- Who sees whom ---- */

/* Hides what is outside of what each lane may see, and what is no key. */
static void hide_outside(const struct generic_strip *strip, struct generic_span keys, float *score) {
    int32_t begin[LANES];
    int32_t end[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        begin[lane] = (int32_t)attune_clamp(strip->seen[lane].begin - keys.first, 0, keys.count);
        end[lane] = (int32_t)attune_clamp(strip->seen[lane].end - keys.first, 0, keys.count);
    }
    const generic_bits *from = (const generic_bits *)begin;
    const generic_bits *to = (const generic_bits *)end;
    for (int64_t j = keys.begin; j < keys.end; j++) {
        generic_vector *line = (generic_vector *)(score + j * LANES);
        UNROLL
        for (int n = 0; n < VECTORS; n++) {
            const generic_bits seen = (from[n] <= (int32_t)j) & (to[n] > (int32_t)j);
            line[n] = attune_generic_select(seen, line[n], attune_generic_all(-ATTUNE_INFINITY));
        }
    }
}

static void hide_masked(const struct reference_plane *plane, const struct generic_strip *strip,
                        struct generic_span keys, float *score) {
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        const char *at = strip->mask[lane] + (keys.first + keys.begin) * plane->stride_key_bytes;
        for (int64_t j = keys.begin; j < keys.end; j++) {
            if (*at == 0) {
                score[j * LANES + lane] = -ATTUNE_INFINITY;
            }
            at += plane->stride_key_bytes;
        }
    }
}

/* ---- All of it ---- */

/* Without what is there only to fill a block: no tensor is read for it. */
static struct generic_span span_cut(struct generic_span keys, attune_interval own) {
    keys.end = attune_min(keys.end, keys.count);
    keys.begin = attune_clamp(own.begin - keys.first, keys.begin, keys.end);
    keys.end = attune_clamp(own.end - keys.first, keys.begin, keys.end);
    return keys;
}

void attune_generic_score(const struct generic_tile *tile, const struct generic_strip *strip, struct generic_span keys,
                          float *score) {
    const attune_problem *problem = tile->run->problem;
    const struct generic_span own = span_cut(keys, strip->keys);
    if (problem->softcap > 0) {
        add_softcap(attune_f32_softcap(problem), keys, score);
    }
    if (tile->first.bias.first != NULL) {
        add_bias(&tile->first.bias, strip, own, score);
    }
    if (attune_reference_has(tile->run, ATTUNE_OPERAND_ALIBI_SLOPES)) {
        add_alibi(strip, tile->first.sequence.mask.shift, keys, score);
    }
    if (keys.first + keys.begin < strip->common.begin || keys.first + keys.end > strip->common.end ||
        keys.end > keys.count) {
        hide_outside(strip, keys, score);
    }
    if (tile->first.mask.first != NULL) {
        hide_masked(&tile->first.mask, strip, own, score);
    }
    if (problem->block_rows > 0) {
        attune_generic_hide_unlisted(tile, strip, own, score);
    }
}

/* ---- Dropout ---- */

/* One lane: a counter serves four neighbouring positions. */
static void dropout_lane(const attune_dropout *dropout, int64_t batch, int64_t head, int64_t row,
                         struct generic_span keys, float kept, float *out) {
    attune_philox_words words = {{0}};
    int64_t counter = -1;
    for (int64_t j = keys.begin; j < keys.end; j++) {
        const int64_t position = dropout->key_origin + keys.first + j;
        if (position / 4 != counter) {
            counter = position / 4;
            words = attune_dropout_words(*dropout, batch, head, row, counter);
        }
        out[j * LANES] = attune_dropout_keeps_word(*dropout, words.word[position % 4]) ? kept : 0.0f;
    }
}

void attune_generic_dropout(const struct generic_tile *tile, const struct generic_strip *strip,
                            struct generic_span keys, float *out) {
    const float kept = (float)(1.0 / (1.0 - tile->run->problem->dropout_rate));
    for (int64_t lane = 0; lane < LANES; lane++) {
        dropout_lane(&tile->first.dropout, tile->first.sequence.batch, strip->head[lane], strip->row[lane], keys, kept,
                     out + lane);
    }
}
