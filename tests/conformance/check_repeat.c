/*
 * Deterministic runs: the same bits every time, with another stream busy and other shapes in between.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

/* What runs besides: another shape on a stream of its own, which is not waited for. */
static bool disturb(struct conform_run *other, int64_t turn, struct conform_outcome *outcome) {
    return turn % 3 == 2 || conform_run_launch(other, outcome);
}

static bool repeat(struct conform_context *context, struct conform_solved *first, struct conform_run *other) {
    struct conform_run again;
    bool right = conform_run_begin(context->subject, first->problem, &again, context->outcome) &&
                 conform_run_explain(&again, context->outcome);
    for (int64_t turn = 0; right && turn < context->test->variant; turn++) {
        right = disturb(other, turn, context->outcome) && conform_run_upload(&again, context->outcome) &&
                conform_run_launch(&again, context->outcome) && conform_run_fetch(&again, context->outcome);
        for (int operand = 0; right && operand < CONFORM_OPERANDS; operand++) {
            bool written = conform_problem_writes(first->problem, (attune_operand)operand) &&
                           conform_problem_has(first->problem, (attune_operand)operand);
            right = !written || conform_run_check_same_bits(&first->run, &again, (attune_operand)operand,
                                                            "a run repeated", context->outcome);
        }
    }
    conform_run_end(&again);
    return right;
}

void conform_check_repeat(struct conform_context *context) {
    struct conform_subject *subject = context->subject;
    struct conform_options other_options = context->test->options;
    struct conform_solved first;
    struct conform_problem *other_problem = NULL;
    struct conform_run other = {0};
    attune_stream *stream = NULL;
    other_options.rows += 7;
    other_options.keys += 11;
    other_options.head_dim = other_options.head_dim_v = 8;
    if (conform_solve(context, &context->test->options, &first) &&
        conform_outcome_expect_ok(context->outcome, "attune_stream_create",
                                  attune_stream_create(subject->device, &stream))) {
        other_problem = conform_problem_make(&other_options, context->seed);
        if (conform_run_begin(subject, other_problem, &other, context->outcome)) {
            other.stream = stream;
            (void)repeat(context, &first, &other);
        }
        conform_subject_wait(subject, stream);
    }
    conform_run_end(&other);
    conform_problem_free(other_problem);
    attune_stream_close(stream);
    conform_solved_free(&first);
}
