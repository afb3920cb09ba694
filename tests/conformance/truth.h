/*
 * What is known of exact results without any kernel: the oracle is held to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_TRUTH_H
#define CONFORM_TRUTH_H

#include "oracle.h"
#include "outcome.h"

/* Whether row i sees key j: lengths, band, mask and block-sparse pattern, from the stored inputs. */
bool conform_truth_is_visible(const struct conform_oracle *oracle, int64_t b, int64_t h, int64_t i, int64_t j);

/* A weight is above 0 exactly where the key is visible, the weights of a row sum to 1 with the sink's, and a row that
 * sees nothing has o = 0 and lse = -inf, or the sink. Says nothing of problems whose bias or logits may hide keys. */
bool conform_truth_weights(const struct conform_oracle *oracle, struct conform_outcome *outcome);

/* An exact value of a row of a head. */
typedef double (*conform_row_value_fn)(const struct conform_options *options, int64_t b, int64_t h, int64_t i);

bool conform_truth_lse(const struct conform_oracle *oracle, conform_row_value_fn expected,
                       struct conform_outcome *outcome);
/* All elements of o's row are the value. */
bool conform_truth_o(const struct conform_oracle *oracle, conform_row_value_fn expected,
                     struct conform_outcome *outcome);

/* Compact indices of results. */
int64_t conform_truth_line(const struct conform_problem *problem, int64_t b, int64_t h, int64_t i);
int64_t conform_truth_row(const struct conform_problem *problem, int64_t b, int64_t h, int64_t i);

#endif
