/* SPDX-License-Identifier: Apache-2.0 */
#include "truth.h"

#include <math.h>

#define TOLERANCE 1e-9 /* of f64 results on inputs that are exact */

int64_t conform_truth_line(const struct conform_problem *problem, int64_t b, int64_t h, int64_t i) {
    if (problem->options.q.ragged) {
        return h * problem->rows_total + problem->sequence[b].row_first + i;
    }
    return (b * problem->options.heads_q + h) * problem->rows_total + i;
}

int64_t conform_truth_row(const struct conform_problem *problem, int64_t b, int64_t h, int64_t i) {
    int64_t row = problem->options.q.ragged ? problem->sequence[b].row_first + i : b * problem->rows_total + i;
    return (row * problem->options.heads_q + h) * problem->options.head_dim_v;
}

/* ---- Who sees whom ---- */

static bool mask_shows(const struct conform_oracle *oracle, int64_t b, int64_t h, int64_t i, int64_t j) {
    const uint8_t *mask = oracle->stored[ATTUNE_OPERAND_MASK];
    const int64_t *extent = oracle->problem->tensor[ATTUNE_OPERAND_MASK].extent;
    if (!mask) {
        return true;
    }
    int64_t line = (extent[0] > 1 ? b : 0) * extent[1] + (extent[1] > 1 ? h : 0);
    return mask[(line * extent[2] + (extent[2] > 1 ? i : 0)) * extent[3] + (extent[3] > 1 ? j : 0)] != 0;
}

static bool block_is_listed(const struct conform_problem *problem, int64_t h, int64_t i, int64_t j) {
    if (problem->options.sparse == CONFORM_SPARSE_NONE) {
        return true;
    }
    int64_t head = problem->options.sparse == CONFORM_SPARSE_HEADS ? h : 0;
    const int32_t *row_ptr =
        problem->block_row_ptr + head * (problem->block_rows_count + 1) + i / problem->options.block_rows;
    for (int32_t n = row_ptr[0]; n < row_ptr[1]; n++) {
        if (problem->block_col_idx[n] == j / problem->options.block_keys) {
            return true;
        }
    }
    return false;
}

bool conform_truth_is_visible(const struct conform_oracle *oracle, int64_t b, int64_t h, int64_t i, int64_t j) {
    const struct conform_problem *problem = oracle->problem;
    const struct conform_sequence *sequence = &problem->sequence[b];
    return j >= sequence->leftpad && j < sequence->keys && conform_problem_in_band(problem, sequence, i, j) &&
           mask_shows(oracle, b, h, i, j) && block_is_listed(problem, h, i, j);
}

/* ---- Weights ---- */

static bool fail_row(struct conform_outcome *outcome, const char *what, int64_t b, int64_t h, int64_t i, double found,
                     double expected) {
    return conform_outcome_fail(outcome, "the reference: %s of batch %lld, head %lld, row %lld is %.17g, not %.17g",
                                what, (long long)b, (long long)h, (long long)i, found, expected);
}

static double sink_of(const struct conform_oracle *oracle, int64_t h) {
    const float *sink = oracle->stored[ATTUNE_OPERAND_SINK];
    return sink ? (double)sink[h] : -INFINITY;
}

static bool row_is_empty_right(const struct conform_oracle *oracle, int64_t b, int64_t h, int64_t i,
                               struct conform_outcome *outcome) {
    double lse = oracle->exact[ATTUNE_OPERAND_LSE][conform_truth_line(oracle->problem, b, h, i)];
    if (lse != sink_of(oracle, h)) {
        return fail_row(outcome, "lse", b, h, i, lse, sink_of(oracle, h));
    }
    const double *o = oracle->exact[ATTUNE_OPERAND_O] + conform_truth_row(oracle->problem, b, h, i);
    for (int64_t d = 0; d < oracle->problem->options.head_dim_v; d++) {
        if (o[d] != 0) {
            return fail_row(outcome, "o", b, h, i, o[d], 0);
        }
    }
    return true;
}

static bool row_weights_right(const struct conform_oracle *oracle, int64_t b, int64_t h, int64_t i,
                              struct conform_outcome *outcome) {
    const struct conform_problem *problem = oracle->problem;
    const double *probs = oracle->exact[ATTUNE_OPERAND_PROBS] +
                          ((b * problem->options.heads_q + h) * problem->longest_rows + i) * problem->longest_keys;
    double lse = oracle->exact[ATTUNE_OPERAND_LSE][conform_truth_line(problem, b, h, i)];
    double sum = 0;
    int64_t seen = 0;
    for (int64_t j = 0; j < problem->sequence[b].keys; j++) {
        bool visible = conform_truth_is_visible(oracle, b, h, i, j);
        if (visible != (probs[j] > 0)) {
            return fail_row(outcome,
                            visible ? "the weight of a key that it sees" : "the weight of a key hidden from it", b, h,
                            i, probs[j], visible);
        }
        sum += probs[j];
        seen += visible;
    }
    if (seen == 0) {
        return row_is_empty_right(oracle, b, h, i, outcome);
    }
    double expected = 1 - exp(sink_of(oracle, h) - lse);
    return fabs(sum - expected) <= TOLERANCE || fail_row(outcome, "the sum of weights", b, h, i, sum, expected);
}

bool conform_truth_weights(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    const struct conform_problem *problem = oracle->problem;
    const struct conform_options *options = &problem->options;
    bool says_nothing = options->values == CONFORM_VALUES_LARGE ||
                        (options->inject != CONFORM_INJECT_NONE && options->inject != CONFORM_INJECT_MASK_ROW);
    for (int64_t b = 0; !says_nothing && b < options->batch; b++) {
        for (int64_t h = 0; h < options->heads_q; h++) {
            for (int64_t i = 0; i < problem->sequence[b].rows; i++) {
                if (!row_weights_right(oracle, b, h, i, outcome)) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* ---- Closed forms ---- */

static bool is_close(double found, double expected) {
    return found == expected || fabs(found - expected) <= TOLERANCE * fmax(1, fabs(expected));
}

bool conform_truth_lse(const struct conform_oracle *oracle, conform_row_value_fn expected,
                       struct conform_outcome *outcome) {
    const struct conform_problem *problem = oracle->problem;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        for (int64_t h = 0; h < problem->options.heads_q; h++) {
            for (int64_t i = 0; i < problem->sequence[b].rows; i++) {
                double lse = oracle->exact[ATTUNE_OPERAND_LSE][conform_truth_line(problem, b, h, i)];
                if (!is_close(lse, expected(&problem->options, b, h, i))) {
                    return fail_row(outcome, "lse", b, h, i, lse, expected(&problem->options, b, h, i));
                }
            }
        }
    }
    return true;
}

bool conform_truth_o(const struct conform_oracle *oracle, conform_row_value_fn expected,
                     struct conform_outcome *outcome) {
    const struct conform_problem *problem = oracle->problem;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        for (int64_t h = 0; h < problem->options.heads_q; h++) {
            for (int64_t i = 0; i < problem->sequence[b].rows; i++) {
                const double *o = oracle->exact[ATTUNE_OPERAND_O] + conform_truth_row(problem, b, h, i);
                double value = expected(&problem->options, b, h, i);
                for (int64_t d = 0; d < problem->options.head_dim_v; d++) {
                    if (!is_close(o[d], value)) {
                        return fail_row(outcome, "o", b, h, i, o[d], value);
                    }
                }
            }
        }
    }
    return true;
}
