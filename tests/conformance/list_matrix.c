/*
 * The hand-made matrix: shapes, dtypes, masks, head sizes and values, in both passes; and each option alone in each
 * dtype.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "case.h"
#include "feature.h"

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct shape {
    int64_t batch;
    int64_t rows;
    int64_t keys;
    int64_t heads_q;
    int64_t heads_kv;
    int64_t head_dim;
};

static void set_shape(struct conform_options *options, const struct shape *shape) {
    options->batch = shape->batch;
    options->rows = shape->rows;
    options->keys = shape->keys;
    options->heads_q = shape->heads_q;
    options->heads_kv = shape->heads_kv;
    options->head_dim = options->head_dim_v = shape->head_dim;
}

static void no_mask(struct conform_options *options) {
    (void)options;
}
static void causal(struct conform_options *options) {
    options->causal = true;
}
static void causal_top_left(struct conform_options *options) {
    options->causal = true;
    options->align = ATTUNE_ALIGN_TOP_LEFT;
}
static void window(struct conform_options *options) {
    options->window = ATTUNE_WINDOW(7, 3);
}

static void add_shapes(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const struct shape shapes[] = {
        {1, 1, 1, 1, 1, 8},                                                      /* the smallest */
        {2, 16, 16, 2, 2, 16},                                                   /* whole tiles */
        {1, 64, 64, 1, 1, 64},  {1, 128, 128, 1, 1, 32}, {1, 65, 129, 1, 1, 16}, /* one past a tile */
        {1, 63, 127, 1, 1, 16},                                                  /* one short of it */
        {2, 3, 33, 4, 2, 32},                                                    /* groups */
        {1, 1, 200, 8, 1, 64},                                                   /* decode */
        {3, 1, 77, 4, 4, 32},   {1, 200, 1, 2, 1, 16},                           /* one key */
        {2, 40, 24, 3, 3, 40},                                                   /* more rows than keys */
        {1, 33, 300, 2, 2, 16},                                                  /* several tiles of keys */
        {5, 2, 3, 7, 7, 4},
    };
    static void (*const masks[])(struct conform_options *) = {no_mask, causal, causal_top_left, window};
    for (size_t s = 0; s < COUNT(shapes); s++) {
        for (size_t m = 0; m < COUNT(masks); m++) {
            struct conform_options options = conform_options_make(op, dtype);
            set_shape(&options, &shapes[s]);
            masks[m](&options);
            conform_list_add(list, "matrix", "shape", &options);
        }
    }
}

static void add_head_sizes(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 20, 32, 33, 64, 72, 80, 96, 100, 112, 128, 192, 200, 255, 256};
    static const int64_t pairs[][2] = {{192, 128}, {64, 32}, {16, 200}, {8, 1}, {1, 8}, {40, 256}};
    static const int64_t wide[][2] = {{576, 512}, {257, 257}, {512, 64}, {320, 320}};
    struct conform_options options = conform_options_make(op, dtype);
    options.rows = 5;
    options.keys = 19;
    options.causal = true;
    for (size_t n = 0; n < COUNT(sizes); n++) {
        options.head_dim = options.head_dim_v = sizes[n];
        conform_list_add(list, "matrix", "head_dim", &options);
    }
    for (size_t n = 0; n < COUNT(pairs); n++) {
        options.head_dim = pairs[n][0];
        options.head_dim_v = pairs[n][1];
        conform_list_add(list, "matrix", "head_dim", &options);
    }
    for (size_t n = 0; op == ATTUNE_OP_FORWARD && n < COUNT(wide); n++) { /* past 256: few rows, forward alone */
        options.head_dim = wide[n][0];
        options.head_dim_v = wide[n][1];
        options.rows = n % 2 ? 1 : 16;
        conform_list_add(list, "matrix", "head_dim", &options);
    }
}

static void add_values(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const enum conform_values values[] = {CONFORM_VALUES_OUTLIERS, CONFORM_VALUES_LARGE, CONFORM_VALUES_FLAT,
                                                 CONFORM_VALUES_TINY};
    static const struct shape shapes[] = {{2, 17, 40, 2, 2, 32}, {1, 70, 150, 2, 1, 64}};
    for (size_t n = 0; n < COUNT(values) * COUNT(shapes); n++) {
        struct conform_options options = conform_options_make(op, dtype);
        set_shape(&options, &shapes[n % COUNT(shapes)]);
        options.values = values[n / COUNT(shapes)];
        conform_list_add(list, "matrix", "values", &options);
        options.out_dtype = dtype == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_F16 : ATTUNE_DTYPE_F32;
        conform_list_add(list, "matrix", "values", &options);
    }
}

/* Over several tiles of keys. */
static void add_moving_scores(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const enum conform_values values[] = {CONFORM_VALUES_RISING, CONFORM_VALUES_JUMPING, CONFORM_VALUES_HEAVY,
                                                 CONFORM_VALUES_HEAVIEST};
    for (size_t n = 0; n < COUNT(values); n++) {
        struct conform_options options = conform_options_make(op, dtype);
        set_shape(&options, &(struct shape){1, 40, 700, 2, 2, 32});
        options.values = values[n];
        conform_list_add(list, "matrix", "values", &options);
    }
    struct conform_options options = conform_options_make(op, dtype);
    set_shape(&options, &(struct shape){1, 40, 700, 2, 2, 32});
    options.values = CONFORM_VALUES_HEAVIER;
    options.out_dtype = ATTUNE_DTYPE_F32;
    conform_list_add(list, "matrix", "values", &options);
}

static void add_layouts(struct conform_list *list, attune_op op, attune_dtype dtype) {
    for (unsigned n = 0; n < 20; n++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.head_dim = options.head_dim_v = 16 + 4 * (n % 3);
        options.transposed = n % 16;
        options.padded = n >= 16 || n % 2;
        options.misaligned = n % 3 == 2;
        options.q.ragged = options.k.ragged = n == 17;
        options.dlse = n % 2;
        conform_list_add(list, "matrix", "layout", &options);
    }
}

static void add_options(struct conform_list *list, attune_op op, attune_dtype dtype) {
    for (int n = 0; n < conform_feature_count; n++) {
        if (conform_feature_is_in(&conform_features[n], op)) {
            struct conform_options options = conform_options_make(op, dtype);
            options.batch = 3;
            options.heads_q = options.heads_kv = 4;
            conform_features[n].apply(&options);
            conform_list_add(list, "option", conform_features[n].name, &options);
        }
    }
}

void conform_list_matrix(struct conform_list *list) {
    for (size_t n = 0; n < COUNT(passes) * COUNT(dtypes); n++) {
        attune_op op = passes[n / COUNT(dtypes)];
        attune_dtype dtype = dtypes[n % COUNT(dtypes)];
        add_shapes(list, op, dtype);
        add_head_sizes(list, op, dtype);
        add_values(list, op, dtype);
        add_moving_scores(list, op, dtype);
        add_layouts(list, op, dtype);
        add_options(list, op, dtype);
    }
}
