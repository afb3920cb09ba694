/*
 * Stale bytes: what lies in slots that no sequence uses has no effect on a single bit.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "check.h"
#include "judge.h"
#include "number.h"

static bool run_with(struct conform_context *context, struct conform_problem *problem, double stale,
                     struct conform_run *out_run) {
    conform_problem_set_stale(problem, (enum conform_stale)context->test->variant, stale);
    return conform_run_whole(context->subject, problem, out_run, context->outcome);
}

static bool same_results(const struct conform_run *clean, const struct conform_run *stale, const char *what,
                         struct conform_outcome *outcome) {
    bool same = true;
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        if (conform_problem_writes(clean->problem, (attune_operand)operand) &&
            conform_problem_has(clean->problem, (attune_operand)operand)) {
            same = same && conform_run_check_same_bits(clean, stale, (attune_operand)operand, what, outcome);
        }
    }
    return same;
}

void conform_check_stale(struct conform_context *context) {
    struct conform_problem *problem = conform_problem_make(&context->test->options, context->seed);
    struct conform_oracle oracle;
    struct conform_run clean = {0};
    struct conform_run nan = {0};
    struct conform_run large = {0};
    double largest = fmin(1e30, conform_number_largest(problem->options.dtype));
    attune_status status = conform_oracle_run(context->subject->cpu, problem, &oracle);
    if (conform_outcome_expect_ok(context->outcome, "the reference", status) && run_with(context, problem, 0, &clean) &&
        conform_judge_run(&oracle, &clean, context->outcome) && run_with(context, problem, NAN, &nan) &&
        run_with(context, problem, largest, &large)) {
        (void)(same_results(&clean, &nan, "NaN in place of 0 in unused slots", context->outcome) &&
               same_results(&clean, &large, "large values in place of 0 in unused slots", context->outcome));
    }
    conform_run_end(&large);
    conform_run_end(&nan);
    conform_run_end(&clean);
    conform_oracle_free(&oracle);
    conform_problem_free(problem);
}
