/*
 * Every pair of options that may go together, in both passes, with dtypes and shapes taking turns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "case.h"
#include "feature.h"

struct shape {
    int64_t batch;
    int64_t rows;
    int64_t keys;
    int64_t heads;
    int64_t head_dim;
};

/* Odd in number, so that shapes and the four dtypes meet in every way. */
static const struct shape shapes[] = {
    {2, 13, 21, 2, 16}, {3, 5, 9, 4, 8}, {1, 37, 70, 2, 32}, {3, 21, 13, 2, 24}, {1, 70, 150, 2, 16}};
#define SHAPE_COUNT (int64_t)(sizeof shapes / sizeof shapes[0])

static struct conform_options start_from(attune_op op, int64_t turn) {
    static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
    const struct shape *shape = &shapes[turn % SHAPE_COUNT];
    struct conform_options options = conform_options_make(op, dtypes[turn % 4]);
    options.batch = shape->batch;
    options.rows = shape->rows;
    options.keys = shape->keys;
    options.heads_q = options.heads_kv = shape->heads;
    options.head_dim = options.head_dim_v = shape->head_dim;
    return options;
}

/* Nothing is left to compute without any of dq, dk, dv. */
static bool is_possible(const struct conform_feature *a, const struct conform_feature *b, attune_op op) {
    return conform_feature_is_in(a, op) && conform_feature_is_in(b, op) && (a->groups & b->groups) == 0;
}

void conform_list_pairs(struct conform_list *list) {
    static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};
    int64_t turn = 0;
    for (int p = 0; p < 2; p++) {
        for (int n = 0; n < conform_feature_count; n++) {
            for (int m = n + 1; m < conform_feature_count; m++) {
                const struct conform_feature *a = &conform_features[n];
                const struct conform_feature *b = &conform_features[m];
                if (!is_possible(a, b, passes[p])) {
                    continue;
                }
                struct conform_options options = start_from(passes[p], turn++);
                char detail[64];
                a->apply(&options);
                b->apply(&options);
                snprintf(detail, sizeof detail, "%s+%s", a->name, b->name);
                conform_list_add(list, "pair", detail, &options);
            }
        }
    }
}
