/*
 * The verdict on a run's results: docs/semantics.md, "Accuracy".
 *
 *     |X - G| <= u_out |G| + (1.5 u_P + w_ij) A + t + f,   w_ij = 6 * 2^-24 (8 + 2 sigma_i + a_ij + mean a_i)
 *
 * X is the backend's result and G the oracle's. w_ij is how far, of itself, a weight may be off: sigma_i is the largest
 * |scale| sum_d |q_d k_d| over the keys that row i gives weight to, a_ij what ALiBi takes off the score. u_P is that of
 * the row's declared P dtype; f the output dtype's smallest normal times its u, at least 2^-126. Where A is 0 nothing
 * was added up, so that the result has to be 0 exactly. With P in e4m3 a weight may vanish: t adds 2^-17 to it. NaN and
 * infinity have to be where the oracle has them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_JUDGE_H
#define CONFORM_JUDGE_H

#include "core/portable/philox.h"
#include "oracle.h"
#include "subject.h"

/* The problem in numbers: what the bounds are computed from. */
struct conform_scene {
    const struct conform_problem *problem;
    const struct conform_oracle *oracle;
    double *value[CONFORM_OPERANDS]; /* q, k, v (times descale), o, dout, lse, dlse, sink as stored, by compact index */
    const double *probs;
    double scale;
    double unit_p;
    double weight_floor; /* 2^-17 where P is e4m3 */
    bool flushes;
    bool has_hidden; /* keys that are not finite and that some rows do not see */
    attune_dropout dropout;
    double *row_score_error;  /* 6 * 2^-24 (sigma_i + mean a_i), by compact index of lse */
    double *row_weight_error; /* w_ij without a_ij, likewise */
};

/* What f32 may lose of a score, of the size of its terms. */
#define CONFORM_SCORE_ERROR (6 * 0x1p-24)

/* row: the kernel row that ran. */
void conform_scene_make(const struct conform_oracle *oracle, const attune_kernel_info *row,
                        struct conform_scene *out_scene);
void conform_scene_free(struct conform_scene *scene);

int64_t conform_scene_row(const struct conform_scene *scene, int64_t b, int64_t i); /* of q, o: times heads and D */
int64_t conform_scene_key(const struct conform_scene *scene, int64_t b, int64_t j);
int64_t conform_scene_line(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i); /* of lse */
const double *conform_scene_probs(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i);
double conform_scene_keep(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i, int64_t j); /* Z */

double conform_scene_weight_error(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i,
                                  int64_t j); /* w_ij */

/* Whether the row does not see some key that is not finite: a tiled kernel may then give NaN in it. */
bool conform_scene_row_may_be_nan(const struct conform_scene *scene, int64_t b, int64_t h, int64_t i);
bool conform_scene_key_is_finite(const struct conform_scene *scene, int64_t b, int64_t j, int64_t h_kv);

/* One tensor on trial. */
struct conform_judge {
    struct conform_outcome *outcome;
    attune_operand operand;
    double unit;
    double floor; /* f */
    double largest;
    double error_squares;
    double exact_squares;
    int64_t count;
};

struct conform_judge conform_judge_make(const struct conform_scene *scene, attune_operand operand,
                                        struct conform_outcome *outcome);

/* slack: the bound without u_out |G| and f. axis: of the element, for the sentence. */
bool conform_judge_element(struct conform_judge *judge, double x, double g, double slack, bool may_be_nan,
                           const int64_t axis[4]);

/* The bound on ||X - G|| / ||G||, for normal inputs with Sk > 1, where results are not mostly subnormal. */
bool conform_judge_norm(const struct conform_judge *judge, const struct conform_scene *scene);

bool conform_judge_forward(const struct conform_scene *scene, const struct conform_run *run,
                           struct conform_outcome *outcome);
bool conform_judge_backward(const struct conform_scene *scene, const struct conform_run *run,
                            struct conform_outcome *outcome);

/* Judges all outputs of a run. */
bool conform_judge_run(const struct conform_oracle *oracle, const struct conform_run *run,
                       struct conform_outcome *outcome);

#endif
