/*
 * Whole problems at random: any number of options that may go together, over any small shape.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "case.h"
#include "feature.h"
#include "random.h"

#define RANDOM_CASES 200

static struct conform_options draw_start(struct conform_random *random) {
    static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
    attune_op op = conform_random_below(random, 2) ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
    struct conform_options options = conform_options_make(op, dtypes[conform_random_below(random, 4)]);
    options.batch = 1 + conform_random_below(random, 4);
    options.rows = 1 + conform_random_below(random, 48);
    options.keys = 1 + conform_random_below(random, conform_random_below(random, 8) ? 48 : 260);
    options.heads_q = options.heads_kv = 1 + conform_random_below(random, 4);
    options.head_dim = options.head_dim_v = 1 + conform_random_below(random, 40);
    return options;
}

/* Each option with one chance in six, unless an earlier one excludes it. */
static void draw_features(struct conform_random *random, struct conform_options *options) {
    unsigned groups = 0;
    for (int n = 0; n < conform_feature_count; n++) {
        const struct conform_feature *feature = &conform_features[n];
        bool drawn = conform_random_below(random, 6) == 0;
        if (drawn && conform_feature_is_in(feature, options->op) && !(groups & feature->groups)) {
            feature->apply(options);
            groups |= feature->groups;
        }
    }
}

static void draw_numbers(struct conform_random *random, struct conform_options *options) {
    if (options->window.set) {
        options->window = ATTUNE_WINDOW(conform_random_below(random, 20) - 1, conform_random_below(random, 20) - 1);
    }
    if (options->align == ATTUNE_ALIGN_DIAGONAL) {
        options->diagonal = conform_random_below(random, 60) - 30;
    }
    if (options->page_size > 0) {
        options->page_size = 1 + conform_random_below(random, 20);
    }
    if (options->sparse != CONFORM_SPARSE_NONE) {
        options->block_rows = 1 + conform_random_below(random, 20);
        options->block_keys = 1 + conform_random_below(random, 20);
    }
    if (options->dropout_rate > 0) {
        options->dropout_rate = (double)conform_random_below(random, 1000) / 1000;
    }
    if (options->softcap > 0) {
        options->softcap = 0.5 + (double)conform_random_below(random, 64);
    }
    if (options->splits > 0) {
        options->splits = 1 + (int32_t)conform_random_below(random, 12);
    }
    if (options->tile_rows > 0) {
        options->tile_rows = 16 + (int32_t)conform_random_below(random, 113);
        options->tile_keys = 16 + (int32_t)conform_random_below(random, 113);
    }
}

void conform_list_random(struct conform_list *list, uint64_t seed) {
    struct conform_random random = {seed};
    for (int n = 0; n < RANDOM_CASES; n++) {
        struct conform_options options = draw_start(&random);
        draw_features(&random, &options);
        draw_numbers(&random, &options);
        char detail[16];
        snprintf(detail, sizeof detail, "%03d", n);
        conform_list_add(list, "random", detail, &options);
    }
}
