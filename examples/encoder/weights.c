/*
 * The model's weights, from the file that the framework reads too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"
#include "safetensors.h"

enum { NAME_BYTES = 96 };

/* Where weights are read from: names begin with prefix, of layer number. */
struct source {
    const struct safetensors *file;
    char prefix[NAME_BYTES];
};

static float *read_matrix(const struct source *source, const char *name, int64_t rows, int64_t columns) {
    char whole_name[2 * NAME_BYTES];
    float *values = malloc((size_t)(rows * columns) * sizeof *values);
    snprintf(whole_name, sizeof whole_name, "%s%s", source->prefix, name);
    if (values && safetensors_read(source->file, whole_name, rows, columns, values) == 0) {
        return values;
    }
    free(values);
    return NULL;
}

static float *read_pair(const struct source *source, const char *name, const char *part, int64_t rows,
                        int64_t columns) {
    char pair_name[NAME_BYTES];
    snprintf(pair_name, sizeof pair_name, "%s.%s", name, part);
    return read_matrix(source, pair_name, rows, columns);
}

/* The file has (outputs, inputs). */
static float *transpose(float *matrix, int64_t rows, int64_t columns) {
    float *turned = matrix ? malloc((size_t)(rows * columns) * sizeof *turned) : NULL;
    for (int64_t i = 0; turned && i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            turned[j * rows + i] = matrix[i * columns + j];
        }
    }
    free(matrix);
    return turned;
}

static int read_linear(const struct source *source, const char *name, int64_t inputs, int64_t outputs,
                       struct linear *out_linear) {
    out_linear->inputs = inputs;
    out_linear->outputs = outputs;
    out_linear->weight = transpose(read_pair(source, name, "weight", outputs, inputs), outputs, inputs);
    out_linear->bias = read_pair(source, name, "bias", 1, outputs);
    return out_linear->weight && out_linear->bias ? 0 : -1;
}

static int read_norm(const struct source *source, const char *name, struct norm *out_norm) {
    out_norm->width = MODEL_WIDTH;
    out_norm->weight = read_pair(source, name, "weight", 1, MODEL_WIDTH);
    out_norm->bias = read_pair(source, name, "bias", 1, MODEL_WIDTH);
    return out_norm->weight && out_norm->bias ? 0 : -1;
}

static int read_layer(const struct safetensors *file, int number, struct layer *out_layer) {
    struct source source = {.file = file};
    snprintf(source.prefix, sizeof source.prefix, "encoder.layer.%d.", number);
    int failed = read_linear(&source, "attention.self.query", MODEL_WIDTH, MODEL_WIDTH, &out_layer->query);
    failed |= read_linear(&source, "attention.self.key", MODEL_WIDTH, MODEL_WIDTH, &out_layer->key);
    failed |= read_linear(&source, "attention.self.value", MODEL_WIDTH, MODEL_WIDTH, &out_layer->value);
    failed |= read_linear(&source, "attention.output.dense", MODEL_WIDTH, MODEL_WIDTH, &out_layer->output);
    failed |= read_norm(&source, "attention.output.LayerNorm", &out_layer->attention_norm);
    failed |= read_linear(&source, "intermediate.dense", MODEL_WIDTH, MODEL_HIDDEN, &out_layer->expand);
    failed |= read_linear(&source, "output.dense", MODEL_HIDDEN, MODEL_WIDTH, &out_layer->contract);
    return failed | read_norm(&source, "output.LayerNorm", &out_layer->output_norm);
}

static int read_embeddings(const struct safetensors *file, struct model *model) {
    struct source source = {.file = file, .prefix = "embeddings."};
    model->words = read_matrix(&source, "word_embeddings.weight", MODEL_WORDS, MODEL_WIDTH);
    model->positions = read_matrix(&source, "position_embeddings.weight", TEXT_TOKENS_MAX, MODEL_WIDTH);
    model->types = read_matrix(&source, "token_type_embeddings.weight", 2, MODEL_WIDTH);
    int failed = read_norm(&source, "LayerNorm", &model->norm);
    return !failed && model->words && model->positions && model->types ? 0 : -1;
}

int model_load(const char *path, struct model *out_model) {
    struct safetensors file = {0};
    int failed = safetensors_open(path, &file);
    if (!failed) {
        failed = read_embeddings(&file, out_model);
    }
    for (int number = 0; !failed && number < MODEL_LAYERS; number++) {
        failed = read_layer(&file, number, &out_model->layer[number]);
    }
    safetensors_close(&file);
    return failed ? -1 : 0;
}

static void release_linear(struct linear *linear) {
    free(linear->weight);
    free(linear->bias);
}

static void release_norm(struct norm *norm) {
    free(norm->weight);
    free(norm->bias);
}

static void release_layer(struct layer *layer) {
    struct linear *linears[] = {&layer->query,  &layer->key,    &layer->value,
                                &layer->output, &layer->expand, &layer->contract};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        release_linear(linears[i]);
    }
    release_norm(&layer->attention_norm);
    release_norm(&layer->output_norm);
}

void model_release(struct model *model) {
    for (int number = 0; number < MODEL_LAYERS; number++) {
        release_layer(&model->layer[number]);
    }
    release_norm(&model->norm);
    free(model->types);
    free(model->positions);
    free(model->words);
    *model = (struct model){0};
}
