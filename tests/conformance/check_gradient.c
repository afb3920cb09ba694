/*
 * The reference's gradients against central differences of its own forward in f64; then the backend against both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "judge.h"

#define STEP      0x1p-9 /* exact in f32 on values of order 1 */
#define TOLERANCE 2e-4   /* third derivatives times the step's square */

/* sum(o dout) + sum(lse dlse), whose gradients backward gives. */
static double loss(const struct conform_oracle *oracle) {
    const float *dout = oracle->stored[ATTUNE_OPERAND_DOUT];
    const float *dlse = oracle->stored[ATTUNE_OPERAND_DLSE];
    const double *o = oracle->exact[ATTUNE_OPERAND_O];
    const double *lse = oracle->exact[ATTUNE_OPERAND_LSE];
    double sum = 0;
    for (int64_t n = 0; n < conform_problem_count_compact(oracle->problem, ATTUNE_OPERAND_O); n++) {
        sum += o[n] * (double)dout[n];
    }
    for (int64_t n = 0; dlse && n < conform_problem_count_compact(oracle->problem, ATTUNE_OPERAND_LSE); n++) {
        sum += lse[n] > -INFINITY ? lse[n] * (double)dlse[n] : 0; /* an empty row has no gradient */
    }
    return sum;
}

static bool difference(struct conform_context *context, struct conform_oracle *oracle, float *value,
                       double *out_slope) {
    float before = *value;
    double losses[2];
    double at[2];
    bool right = true;
    for (int side = 0; right && side < 2; side++) {
        *value = before + (float)(side ? STEP : -STEP);
        at[side] = (double)*value;
        right = conform_outcome_expect_ok(context->outcome, "the reference",
                                          conform_oracle_forward(context->subject->cpu, oracle));
        losses[side] = loss(oracle);
    }
    *value = before;
    *out_slope = right ? (losses[1] - losses[0]) / (at[1] - at[0]) : 0;
    return right;
}

/* Every stride-th element of an input against its gradient. */
static bool check_operand(struct conform_context *context, struct conform_oracle *oracle, attune_operand input,
                          attune_operand gradient, int64_t stride) {
    float *values = oracle->stored[input];
    const double *exact = oracle->exact[gradient];
    for (int64_t n = 0; n < conform_problem_count_compact(oracle->problem, input); n += stride) {
        double slope;
        if (isinf(values[n])) {
            continue; /* no sink */
        }
        if (!difference(context, oracle, &values[n], &slope)) {
            return false;
        }
        if (fabs(slope - exact[n]) > TOLERANCE * fmax(1, fabs(exact[n]))) {
            return conform_outcome_fail(context->outcome, "the reference: %s[%lld] is %.9g, and %.9g by differences",
                                        conform_operand_name(gradient), (long long)n, exact[n], slope);
        }
    }
    return true;
}

void conform_check_differences(struct conform_context *context) {
    struct conform_solved solved;
    if (conform_solve(context, &context->test->options, &solved)) {
        (void)(check_operand(context, &solved.oracle, ATTUNE_OPERAND_SINK, ATTUNE_OPERAND_DSINK, 1) &&
               check_operand(context, &solved.oracle, ATTUNE_OPERAND_Q, ATTUNE_OPERAND_DQ, 7) &&
               check_operand(context, &solved.oracle, ATTUNE_OPERAND_K, ATTUNE_OPERAND_DK, 7) &&
               check_operand(context, &solved.oracle, ATTUNE_OPERAND_V, ATTUNE_OPERAND_DV, 7));
    }
    conform_solved_free(&solved);
}
