/*
 * NaN and infinity in q, k, v, dout and dlse: where they come out, and that they come out nowhere else. Beside every
 * way to hide a key from a row, since 0 times what is not finite is NaN.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "case.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};

struct injection {
    enum conform_inject inject;
    const char *detail;
    bool is_of_backward; /* of dout and dlse alone */
    bool takes_softcap;  /* which makes other scores of it */
    bool takes_ways;     /* beside every way to hide a key */
};

static const struct injection injections[] = {
    {CONFORM_INJECT_Q_NAN, "q_nan", false, true, false},
    {CONFORM_INJECT_Q_INFINITE, "q_infinite", false, true, true},
    {CONFORM_INJECT_Q_HIDES_ROW, "q_infinite", false, false, false},
    {CONFORM_INJECT_DOUT_NAN, "dout_nan", true, true, true},
    {CONFORM_INJECT_DOUT_INFINITE, "dout_infinite", true, true, true},
    {CONFORM_INJECT_DLSE_NAN, "dlse_nan", true, true, true},
    {CONFORM_INJECT_K_HIDDEN_NAN, "hidden_key", false, false, false},
    {CONFORM_INJECT_K_HIDDEN_INFINITE, "hidden_key", false, true, false},
    {CONFORM_INJECT_V_HIDDEN_NAN, "hidden_key", false, false, false},
    {CONFORM_INJECT_V_HIDDEN_INFINITE, "hidden_key", false, false, false},
};

/* ---- Ways to hide a key from row 1 ---- */

static void hide_by_length(struct conform_options *options) {
    options->q.used = options->k.used = options->leftpad = true;
}

static void hide_by_pack(struct conform_options *options) {
    options->q.ragged = options->k.ragged = options->causal = true;
}

static void hide_by_mask(struct conform_options *options) {
    options->mask.axes = "bhij";
}

static void hide_by_list(struct conform_options *options) {
    options->sparse = CONFORM_SPARSE_HEADS;
}

static void hide_all(struct conform_options *options) {
    options->rows = 21;
    options->keys = 13;
    options->causal = true; /* rows 0 to 7 see nothing */
}

/* The keys that it does not see are in tiles of their own, too. */
static void hide_by_window(struct conform_options *options) {
    options->rows = 70;
    options->keys = 150;
    options->window = ATTUNE_WINDOW(20, 3);
}

/* Weights that f32 does not tell from 0 are not hidden. */
static void weigh_little(struct conform_options *options) {
    options->values = CONFORM_VALUES_LARGE;
    options->causal = true;
}

static void drop_out(struct conform_options *options) {
    options->dropout_rate = 0.25;
    options->causal = true;
}

static void share_keys(struct conform_options *options) {
    options->heads_q = 4;
    options->bias.axes = "ij";
    options->sink = true;
    options->dlse = true;
    options->causal = true;
}

/* A row's own, and one that weighs nothing. */
static void give_sinks(struct conform_options *options) {
    options->heads_q = options->heads_kv = 3;
    options->sink = true;
    options->causal = true;
}

static void (*const ways[])(struct conform_options *options) = {
    hide_by_length, hide_by_pack, hide_by_mask, hide_by_list, hide_all,
    hide_by_window, drop_out,     share_keys,   give_sinks,
};

static void add_ways(struct conform_list *list, const struct injection *what, const struct conform_options *start) {
    for (size_t n = 0; n < COUNT(ways); n++) {
        struct conform_options options = *start;
        ways[n](&options);
        conform_list_add(list, "edge", what->detail, &options);
    }
    if (what->inject == CONFORM_INJECT_DOUT_NAN) { /* infinity times such a weight depends on how little it is */
        struct conform_options options = *start;
        weigh_little(&options);
        conform_list_add(list, "edge", what->detail, &options);
    }
}

/* Kernels are made for sizes of heads. */
static void add_head_sizes(struct conform_list *list, const struct injection *what, struct conform_options options) {
    static const int64_t sizes[][2] = {{96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};
    options.rows = 70;
    options.keys = 150;
    options.causal = true;
    options.sink = options.dlse; /* whose NaN dsink takes, but for a head without a sink */
    for (size_t n = 0; n < COUNT(sizes); n++) {
        options.head_dim = sizes[n][0];
        options.head_dim_v = sizes[n][1];
        conform_list_add(list, "edge", what->detail, &options);
    }
}

/* ---- Softcap makes an ordinary score of an infinite one, and lets none of its gradient through ---- */

static void add_softcap(struct conform_list *list, const struct injection *what, struct conform_options options) {
    options.causal = true;
    options.softcap = 5;
    conform_list_add(list, "edge", what->detail, &options);
    options.bias.axes = "bhij";
    conform_list_add(list, "edge", what->detail, &options);
    options.bias = (struct conform_broadcast){0};
    options.slopes = CONFORM_SLOPES_HEADS;
    conform_list_add(list, "edge", what->detail, &options);
    options.slopes = CONFORM_SLOPES_NONE;
    options.has_scale = true;
    options.scale = -0.5;
    conform_list_add(list, "edge", what->detail, &options);
    options.has_scale = false;
    options.scale = 0;
    options.causal = false;
    hide_by_window(&options);
    conform_list_add(list, "edge", what->detail, &options);
}

static void add_injection(struct conform_list *list, const struct injection *what, struct conform_options options) {
    const struct conform_options start = options;
    conform_list_add(list, "edge", what->detail, &options);
    options.causal = true;
    conform_list_add(list, "edge", what->detail, &options);
    if (options.op == ATTUNE_OP_FORWARD) {
        options.probs = true;
        conform_list_add(list, "edge", what->detail, &options);
        options.probs = false;
    }
    options.keys = 150; /* hidden in the last of several tiles */
    options.window = ATTUNE_WINDOW(20, 0);
    conform_list_add(list, "edge", what->detail, &options);
    if (what->takes_ways) {
        add_ways(list, what, &start);
        add_head_sizes(list, what, start);
    }
    if (what->takes_softcap) {
        add_softcap(list, what, start);
    }
}

/* ---- All ---- */

static void add_bias(struct conform_list *list, struct conform_options options) {
    options.bias.axes = "bhij";
    options.inject = CONFORM_INJECT_BIAS_HIDES_DOUT;
    conform_list_add(list, "edge", "dout_nan", &options);
    options.causal = true;
    options.softcap = 5;
    conform_list_add(list, "edge", "dout_nan", &options);
}

void conform_list_not_finite(struct conform_list *list) {
    for (size_t p = 0; p < COUNT(passes); p++) {
        for (size_t t = 0; t < COUNT(dtypes); t++) {
            struct conform_options options = conform_options_make(passes[p], dtypes[t]);
            for (size_t n = 0; n < COUNT(injections); n++) {
                options.inject = injections[n].inject;
                options.dlse = options.inject == CONFORM_INJECT_DLSE_NAN;
                if (passes[p] == ATTUNE_OP_BACKWARD || !injections[n].is_of_backward) {
                    add_injection(list, &injections[n], options);
                }
            }
            if (passes[p] == ATTUNE_OP_BACKWARD) {
                add_bias(list, options);
            }
        }
    }
}
