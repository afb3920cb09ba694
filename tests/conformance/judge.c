/* SPDX-License-Identifier: Apache-2.0 */
#include "judge.h"

#include <math.h>

#include "number.h"

struct conform_judge conform_judge_make(const struct conform_scene *scene, attune_operand operand,
                                        struct conform_outcome *outcome) {
    attune_dtype dtype = scene->problem->tensor[operand].view.dtype;
    struct conform_judge judge = {.outcome = outcome, .operand = operand};
    judge.unit = conform_number_unit(dtype);
    judge.floor = fmax(conform_number_smallest_normal(dtype) * judge.unit, 0x1p-126);
    judge.largest = conform_number_largest(dtype);
    if (scene->flushes && scene->problem->options.values == CONFORM_VALUES_TINY) {
        judge.floor += conform_number_smallest_normal(scene->problem->options.dtype);
    }
    return judge;
}

static bool fail_element(const struct conform_judge *judge, double x, double g, double bound, const int64_t axis[4]) {
    return conform_outcome_fail(judge->outcome,
                                "%s at (%lld, %lld, %lld, %lld) is %.9g where the reference has %.9g: error %.3g, "
                                "bound %.3g",
                                conform_operand_name(judge->operand), (long long)axis[0], (long long)axis[1],
                                (long long)axis[2], (long long)axis[3], x, g, fabs(x - g), bound);
}

bool conform_judge_element(struct conform_judge *judge, double x, double g, double slack, bool may_be_nan,
                           const int64_t axis[4]) {
    if (isnan(x) && (isnan(g) || may_be_nan)) {
        return true;
    }
    if (!isfinite(g)) {
        return x == g || fail_element(judge, x, g, 0, axis);
    }
    bool has_terms = slack > 0 || g != 0; /* terms may be so small that their bound is not */
    double bound = judge->unit * fabs(g) + (has_terms ? slack + judge->floor : 0);
    if (isinf(x) && signbit(x) == signbit(g) && fabs(g) + bound > judge->largest) {
        return true; /* too large for the output's dtype */
    }
    double error = fabs(x - g);
    if (!(error <= bound)) {
        judge->outcome->error_ratio = INFINITY;
        if (bound > 0 && isfinite(error)) {
            judge->outcome->error_ratio = error / bound;
        }
        return fail_element(judge, x, g, bound, axis);
    }
    judge->error_squares += error * error;
    judge->exact_squares += g * g;
    judge->count++;
    if (bound > 0) {
        judge->outcome->error_ratio = fmax(judge->outcome->error_ratio, error / bound);
    }
    return true;
}

/* Over a few elements, or from a few rows, whose weights are rounded once for all elements, a norm may miss the limit
 * by rounding alone: that of one f16 number is up to 2^-11. */
#define NORM_ELEMENTS_MIN 64
#define NORM_ROWS_MIN     32

static bool norm_is_of_many(const struct conform_judge *judge, const struct conform_problem *problem) {
    int64_t rows = 0;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        rows += problem->sequence[b].rows * problem->options.heads_q;
    }
    return judge->count >= NORM_ELEMENTS_MIN && rows >= NORM_ROWS_MIN;
}

bool conform_judge_norm(const struct conform_judge *judge, const struct conform_scene *scene) {
    const struct conform_options *options = &scene->problem->options;
    bool is_normal = options->values == CONFORM_VALUES_NORMAL && options->inject == CONFORM_INJECT_NONE;
    if (!is_normal || options->keys < 2 || judge->exact_squares == 0 || !norm_is_of_many(judge, scene->problem)) {
        return true;
    }
    double error = sqrt(judge->error_squares / judge->exact_squares);
    double limit =
        conform_number_norm_limit(options->dtype) + judge->floor * sqrt((double)judge->count / judge->exact_squares);
    judge->outcome->error_ratio = fmax(judge->outcome->error_ratio, error / limit);
    if (error <= limit) {
        return true;
    }
    return conform_outcome_fail(judge->outcome, "%s has the relative error %.3g in norm, above %.3g",
                                conform_operand_name(judge->operand), error, limit);
}

bool conform_judge_run(const struct conform_oracle *oracle, const struct conform_run *run,
                       struct conform_outcome *outcome) {
    const attune_kernel_info *row = conform_subject_find_kernel(run->subject, run->explanation.kernel);
    if (!row) {
        return conform_outcome_fail(outcome, "explain names the kernel %s, which the device does not list",
                                    run->explanation.kernel);
    }
    struct conform_scene scene;
    conform_scene_make(oracle, row, &scene);
    bool right = oracle->problem->options.op == ATTUNE_OP_BACKWARD ? conform_judge_backward(&scene, run, outcome)
                                                                   : conform_judge_forward(&scene, run, outcome);
    conform_scene_free(&scene);
    return right;
}
