/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "judge.h"

/* A row's sums over its keys: slack of o for each d. */
static void row_slack(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i, double *out_slack) {
    const struct conform_options *options = &scene->problem->options;
    const struct conform_sequence *sequence = &scene->problem->sequence[b];
    const double *probs = conform_scene_probs(scene, b, h, i);
    int64_t h_kv = h / (options->heads_q / options->heads_kv);
    for (int64_t d = 0; d < options->head_dim_v; d++) {
        out_slack[d] = 0;
    }
    for (int64_t j = sequence->leftpad; j < sequence->keys; j++) {
        double keep = probs[j] > 0 ? conform_scene_keep(scene, b, h, i, j) : 0;
        if (keep == 0) {
            continue;
        }
        double error = 1.5 * scene->unit_p + conform_scene_weight_error(scene, b, h, i, j);
        double weight = (error * probs[j] + scene->weight_floor) * keep;
        const double *v = scene->value[ATTUNE_OPERAND_V] +
                          (conform_scene_key(scene, b, j) * options->heads_kv + h_kv) * options->head_dim_v;
        for (int64_t d = 0; d < options->head_dim_v; d++) {
            out_slack[d] += weight * fabs(v[d]);
        }
    }
}

/* Calls row for every row and head that exists. */
struct trial {
    const struct conform_scene *scene;
    struct conform_judge judge;
    const double *x;
    const double *g;
    double *slack;
};

typedef bool (*row_fn)(struct trial *trial, int64_t b, int64_t h, int64_t i);

static bool for_each_row(struct trial *trial, row_fn row) {
    const struct conform_problem *problem = trial->scene->problem;
    bool right = true;
    for (int64_t b = 0; right && b < problem->options.batch; b++) {
        for (int64_t h = 0; right && h < problem->options.heads_q; h++) {
            for (int64_t i = 0; right && i < problem->sequence[b].rows; i++) {
                right = row(trial, b, h, i);
            }
        }
    }
    return right;
}

static bool judge_o_row(struct trial *trial, int64_t b, int64_t h, int64_t i) {
    const struct conform_options *options = &trial->scene->problem->options;
    int64_t at = (conform_scene_row(trial->scene, b, i) * options->heads_q + h) * options->head_dim_v;
    bool may_be_nan = conform_scene_row_may_be_nan(trial->scene, b, h, i);
    row_slack(trial->scene, b, h, i, trial->slack);
    bool right = true;
    for (int64_t d = 0; right && d < options->head_dim_v; d++) {
        const int64_t axis[4] = {b, i, h, d};
        right =
            conform_judge_element(&trial->judge, trial->x[at + d], trial->g[at + d], trial->slack[d], may_be_nan, axis);
    }
    return right;
}

static bool judge_lse_row(struct trial *trial, int64_t b, int64_t h, int64_t i) {
    int64_t at = conform_scene_line(trial->scene, b, h, i);
    double g = trial->g[at];
    double size = fabs(g);
    double bound =
        trial->scene->problem->options.dtype == ATTUNE_DTYPE_F32 ? 1e-5 * fmax(1, size) : 1e-3 * fmax(1, size / 1000);
    bound += trial->scene->row_score_error[at];
    const int64_t axis[4] = {b, h, i, 0};
    bool may_be_nan = conform_scene_row_may_be_nan(trial->scene, b, h, i);
    return conform_judge_element(&trial->judge, trial->x[at], g, bound - trial->judge.unit * size, may_be_nan, axis);
}

static bool judge_probs_row(struct trial *trial, int64_t b, int64_t h, int64_t i) {
    const struct conform_scene *scene = trial->scene;
    const struct conform_sequence *sequence = &scene->problem->sequence[b];
    const double *g = conform_scene_probs(scene, b, h, i);
    const double *x = trial->x + (g - scene->probs);
    bool may_be_nan = conform_scene_row_may_be_nan(scene, b, h, i);
    bool right = true;
    for (int64_t j = sequence->leftpad; right && j < sequence->keys; j++) {
        const int64_t axis[4] = {b, h, i, j};
        double slack = conform_scene_weight_error(scene, b, h, i, j) * g[j];
        right = conform_judge_element(&trial->judge, x[j], g[j], slack, may_be_nan, axis);
    }
    return right;
}

static bool judge_output(const struct conform_scene *scene, const struct conform_run *run, attune_operand operand,
                         row_fn row, bool has_norm, struct conform_outcome *outcome) {
    if (!conform_problem_has(scene->problem, operand)) {
        return true;
    }
    double *x = conform_run_result(run, operand);
    struct trial trial = {scene, conform_judge_make(scene, operand, outcome), x, scene->oracle->exact[operand], NULL};
    trial.slack = conform_alloc((uint64_t)scene->problem->options.head_dim_v, sizeof(double));
    bool right = for_each_row(&trial, row) && (!has_norm || conform_judge_norm(&trial.judge, scene));
    free(trial.slack);
    free(x);
    return right;
}

bool conform_judge_forward(const struct conform_scene *scene, const struct conform_run *run,
                           struct conform_outcome *outcome) {
    return judge_output(scene, run, ATTUNE_OPERAND_LSE, judge_lse_row, false, outcome) &&
           judge_output(scene, run, ATTUNE_OPERAND_O, judge_o_row, true, outcome) &&
           judge_output(scene, run, ATTUNE_OPERAND_PROBS, judge_probs_row, false, outcome);
}
