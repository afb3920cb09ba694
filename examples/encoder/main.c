/*
 * A whole transformer encoder, MiniLM-L6, with attune for attention: sentence embeddings of texts, held to those that a
 * framework gave.
 *
 *     encoder WEIGHTS.safetensors TEXTS.json EMBEDDINGS.safetensors
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "model.h"
#include "safetensors.h"

#define ERROR_LIMIT 1e-4 /* of any element of an embedding of length 1 */

static float got[TEXTS_MAX * MODEL_WIDTH], expected[TEXTS_MAX * MODEL_WIDTH];
static struct texts texts;

static int read_expected(const char *path) {
    struct safetensors file = {0};
    int failed = safetensors_open(path, &file);
    if (!failed) {
        failed = safetensors_read(&file, "embeddings", texts.count, MODEL_WIDTH, expected);
    }
    safetensors_close(&file);
    return failed;
}

static double compare(void) {
    double worst = 0;
    for (int32_t text = 0; text < texts.count; text++) {
        double error = 0;
        for (int64_t i = (int64_t)text * MODEL_WIDTH; i < (int64_t)(text + 1) * MODEL_WIDTH; i++) {
            double difference = fabs((double)got[i] - (double)expected[i]);
            error = difference <= error ? error : difference; /* NaN is kept */
        }
        printf("text %d, %3d tokens: the embedding differs by %.1e at most\n", text + 1,
               texts.offsets[text + 1] - texts.offsets[text], error);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

int main(int argc, char **argv) {
    struct model model = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: encoder WEIGHTS.safetensors TEXTS.json EMBEDDINGS.safetensors\n");
        return 2;
    }
    int failed = texts_load(argv[2], MODEL_WORDS, &texts);
    if (!failed) {
        failed = read_expected(argv[3]);
    }
    if (!failed) {
        failed = model_load(argv[1], &model);
    }
    if (!failed) {
        failed = model_embed(&model, &texts, got);
    }
    model_release(&model);
    if (failed) {
        return 1;
    }
    return compare() <= ERROR_LIMIT ? 0 : 1;
}
