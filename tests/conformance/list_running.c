/*
 * How calls run: streams, threads, and every kernel row in every way that it claims.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend.h"
#include "check.h"
#include "feature.h"

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
#define DTYPE_COUNT (sizeof dtypes / sizeof dtypes[0])

void conform_list_running(struct conform_list *list) {
    for (size_t n = 0; n < 2 * DTYPE_COUNT; n++) {
        attune_op op = n % 2 ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
        struct conform_options options = conform_options_make(op, dtypes[n / 2]);
        options.heads_q = 4;
        struct conform_case *added = conform_list_add(list, "together", "streams", &options);
        added->check = conform_check_streams;
        added = conform_list_add(list, "together", "threads", &options);
        added->check = conform_check_threads;
    }
}

/* ---- Kernel rows ---- */

static int64_t at_most(int64_t value, int64_t limit) {
    return limit > 0 && value > limit ? limit : value;
}

/* A plain problem that the row's columns admit. */
static struct conform_options row_options(const attune_kernel_info *row, attune_dtype dtype) {
    struct conform_options options = conform_options_make(row->op, dtype);
    int64_t multiple = row->head_dim_multiple > 0 ? row->head_dim_multiple : 1;
    options.rows = at_most(options.rows, row->rows_max);
    options.head_dim = (16 + multiple - 1) / multiple * multiple;
    options.head_dim_v = options.head_dim;
    options.no_lse = (row->features & ATTUNE_FEATURE_LSE) == 0;
    strcpy(options.kernel, row->name);
    return options;
}

static void add_if_claimed(struct conform_list *list, const attune_kernel_info *row, const char *detail,
                           const struct conform_options *options) {
    struct conform_options settled = *options;
    conform_options_settle(&settled);
    if (conform_subject_row_claims(row, &settled)) {
        conform_list_add(list, "row", detail, &settled);
    }
}

static void add_sizes(struct conform_list *list, const attune_kernel_info *row, attune_dtype dtype) {
    int64_t multiple = row->head_dim_multiple > 0 ? row->head_dim_multiple : 1;
    struct conform_options options = row_options(row, dtype);
    add_if_claimed(list, row, "plain", &options);
    options.rows = at_most(150, row->rows_max);
    options.keys = 300;
    options.heads_q = options.heads_kv = 1;
    add_if_claimed(list, row, "tiles", &options);
    options = row_options(row, dtype);
    options.head_dim = options.head_dim_v = multiple;
    add_if_claimed(list, row, "head_dim_least", &options);
    options.head_dim = row->head_dim_max / multiple * multiple;
    options.head_dim_v = row->head_dim_v_max / multiple * multiple;
    options.rows = options.head_dim > 256 ? at_most(options.rows, 16) : options.rows; /* as the API allows */
    add_if_claimed(list, row, "head_dim_most", &options);
}

/* More tiles than a device has processors, so that kernels that go from tile to tile do; with a window, or causal,
 * where the row has that, so that the rows of a large tile differ in the key tiles that they see. */
static void add_many_tiles(struct conform_list *list, const attune_kernel_info *row, attune_dtype dtype) {
    struct conform_options options = row_options(row, dtype);
    if (row->op != ATTUNE_OP_FORWARD || row->tile_rows <= 64) {
        return;
    }
    options.rows = at_most(300, row->rows_max);
    options.keys = 370;
    options.heads_q = options.heads_kv = 80;
    options.causal = (row->features & (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW)) == ATTUNE_FEATURE_CAUSAL;
    if (row->features & ATTUNE_FEATURE_WINDOW) {
        options.window = ATTUNE_WINDOW(30, 0);
    }
    add_if_claimed(list, row, "many_tiles", &options);
}

/* Scores whose largest moves from key tile to key tile, and weights so small that a narrow P loses them. */
static void add_moving_scores(struct conform_list *list, const attune_kernel_info *row, attune_dtype dtype) {
    static const enum conform_values values[] = {CONFORM_VALUES_RISING, CONFORM_VALUES_JUMPING, CONFORM_VALUES_HEAVY,
                                                 CONFORM_VALUES_HEAVIEST};
    for (size_t n = 0; n < sizeof values / sizeof values[0]; n++) {
        struct conform_options options = row_options(row, dtype);
        options.batch = 1;
        options.rows = at_most(150, row->rows_max);
        options.keys = 600;
        options.values = values[n];
        add_if_claimed(list, row, "moving_scores", &options);
    }
    struct conform_options options = row_options(row, dtype);
    options.rows = at_most(20, row->rows_max);
    options.keys = 200;
    options.values = CONFORM_VALUES_HEAVIER;
    options.out_dtype = ATTUNE_DTYPE_F32;
    add_if_claimed(list, row, "light_keys", &options);
}

/* Tiles cut along the keys, of rows that can: with few tiles all, and with more than a device has processors the last
 * ones; with parts of which some rows see no key, and with references that differ from part to part. */
static void add_splits(struct conform_list *list, const attune_kernel_info *row, attune_dtype dtype) {
    struct conform_options options = row_options(row, dtype);
    if (row->op != ATTUNE_OP_FORWARD || (row->features & (ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_OWN_SPLITS)) == 0) {
        return;
    }
    options.splits = 3;
    options.rows = at_most(210, row->rows_max);
    options.keys = 500;
    options.causal = (row->features & ATTUNE_FEATURE_CAUSAL) != 0;
    options.sink = true;
    add_if_claimed(list, row, "splits", &options);
    struct conform_options moving = options;
    moving.values = CONFORM_VALUES_JUMPING;
    add_if_claimed(list, row, "splits", &moving);
    struct conform_options unseen = options;
    unseen.keys = unseen.rows - at_most(10, unseen.rows - 1);
    unseen.splits = 8;
    add_if_claimed(list, row, "splits", &unseen);
    struct conform_options many = options;
    many.heads_q = many.heads_kv = 90;
    many.keys = 300;
    add_if_claimed(list, row, "splits", &many);
    options.deterministic = true;
    conform_options_settle(&options);
    if (row->rows_max == 0 && conform_subject_row_claims(row, &options)) {
        struct conform_case *repeated = conform_list_add(list, "row", "splits", &options);
        repeated->check = conform_check_repeat;
        repeated->variant = 9;
    }
}

void conform_list_kernels(struct conform_list *list, const struct conform_subject *subject) {
    for (int32_t n = 0; n < subject->kernel_count; n++) {
        const attune_kernel_info *row = &subject->kernels[n];
        bool is_attention = row->op == ATTUNE_OP_FORWARD || row->op == ATTUNE_OP_BACKWARD;
        for (size_t t = 0; is_attention && row->runnable && t < DTYPE_COUNT; t++) {
            add_sizes(list, row, dtypes[t]);
            add_many_tiles(list, row, dtypes[t]);
            add_moving_scores(list, row, dtypes[t]);
            add_splits(list, row, dtypes[t]);
            for (int f = 0; f < conform_feature_count; f++) {
                struct conform_options options = row_options(row, dtypes[t]);
                if (conform_feature_is_in(&conform_features[f], row->op)) {
                    conform_features[f].apply(&options);
                    options.rows = at_most(options.rows, row->rows_max);
                    add_if_claimed(list, row, conform_features[f].name, &options);
                }
            }
        }
    }
}
