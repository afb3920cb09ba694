/*
 * The options of attention, one by one, so that they can be paired and mixed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_FEATURE_H
#define CONFORM_FEATURE_H

#include "options.h"

#define CONFORM_PASS_FORWARD  1u
#define CONFORM_PASS_BACKWARD 2u
#define CONFORM_PASS_BOTH     3u

struct conform_feature {
    const char *name;
    unsigned passes;
    unsigned
        groups; /* features that share a bit exclude each other: they set the same option, or the API forbids both */
    bool is_result; /* changes what the result is, not only how it is computed or where it lies */
    void (*apply)(struct conform_options *options);
};

extern const struct conform_feature conform_features[];
extern const int conform_feature_count;

/* Whether the feature exists in the pass. */
bool conform_feature_is_in(const struct conform_feature *feature, attune_op op);

#endif
