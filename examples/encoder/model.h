/*
 * MiniLM-L6, a BERT of six layers: its weights, and the way from token ids to sentence embeddings.
 *
 * Source: Devlin et al., BERT (arXiv 1810.04805); Reimers and Gurevych, Sentence-BERT (arXiv 1908.10084).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ENCODER_MODEL_H
#define ENCODER_MODEL_H

#include "layers.h"
#include "texts.h"

enum { MODEL_LAYERS = 6, MODEL_WIDTH = 384, MODEL_HEADS = 12, MODEL_HIDDEN = 1536, MODEL_WORDS = 30522 };

struct layer {
    struct linear query;
    struct linear key;
    struct linear value;
    struct linear output; /* of attention */
    struct norm attention_norm;
    struct linear expand;
    struct linear contract;
    struct norm output_norm;
};

struct model {
    float *words;     /* (MODEL_WORDS, MODEL_WIDTH) */
    float *positions; /* (TEXT_TOKENS_MAX, MODEL_WIDTH) */
    float *types;     /* (2, MODEL_WIDTH) */
    struct norm norm;
    struct layer layer[MODEL_LAYERS];
};

/* 0, or -1 after a sentence on stderr; so for all below. Released also after an error. */
int model_load(const char *path, struct model *out_model);
void model_release(struct model *model);

/* One embedding of MODEL_WIDTH for each text: the mean over its tokens, of length 1. */
int model_embed(const struct model *model, const struct texts *texts, float *out_embeddings);

#endif
