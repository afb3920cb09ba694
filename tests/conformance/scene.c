/*
 * The problem in numbers, for the judge.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "number.h"

/* ---- Where things lie in compact tensors ---- */

int64_t conform_scene_row(const struct conform_scene *scene, int64_t b, int64_t i) {
    const struct conform_problem *problem = scene->problem;
    return (problem->options.q.ragged ? problem->sequence[b].row_first : b * problem->rows_total) + i;
}

int64_t conform_scene_key(const struct conform_scene *scene, int64_t b, int64_t j) {
    const struct conform_problem *problem = scene->problem;
    return (problem->options.k.ragged ? problem->sequence[b].key_first : b * problem->keys_total) + j;
}

int64_t conform_scene_line(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i) {
    const struct conform_problem *problem = scene->problem;
    if (problem->options.q.ragged) {
        return h * problem->rows_total + problem->sequence[b].row_first + i;
    }
    return (b * problem->options.heads_q + h) * problem->rows_total + i;
}

const double *conform_scene_probs(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i) {
    const struct conform_problem *problem = scene->problem;
    return scene->probs + ((b * problem->options.heads_q + h) * problem->longest_rows + i) * problem->longest_keys;
}

double conform_scene_keep(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i, int64_t j) {
    double rate = scene->problem->options.dropout_rate;
    if (rate == 0) {
        return 1;
    }
    return attune_dropout_keeps(scene->dropout, b, h, i, j) ? 1 / (1 - rate) : 0;
}

/* ---- Values ---- */

static double descale_at(const struct conform_scene *scene, attune_operand operand, int64_t b, int64_t s,
                         int64_t h_kv) {
    const struct conform_tensor *tensor = &scene->problem->tensor[operand];
    const float *descale = scene->oracle->stored[operand];
    switch (scene->problem->options.descale) {
    case CONFORM_DESCALE_NONE:
        return 1;
    case CONFORM_DESCALE_ONE:
        return descale[0];
    case CONFORM_DESCALE_BLOCKS:
        return descale[(b * tensor->extent[1] + h_kv) * tensor->extent[2] + s / 128];
    default:
        return descale[b * tensor->extent[1] + h_kv];
    }
}

struct reader {
    struct conform_scene *scene;
    attune_operand operand;
    attune_dtype dtype;
    size_t size;
    double *value;
};

static void read_element(void *context, const struct conform_element *element) {
    const struct reader *reader = context;
    const uint8_t *stored = reader->scene->oracle->stored[reader->operand];
    const struct conform_options *options = &reader->scene->problem->options;
    double value = conform_number_load(reader->dtype, stored + (uint64_t)element->compact * reader->size);
    if (reader->operand <= ATTUNE_OPERAND_V) {
        int64_t group = reader->operand == ATTUNE_OPERAND_Q ? options->heads_q / options->heads_kv : 1;
        attune_operand descale = (attune_operand)(ATTUNE_OPERAND_DESCALE_Q + reader->operand);
        value *= descale_at(reader->scene, descale, element->axis[0], element->axis[1], element->axis[2] / group);
    }
    reader->value[element->compact] = value;
}

static void read_values(struct conform_scene *scene, attune_operand operand) {
    if (!scene->oracle->stored[operand]) {
        return;
    }
    attune_dtype dtype = scene->problem->tensor[operand].view.dtype;
    int64_t count = conform_problem_count_compact(scene->problem, operand);
    scene->value[operand] = conform_alloc((uint64_t)count, sizeof(double));
    struct reader reader = {scene, operand, dtype, attune_dtype_size_bytes(dtype), scene->value[operand]};
    conform_problem_visit(scene->problem, operand, read_element, &reader);
}

/* ---- How far scores and weights may be off ---- */

/* slope |i + shift - j| */
static double alibi_at(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i, int64_t j) {
    const struct conform_problem *problem = scene->problem;
    const struct conform_tensor *slopes = &problem->tensor[ATTUNE_OPERAND_ALIBI_SLOPES];
    const float *slope = scene->oracle->stored[ATTUNE_OPERAND_ALIBI_SLOPES];
    if (!slope) {
        return 0;
    }
    int64_t distance = i + conform_problem_shift(problem, &problem->sequence[b]) - j;
    int64_t line = (slopes->extent[0] > 1 ? b : 0) * slopes->extent[1] + h;
    return fabs((double)slope[line] * (double)distance);
}

/* The mean over what the row sees, by weight. */
static double row_alibi(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i) {
    const double *probs = conform_scene_probs(scene, b, h, i);
    double mean = 0;
    for (int64_t j = scene->problem->sequence[b].leftpad; j < scene->problem->sequence[b].keys; j++) {
        mean += probs[j] > 0 ? probs[j] * alibi_at(scene, b, h, i, j) : 0;
    }
    return mean;
}

static double row_sigma(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i) {
    const struct conform_options *options = &scene->problem->options;
    int64_t dim = options->head_dim;
    const double *q = scene->value[ATTUNE_OPERAND_Q] + (conform_scene_row(scene, b, i) * options->heads_q + h) * dim;
    const double *probs = conform_scene_probs(scene, b, h, i);
    int64_t h_kv = h / (options->heads_q / options->heads_kv);
    double sigma = 0;
    for (int64_t j = scene->problem->sequence[b].leftpad; j < scene->problem->sequence[b].keys; j++) {
        const double *k =
            scene->value[ATTUNE_OPERAND_K] + (conform_scene_key(scene, b, j) * options->heads_kv + h_kv) * dim;
        double sum = 0;
        for (int64_t d = 0; d < dim && probs[j] > 0; d++) {
            sum += fabs(q[d] * k[d]);
        }
        /* An infinite product has lost nothing, and softcap makes its own size of it. */
        sigma = fmax(sigma, isfinite(sum) ? sum * fabs(scene->scale) : options->softcap);
    }
    return sigma;
}

static void fill_row_errors(struct conform_scene *scene) {
    const struct conform_options *options = &scene->problem->options;
    uint64_t lines = (uint64_t)(options->batch * options->heads_q * scene->problem->rows_total);
    scene->row_score_error = conform_alloc(lines, sizeof(double));
    scene->row_weight_error = conform_alloc(lines, sizeof(double));
    for (int64_t b = 0; b < options->batch; b++) {
        for (int64_t h = 0; h < options->heads_q; h++) {
            for (int64_t i = 0; i < scene->problem->sequence[b].rows; i++) {
                int64_t line = conform_scene_line(scene, b, h, i);
                double sigma = row_sigma(scene, b, h, i);
                double alibi = row_alibi(scene, b, h, i);
                scene->row_score_error[line] = CONFORM_SCORE_ERROR * (sigma + alibi);
                scene->row_weight_error[line] = CONFORM_SCORE_ERROR * (8 + 2 * sigma + alibi);
            }
        }
    }
}

double conform_scene_weight_error(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i, int64_t j) {
    return scene->row_weight_error[conform_scene_line(scene, b, h, i)] +
           CONFORM_SCORE_ERROR * alibi_at(scene, b, h, i, j);
}

static attune_dropout dropout_of(const struct conform_problem *problem) {
    attune_attention_args args = conform_options_args(&problem->options);
    attune_dropout dropout;
    memset(&dropout, 0, sizeof dropout);
    dropout.seed = problem->dropout_seed;
    dropout.offset = problem->dropout_offset;
    dropout.threshold = attune_dropout_threshold(args.dropout_rate);
    dropout.batch_origin = args.batch_origin;
    dropout.head_origin = args.head_origin;
    dropout.row_origin = args.row_origin;
    dropout.key_origin = args.key_origin;
    dropout.heads_total = args.heads_total ? args.heads_total : problem->options.heads_q;
    return dropout;
}

void conform_scene_make(const struct conform_oracle *oracle, const attune_kernel_info *row,
                        struct conform_scene *out_scene) {
    static const attune_operand read[] = {ATTUNE_OPERAND_Q,    ATTUNE_OPERAND_K,   ATTUNE_OPERAND_V,
                                          ATTUNE_OPERAND_O,    ATTUNE_OPERAND_LSE, ATTUNE_OPERAND_DOUT,
                                          ATTUNE_OPERAND_DLSE, ATTUNE_OPERAND_SINK};
    const struct conform_options *options = &oracle->problem->options;
    memset(out_scene, 0, sizeof *out_scene);
    out_scene->problem = oracle->problem;
    out_scene->oracle = oracle;
    out_scene->probs = oracle->exact[ATTUNE_OPERAND_PROBS];
    out_scene->scale = options->has_scale || options->scale != 0 ? options->scale : 1 / sqrt((double)options->head_dim);
    out_scene->unit_p = row->p_dtype == ATTUNE_DTYPE_NONE ? 0x1p-24 : conform_number_unit(row->p_dtype);
    out_scene->weight_floor = row->p_dtype == ATTUNE_DTYPE_E4M3 ? 0x1p-17 : 0;
    out_scene->flushes = row->flushes_subnormals;
    out_scene->has_hidden =
        options->inject >= CONFORM_INJECT_K_HIDDEN_NAN && options->inject <= CONFORM_INJECT_V_HIDDEN_INFINITE;
    out_scene->dropout = dropout_of(oracle->problem);
    for (size_t n = 0; n < sizeof read / sizeof read[0]; n++) {
        read_values(out_scene, read[n]);
    }
    fill_row_errors(out_scene);
}

void conform_scene_free(struct conform_scene *scene) {
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        free(scene->value[operand]);
    }
    free(scene->row_score_error);
    free(scene->row_weight_error);
}

/* ---- Keys that are not finite ---- */

bool conform_scene_key_is_finite(const struct conform_scene *scene, int64_t b, int64_t j, int64_t h_kv) {
    const struct conform_options *options = &scene->problem->options;
    int64_t at = conform_scene_key(scene, b, j) * options->heads_kv + h_kv;
    for (int64_t d = 0; d < options->head_dim; d++) {
        if (!isfinite(scene->value[ATTUNE_OPERAND_K][at * options->head_dim + d])) {
            return false;
        }
    }
    for (int64_t d = 0; d < options->head_dim_v; d++) {
        if (!isfinite(scene->value[ATTUNE_OPERAND_V][at * options->head_dim_v + d])) {
            return false;
        }
    }
    return true;
}

bool conform_scene_row_may_be_nan(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i) {
    const struct conform_options *options = &scene->problem->options;
    const double *probs = conform_scene_probs(scene, b, h, i);
    int64_t h_kv = h / (options->heads_q / options->heads_kv);
    for (int64_t j = scene->problem->sequence[b].leftpad; scene->has_hidden && j < scene->problem->sequence[b].keys;
         j++) {
        if (probs[j] == 0 && !conform_scene_key_is_finite(scene, b, j, h_kv)) {
            return true;
        }
    }
    return false;
}
