/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

/* Activations of all tokens. */
struct state {
    int64_t tokens;
    float *x; /* (tokens, MODEL_WIDTH), as the next four */
    float *q; /* also what a part of a layer adds to x */
    float *k;
    float *v;
    float *o;
    float *hidden; /* (tokens, MODEL_HIDDEN) */
};

static int state_create(int64_t tokens, struct state *out_state) {
    size_t width = (size_t)tokens * MODEL_WIDTH;
    float *memory = calloc(5 * width + (size_t)tokens * MODEL_HIDDEN, sizeof *memory);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        return -1;
    }
    *out_state = (struct state){
        tokens, memory, memory + width, memory + 2 * width, memory + 3 * width, memory + 4 * width, memory + 5 * width};
    return 0;
}

/* Word, position and type, added up and normalised. */
static void embed(const struct model *model, const struct texts *texts, struct state *state) {
    memset(state->x, 0, (size_t)(state->tokens * MODEL_WIDTH) * sizeof *state->x);
    for (int32_t text = 0; text < texts->count; text++) {
        for (int32_t at = texts->offsets[text]; at < texts->offsets[text + 1]; at++) {
            const float *word = model->words + (int64_t)texts->token[at] * MODEL_WIDTH;
            const float *position = model->positions + (int64_t)(at - texts->offsets[text]) * MODEL_WIDTH;
            for (int64_t i = 0; i < MODEL_WIDTH; i++) {
                state->q[(int64_t)at * MODEL_WIDTH + i] = word[i] + position[i] + model->types[i];
            }
        }
    }
    norm_add(&model->norm, state->tokens, state->x, state->q);
}

static int run_layer(const struct layer *layer, struct attention *attention, struct state *state) {
    linear_apply(&layer->query, state->tokens, state->x, state->q);
    linear_apply(&layer->key, state->tokens, state->x, state->k);
    linear_apply(&layer->value, state->tokens, state->x, state->v);
    if (attention_run(attention, state->q, state->k, state->v, state->o)) {
        return -1;
    }
    linear_apply(&layer->output, state->tokens, state->o, state->q);
    norm_add(&layer->attention_norm, state->tokens, state->x, state->q);
    linear_apply(&layer->expand, state->tokens, state->x, state->hidden);
    gelu(state->tokens * MODEL_HIDDEN, state->hidden);
    linear_apply(&layer->contract, state->tokens, state->hidden, state->q);
    norm_add(&layer->output_norm, state->tokens, state->x, state->q);
    return 0;
}

/* The mean of count rows, of length 1. */
static void pool(const float *rows, int64_t count, float *out_embedding) {
    double sum[MODEL_WIDTH] = {0};
    double norm = 0;
    for (int64_t i = 0; i < count * MODEL_WIDTH; i++) {
        sum[i % MODEL_WIDTH] += (double)rows[i];
    }
    for (int64_t i = 0; i < MODEL_WIDTH; i++) {
        norm += sum[i] * sum[i];
    }
    for (int64_t i = 0; i < MODEL_WIDTH; i++) {
        out_embedding[i] = (float)(sum[i] / sqrt(norm));
    }
}

static int run(const struct model *model, const struct texts *texts, struct attention *attention, struct state *state,
               float *out_embeddings) {
    int failed = 0;
    embed(model, texts, state);
    for (int number = 0; !failed && number < MODEL_LAYERS; number++) {
        failed = run_layer(&model->layer[number], attention, state);
    }
    for (int32_t text = 0; !failed && text < texts->count; text++) {
        pool(state->x + (int64_t)texts->offsets[text] * MODEL_WIDTH, texts->offsets[text + 1] - texts->offsets[text],
             out_embeddings + (int64_t)text * MODEL_WIDTH);
    }
    return failed;
}

int model_embed(const struct model *model, const struct texts *texts, float *out_embeddings) {
    struct attention attention;
    struct state state = {0};
    int failed = attention_open(texts, MODEL_HEADS, MODEL_WIDTH / MODEL_HEADS, &attention);
    if (!failed) {
        failed = state_create(texts->offsets[texts->count], &state);
    }
    if (!failed) {
        failed = run(model, texts, &attention, &state, out_embeddings);
    }
    free(state.x);
    attention_close(&attention);
    return failed;
}
