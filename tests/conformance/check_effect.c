/*
 * An option that is accepted has its effect: the result with it is right, and is not the result without it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "check.h"
#include "feature.h"

#define NOTICEABLE 1e-3 /* far above what f32 may be off by in results of order 1 */

static double largest_change(const struct conform_oracle *with, const struct conform_oracle *without,
                             attune_operand operand) {
    const double *a = with->exact[operand];
    const double *b = without->exact[operand];
    int64_t count_a = conform_problem_count_compact(with->problem, operand);
    int64_t count_b = conform_problem_count_compact(without->problem, operand);
    double largest = 0;
    for (int64_t n = 0; a && b && n < count_a && n < count_b; n++) {
        largest = fmax(largest, fabs(a[n] - b[n]));
    }
    return largest;
}

void conform_check_effect(struct conform_context *context) {
    const struct conform_feature *feature = &conform_features[context->test->variant];
    struct conform_options with = context->test->options;
    feature->apply(&with);
    conform_options_settle(&with);
    struct conform_options without = context->test->options;
    without.dtype = with.dtype;
    without.keys = with.keys;
    conform_options_settle(&without);
    struct conform_problem *plain = conform_problem_make(&without, context->seed);
    struct conform_oracle oracle;
    struct conform_solved solved = {0};
    attune_status status = conform_oracle_run(context->subject->cpu, plain, &oracle);
    if (conform_outcome_expect_ok(context->outcome, "the reference", status) &&
        conform_solve(context, &with, &solved)) {
        bool backward = with.op == ATTUNE_OP_BACKWARD;
        double change = 0;
        for (int n = ATTUNE_OPERAND_DQ; backward && n <= ATTUNE_OPERAND_DV; n++) {
            change = fmax(change, largest_change(&solved.oracle, &oracle, (attune_operand)n));
        }
        if (!backward) {
            change = largest_change(&solved.oracle, &oracle, ATTUNE_OPERAND_O);
        }
        if (change < NOTICEABLE) {
            conform_outcome_fail(context->outcome, "%s changes the exact result by %.3g only: the case shows nothing",
                                 feature->name, change);
        }
    }
    conform_solved_free(&solved);
    conform_oracle_free(&oracle);
    conform_problem_free(plain);
}
