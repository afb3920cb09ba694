/*
 * One problem written in two ways.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "judge.h"

/* Solves the case and the other way, and compares all bits. */
static void check_against(struct conform_context *context, const struct conform_options *other, const char *what) {
    struct conform_solved solved;
    struct conform_solved solved_other = {0};
    if (conform_solve(context, &context->test->options, &solved) && conform_solve(context, other, &solved_other)) {
        conform_solved_check_same(&solved, &solved_other, what, context->outcome);
    }
    conform_solved_free(&solved_other);
    conform_solved_free(&solved);
}

void conform_check_extra_rows(struct conform_context *context) {
    struct conform_options other = context->test->options;
    other.extra_rows = 0;
    check_against(context, &other, "rows behind the last sequence");
}

void conform_check_layouts(struct conform_context *context) {
    struct conform_options other = context->test->options;
    other.transposed = 0;
    check_against(context, &other, "another order of axes");
}

void conform_check_page_size(struct conform_context *context) {
    struct conform_options other = context->test->options;
    other.page_size = 0;
    check_against(context, &other, "pages in place of contiguous keys");
}

/* ---- Dropout ---- */

void conform_check_dropped_rows(struct conform_context *context) {
    struct conform_options other = context->test->options;
    struct conform_solved dropped;
    struct conform_solved whole = {0};
    other.dropout_rate = 0;
    if (conform_solve(context, &context->test->options, &dropped) && conform_solve(context, &other, &whole)) {
        double *o = conform_run_result(&dropped.run, ATTUNE_OPERAND_O);
        int64_t zeros = 0;
        int64_t count = conform_problem_count_compact(dropped.problem, ATTUNE_OPERAND_O);
        for (int64_t n = 0; n < count; n++) {
            zeros += o[n] == 0;
        }
        free(o);
        if (zeros == 0) {
            conform_outcome_fail(context->outcome, "no row of o lost all of its keys, at a rate of 0.999");
        } else if (conform_run_is_same_way(&dropped.run, &whole.run)) {
            conform_run_check_same_bits(&dropped.run, &whole.run, ATTUNE_OPERAND_LSE, "with and without dropout",
                                        context->outcome);
        }
    }
    conform_solved_free(&whole);
    conform_solved_free(&dropped);
}

/* ---- Descale ---- */

/* The second problem has descale twice as large. v's makes o twice as large, bit for bit, and leaves lse; k's changes
 * lse. */
static bool check_twice(const struct conform_solved *once, const struct conform_solved *twice, bool is_k,
                        struct conform_outcome *outcome) {
    double *o_once = conform_run_result(&once->run, ATTUNE_OPERAND_O);
    double *o_twice = conform_run_result(&twice->run, ATTUNE_OPERAND_O);
    int64_t count = conform_problem_count_compact(once->problem, ATTUNE_OPERAND_O);
    bool is_linear = conform_run_is_same_way(&once->run, &twice->run) && !is_k;
    int64_t changed = 0;
    bool right = true;
    for (int64_t n = 0; right && n < count; n++) {
        changed += o_once[n] != o_twice[n];
        if (is_linear && o_twice[n] != 2 * o_once[n]) {
            right = conform_outcome_fail(outcome, "o is %.9g, and %.9g with descale_v twice as large", o_once[n],
                                         o_twice[n]);
        }
    }
    if (right && changed == 0) {
        right = conform_outcome_fail(outcome, "descale_%s has no effect on o", is_k ? "k" : "v");
    }
    free(o_twice);
    free(o_once);
    return right && (is_k || !is_linear ||
                     conform_run_check_same_bits(&once->run, &twice->run, ATTUNE_OPERAND_LSE, "descale_v", outcome));
}

void conform_check_descale_twice(struct conform_context *context) {
    bool is_k = context->test->variant == 1;
    attune_operand operand = is_k ? ATTUNE_OPERAND_DESCALE_K : ATTUNE_OPERAND_DESCALE_V;
    struct conform_solved once;
    struct conform_solved twice = {0};
    if (conform_solve(context, &context->test->options, &once)) {
        twice.problem = conform_problem_make(&context->test->options, context->seed);
        conform_problem_multiply(twice.problem, operand, 2);
        if (conform_solve_made(context, &twice)) {
            check_twice(&once, &twice, is_k, context->outcome);
        }
    }
    conform_solved_free(&twice);
    conform_solved_free(&once);
}
