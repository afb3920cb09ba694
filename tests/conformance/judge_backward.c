/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "judge.h"

/* What each gradient may be off by, by compact index; and how much of dS cancels. */
struct slacks {
    const struct conform_scene *scene;
    double *of[CONFORM_OPERANDS]; /* NULL: not asked for */
    double term_squares;          /* sum of (P Z dP)^2 + (P D)^2 + (P dlse)^2 */
    double sum_squares;           /* sum of dS^2 */
};

/* One row of one head, while its keys are walked through. */
struct row {
    int64_t b;
    int64_t h;
    int64_t i;
    int64_t h_kv;
    int64_t line; /* of lse */
    const double *q;
    const double *dout;
    double delta;      /* D_i */
    double delta_size; /* sum_d |do o| */
    double dlse;
    double *dq_slack; /* NULL: not asked for */
};

static const double *values_at(const struct conform_scene *scene, attune_operand operand, int64_t index,
                               int64_t width) {
    return scene->value[operand] + index * width;
}

static double *slack_at(const struct slacks *slacks, attune_operand operand, int64_t index) {
    return slacks->of[operand] ? slacks->of[operand] + index : NULL;
}

static struct row row_begin(const struct slacks *slacks, int64_t b, int64_t h, int64_t i) {
    const struct conform_scene *scene = slacks->scene;
    const struct conform_options *options = &scene->problem->options;
    int64_t at = conform_scene_row(scene, b, i) * options->heads_q + h;
    struct row row = {.b = b, .h = h, .i = i, .h_kv = h / (options->heads_q / options->heads_kv)};
    row.line = conform_scene_line(scene, b, h, i);
    row.q = values_at(scene, ATTUNE_OPERAND_Q, at, options->head_dim);
    row.dout = values_at(scene, ATTUNE_OPERAND_DOUT, at, options->head_dim_v);
    const double *o = values_at(scene, ATTUNE_OPERAND_O, at, options->head_dim_v);
    for (int64_t d = 0; d < options->head_dim_v; d++) {
        row.delta += row.dout[d] * o[d];
        row.delta_size += fabs(row.dout[d] * o[d]);
    }
    row.dlse = scene->value[ATTUNE_OPERAND_DLSE] ? scene->value[ATTUNE_OPERAND_DLSE][row.line] : 0;
    row.dq_slack = slack_at(slacks, ATTUNE_OPERAND_DQ, at * options->head_dim);
    return row;
}

static void add_dsink(const struct slacks *slacks, const struct row *row) {
    double *slack = slack_at(slacks, ATTUNE_OPERAND_DSINK, row->h);
    if (!slack) {
        return;
    }
    double sink = slacks->scene->value[ATTUNE_OPERAND_SINK][row->h];
    double lse = slacks->scene->value[ATTUNE_OPERAND_LSE][row->line];
    double error = 1.5 * slacks->scene->unit_p + slacks->scene->row_weight_error[row->line];
    if (sink != -INFINITY) {
        *slack += error * exp(sink - lse) * (fabs(row->dlse) + row->delta_size);
    }
}

static void add_dbias(const struct slacks *slacks, const struct row *row, int64_t j, double weight) {
    const int64_t *extent = slacks->scene->problem->tensor[ATTUNE_OPERAND_DBIAS].extent;
    if (slacks->of[ATTUNE_OPERAND_DBIAS]) {
        int64_t line = (extent[0] > 1 ? row->b : 0) * extent[1] + (extent[1] > 1 ? row->h : 0);
        int64_t at = (line * extent[2] + (extent[2] > 1 ? row->i : 0)) * extent[3] + (extent[3] > 1 ? j : 0);
        slacks->of[ATTUNE_OPERAND_DBIAS][at] += weight;
    }
}

static void note_cancellation(struct slacks *slacks, const struct row *row, double p, double dp, double raw) {
    double softcap = slacks->scene->problem->options.softcap;
    double slope = softcap > 0 ? 1 - pow(tanh(raw / softcap), 2) : 1;
    double ds = slope * p * (dp - row->delta + row->dlse);
    slacks->term_squares += p * p * (dp * dp + row->delta * row->delta + row->dlse * row->dlse);
    slacks->sum_squares += ds * ds;
}

static void add_key(struct slacks *slacks, const struct row *row, int64_t j, double p) {
    const struct conform_scene *scene = slacks->scene;
    const struct conform_options *options = &scene->problem->options;
    int64_t at = conform_scene_key(scene, row->b, j) * options->heads_kv + row->h_kv;
    const double *k = values_at(scene, ATTUNE_OPERAND_K, at, options->head_dim);
    const double *v = values_at(scene, ATTUNE_OPERAND_V, at, options->head_dim_v);
    double keep = conform_scene_keep(scene, row->b, row->h, row->i, j);
    double error = 1.5 * scene->unit_p + conform_scene_weight_error(scene, row->b, row->h, row->i, j);
    double weight = error * p + scene->weight_floor;
    double *dv_slack = slack_at(slacks, ATTUNE_OPERAND_DV, at * options->head_dim_v);
    double *dk_slack = slack_at(slacks, ATTUNE_OPERAND_DK, at * options->head_dim);
    double dp = 0;
    double dp_size = 0;
    double raw = 0;
    for (int64_t d = 0; d < options->head_dim_v; d++) {
        dp += row->dout[d] * v[d];
        dp_size += fabs(row->dout[d] * v[d]);
        if (dv_slack) {
            dv_slack[d] += weight * keep * fabs(row->dout[d]);
        }
    }
    double a = weight * (keep * dp_size + row->delta_size + fabs(row->dlse));
    add_dbias(slacks, row, j, a);
    a *= fabs(scene->scale);
    for (int64_t d = 0; d < options->head_dim; d++) {
        raw += scene->scale * row->q[d] * k[d];
        if (row->dq_slack) {
            row->dq_slack[d] += a * fabs(k[d]);
        }
        if (dk_slack) {
            dk_slack[d] += a * fabs(row->q[d]);
        }
    }
    note_cancellation(slacks, row, p, keep * dp, raw);
}

static void add_rows(struct slacks *slacks) {
    const struct conform_problem *problem = slacks->scene->problem;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        for (int64_t h = 0; h < problem->options.heads_q; h++) {
            for (int64_t i = 0; i < problem->sequence[b].rows; i++) {
                struct row row = row_begin(slacks, b, h, i);
                const double *probs = conform_scene_probs(slacks->scene, b, h, i);
                add_dsink(slacks, &row);
                for (int64_t j = problem->sequence[b].leftpad; j < problem->sequence[b].keys; j++) {
                    if (probs[j] > 0) {
                        add_key(slacks, &row, j, probs[j]);
                    }
                }
            }
        }
    }
}

/* ---- Comparing ---- */

struct trial {
    const struct slacks *slacks;
    struct conform_judge judge;
    const double *x;
    bool right;
};

/* What a key that is not finite may spoil besides its own rows of dk and dv: dq of the rows that do not see it. */
static bool may_be_nan(const struct conform_scene *scene, attune_operand operand, const int64_t axis[4]) {
    if (!scene->has_hidden) {
        return false;
    }
    switch (operand) {
    case ATTUNE_OPERAND_DQ:
        return conform_scene_row_may_be_nan(scene, axis[0], axis[2], axis[1]);
    case ATTUNE_OPERAND_DK:
    case ATTUNE_OPERAND_DV:
        return !conform_scene_key_is_finite(scene, axis[0], axis[1], axis[2]);
    default:
        return false;
    }
}

static void judge_element(void *context, const struct conform_element *element) {
    struct trial *trial = context;
    const struct conform_scene *scene = trial->slacks->scene;
    if (element->in_no_sequence || !trial->right) {
        return;
    }
    int64_t at = element->compact;
    trial->right = conform_judge_element(&trial->judge, trial->x[at], scene->oracle->exact[trial->judge.operand][at],
                                         trial->slacks->of[trial->judge.operand][at],
                                         may_be_nan(scene, trial->judge.operand, element->axis), element->axis);
}

/* The norm says something of dq and dk only where they are more than what is left of larger terms: a row that sees one
 * key has dS = 0 and nothing but rounding. */
static bool norm_applies(const struct slacks *slacks, attune_operand operand) {
    if (operand == ATTUNE_OPERAND_DV) {
        return true;
    }
    bool is_main = operand == ATTUNE_OPERAND_DQ || operand == ATTUNE_OPERAND_DK;
    return is_main && slacks->term_squares <= 4 * slacks->sum_squares;
}

static bool judge_gradient(const struct slacks *slacks, const struct conform_run *run, attune_operand operand,
                           struct conform_outcome *outcome) {
    double *x = conform_run_result(run, operand);
    struct trial trial = {slacks, conform_judge_make(slacks->scene, operand, outcome), x, true};
    conform_problem_visit(slacks->scene->problem, operand, judge_element, &trial);
    if (trial.right && norm_applies(slacks, operand)) {
        trial.right = conform_judge_norm(&trial.judge, slacks->scene);
    }
    free(x);
    return trial.right;
}

bool conform_judge_backward(const struct conform_scene *scene, const struct conform_run *run,
                            struct conform_outcome *outcome) {
    struct slacks slacks = {.scene = scene};
    bool right = true;
    for (int n = ATTUNE_OPERAND_DQ; n <= ATTUNE_OPERAND_DSINK; n++) {
        if (conform_problem_has(scene->problem, (attune_operand)n)) {
            int64_t count = conform_problem_count_compact(scene->problem, (attune_operand)n);
            slacks.of[n] = conform_alloc((uint64_t)count, sizeof(double));
        }
    }
    add_rows(&slacks);
    for (int n = ATTUNE_OPERAND_DQ; right && n <= ATTUNE_OPERAND_DSINK; n++) {
        right = !slacks.of[n] || judge_gradient(&slacks, run, (attune_operand)n, outcome);
    }
    for (int n = ATTUNE_OPERAND_DQ; n <= ATTUNE_OPERAND_DSINK; n++) {
        free(slacks.of[n]);
    }
    return right;
}
