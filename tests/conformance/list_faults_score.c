/*
 * Faults that other libraries had in scores, masks, lse and gradients: the rows of tests/faults.md by
 * their ids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "faults.h"
#include "feature.h"
#include "truth.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};

/* The same problem contiguous, packed, paged, split, and backward. given_q, given_k: the lengths of all entries, equal
 * to options.rows and options.keys. */
static void add_paths(struct conform_list *list, const char *id, const struct conform_options *options,
                      const int32_t *given_q, const int32_t *given_k, conform_truth_fn truth) {
    static const char *const details[] = {"contiguous", "varlen", "paged", "split", "backward"};
    for (int path = 0; path < 5; path++) {
        struct conform_options one = *options;
        if (path == 1) {
            one.q = (struct conform_lengths){given_q, true, false};
            one.k = (struct conform_lengths){given_k, true, false};
        } else if (path == 2) {
            one.k = (struct conform_lengths){given_k, false, true};
            one.page_size = 3;
        }
        one.splits = path == 3 ? 2 : 0;
        one.op = path == 4 ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
        struct conform_case *added = conform_list_add(list, id, details[path], &one);
        if (added) {
            added->truth = truth;
        }
    }
}

static struct conform_options start(attune_dtype dtype, int64_t rows, int64_t keys) {
    struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, dtype);
    options.rows = rows;
    options.keys = keys;
    return options;
}

/* ---- B005: causal with more rows than keys ---- */

static double b005_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)options, (void)b, (void)h;
    return i < 2 ? -INFINITY : log((double)i - 1);
}

static bool b005_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_lse(oracle, b005_lse, outcome);
}

static void add_b005(struct conform_list *list, attune_dtype dtype) {
    static const int32_t fives[] = {5, 5};
    static const int32_t threes[] = {3, 3};
    struct conform_options options = start(dtype, 5, 3);
    options.causal = true;
    add_paths(list, "B005", &options, fives, threes, NULL);
    options.values = CONFORM_VALUES_FLAT;
    add_paths(list, "B005", &options, fives, threes, b005_truth);
}

/* ---- B012: the normaliser and dropout ---- */

static void add_b012(struct conform_list *list, attune_dtype dtype) {
    struct conform_options options = start(dtype, 64, 64);
    options.causal = true;
    options.dropout_rate = 0.999;
    struct conform_case *added = conform_list_add(list, "B012", "dropout", &options);
    if (added) {
        added->check = conform_check_dropped_rows;
    }
    options.op = ATTUNE_OP_BACKWARD;
    conform_list_add(list, "B012", "dropout", &options);
}

/* ---- B015: sums in half precision ---- */

static double one(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)options, (void)b, (void)h, (void)i;
    return 1;
}

static double half(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)b, (void)h, (void)i;
    return options->dtype == ATTUNE_DTYPE_BF16 ? 0 : 0.5; /* 999 is 1000 in bf16 */
}

static bool b015_ones(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_o(oracle, one, outcome);
}

static bool b015_alternating(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_o(oracle, half, outcome);
}

static void add_b015(struct conform_list *list, attune_dtype dtype) {
    struct conform_options options = start(dtype, 2, 65536);
    options.batch = options.heads_q = options.heads_kv = 1;
    options.head_dim = options.head_dim_v = 8;
    for (int splits = 0; splits < 8; splits += 7) {
        options.splits = splits;
        options.values = CONFORM_VALUES_ONES;
        conform_list_add(list, "B015", "ones", &options)->truth = b015_ones;
        options.values = CONFORM_VALUES_ALTERNATING;
        if (dtype != ATTUNE_DTYPE_E4M3) { /* holds neither 999 nor 1000 */
            conform_list_add(list, "B015", "cancelling", &options)->truth = b015_alternating;
        }
    }
}

/* ---- B018: which diagonal is causal ---- */

static double b018_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)b, (void)h;
    return log((double)i + (options->align == ATTUNE_ALIGN_TOP_LEFT ? 1 : 4));
}

static bool b018_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_lse(oracle, b018_lse, outcome);
}

static void add_b018(struct conform_list *list, attune_dtype dtype) {
    static const int32_t twos[] = {2, 2};
    static const int32_t fives[] = {5, 5};
    struct conform_options options = start(dtype, 2, 5);
    options.causal = true;
    options.values = CONFORM_VALUES_FLAT;
    add_paths(list, "B018", &options, twos, fives, b018_truth);
    options.align = ATTUNE_ALIGN_TOP_LEFT;
    add_paths(list, "B018", &options, twos, fives, b018_truth);
}

/* ---- B019: a window of W is W + 1 keys ---- */

static double b019_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)b, (void)h;
    int64_t width = options->window.left + 1;
    return log((double)(i + 1 < width ? i + 1 : width));
}

static bool b019_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_lse(oracle, b019_lse, outcome);
}

static void add_b019(struct conform_list *list, attune_dtype dtype) {
    static const int32_t lengths[] = {150};
    static const int64_t windows[] = {0, 1, 127, 128};
    struct conform_options options = start(dtype, 150, 150);
    options.batch = options.heads_q = options.heads_kv = 1;
    options.values = CONFORM_VALUES_FLAT;
    for (size_t n = 0; n < COUNT(windows); n++) {
        options.window = ATTUNE_WINDOW(windows[n], 0);
        options.causal = false;
        add_paths(list, "B019", &options, lengths, lengths, b019_truth);
        options.window.right = -1;
        options.causal = true;
        add_paths(list, "B019", &options, lengths, lengths, b019_truth);
    }
}

/* ---- B038: the sink has a gradient ---- */

static void add_b038(struct conform_list *list, attune_dtype dtype) {
    struct conform_options options = conform_options_make(ATTUNE_OP_BACKWARD, dtype);
    options.sink = true;
    options.dlse = true;
    options.heads_q = 3;
    options.heads_kv = 1;
    conform_list_add(list, "B038", "formula", &options);
    options.rows = 9;
    options.keys = 5;
    options.causal = true; /* rows 0 to 3 see the sink alone */
    conform_list_add(list, "B038", "formula", &options);
    if (dtype == ATTUNE_DTYPE_F32) { /* of which differences can be taken */
        conform_list_add(list, "B038", "differences", &options)->check = conform_check_differences;
        options.causal = false;
        conform_list_add(list, "B038", "differences", &options)->check = conform_check_differences;
    }
}

/* ---- B043: lse is to base e ---- */

static double b043_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)options, (void)b, (void)h, (void)i;
    return 2.0794415416798357;
}

static bool b043_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_lse(oracle, b043_lse, outcome);
}

static void add_b043(struct conform_list *list, attune_dtype dtype) {
    static const int32_t threes[] = {3, 3};
    static const int32_t eights[] = {8, 8};
    struct conform_options options = start(dtype, 3, 8);
    options.values = CONFORM_VALUES_FLAT;
    add_paths(list, "B043", &options, threes, eights, b043_truth);
    options.values = CONFORM_VALUES_NORMAL;
    options.keys = 90;
    for (int64_t parts = 2; parts <= 5; parts++) {
        struct conform_options split = options;
        split.keys += parts; /* a name of its own */
        struct conform_case *added = conform_list_add(list, "B043", "merged_by_hand", &split);
        added->check = conform_check_split_by_hand;
        added->variant = parts;
    }
}

/* ---- B087: softcap, then the mask ---- */

static double zero_of_row_0(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)b, (void)h;
    return i == 0 ? 0 : options->dtype == ATTUNE_DTYPE_E4M3 ? 128 : options->dtype == ATTUNE_DTYPE_BF16 ? 4992 : 5000;
}

static double b087_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)options, (void)b, (void)h;
    return log((double)i + 1);
}

static bool b087_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_lse(oracle, b087_lse, outcome) && conform_truth_o(oracle, zero_of_row_0, outcome);
}

static void add_b087(struct conform_list *list, attune_dtype dtype) {
    static const int32_t twos[] = {2, 2};
    struct conform_options options = start(dtype, 2, 2);
    options.causal = true;
    options.softcap = 1;
    options.values = CONFORM_VALUES_STEP;
    add_paths(list, "B087", &options, twos, twos, b087_truth);
}

/* ---- B088: no option is dropped in silence ---- */

/* Whether options are others with the feature: pages have lengths in any case. */
static bool feature_changes(const struct conform_feature *feature, const struct conform_options *options) {
    struct conform_options with = *options;
    struct conform_options without = *options;
    char texts[2][CONFORM_NAME_MAX];
    feature->apply(&with);
    conform_options_settle(&with);
    conform_options_settle(&without);
    conform_options_describe(&with, texts[0]);
    conform_options_describe(&without, texts[1]);
    return strcmp(texts[0], texts[1]) != 0;
}

static void add_b088(struct conform_list *list, attune_op op) {
    int paths = op == ATTUNE_OP_BACKWARD ? 2 : 4;
    for (int n = 0; n < conform_feature_count; n++) {
        const struct conform_feature *feature = &conform_features[n];
        for (int path = 0; feature->is_result && path < paths; path++) {
            struct conform_options options = conform_options_make(op, ATTUNE_DTYPE_F32);
            options.q.ragged = path == 1;
            options.k.ragged = path == 1;
            options.page_size = path == 2 ? 4 : 0;
            options.splits = path == 3 ? 3 : 0;
            bool changes = feature_changes(feature, &options);
            struct conform_case *added = changes ? conform_list_add(list, "B088", feature->name, &options) : NULL;
            if (added) {
                added->check = conform_check_effect;
                added->variant = n;
            }
        }
    }
}

/* ---- B090: ALiBi's sign ---- */

static double b090_lse(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)options, (void)b, (void)h, (void)i;
    return log(1.75); /* 1 + 1/2 + 1/4: by distance */
}

static bool b090_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    const double *probs = oracle->exact[ATTUNE_OPERAND_PROBS];
    for (int j = 0; j < 3; j++) {
        double expected = ldexp(1.0 / 7, j);
        if (fabs(probs[j] - expected) > 1e-7) { /* the slope is ln 2 in f32 */
            return conform_outcome_fail(outcome, "the reference: weight %d is %.9g, not %.9g", j, probs[j], expected);
        }
    }
    double lse = oracle->exact[ATTUNE_OPERAND_LSE][0];
    double expected = b090_lse(&oracle->problem->options, 0, 0, 0);
    return fabs(lse - expected) <= 1e-7 ||
           conform_outcome_fail(outcome, "the reference: lse is %.9g, not %.9g", lse, expected);
}

static void add_b090(struct conform_list *list, attune_dtype dtype) {
    static const int32_t ones[] = {1, 1};
    static const int32_t threes[] = {3, 3};
    struct conform_options options = start(dtype, 1, 3);
    options.values = CONFORM_VALUES_FLAT;
    options.slopes = CONFORM_SLOPES_LN2;
    add_paths(list, "B090", &options, ones, threes, b090_truth);
    options.values = CONFORM_VALUES_NORMAL;
    options.rows = options.keys = 9;
    for (int pass = 0; pass < 2; pass++) {
        options.op = pass ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
        options.slopes = CONFORM_SLOPES_HEADS;
        options.heads_q = options.heads_kv = 40;
        conform_list_add(list, "B090", "heads_40", &options);
        options.slopes = CONFORM_SLOPES_BATCH_HEADS;
        options.heads_q = options.heads_kv = 6;
        conform_list_add(list, "B090", "per_batch", &options);
    }
}

void conform_list_faults_score(struct conform_list *list) {
    for (size_t n = 0; n < COUNT(dtypes); n++) {
        add_b005(list, dtypes[n]);
        add_b012(list, dtypes[n]);
        add_b015(list, dtypes[n]);
        add_b018(list, dtypes[n]);
        add_b019(list, dtypes[n]);
        add_b038(list, dtypes[n]);
        add_b043(list, dtypes[n]);
        add_b087(list, dtypes[n]);
        add_b090(list, dtypes[n]);
    }
    add_b088(list, ATTUNE_OP_FORWARD);
    add_b088(list, ATTUNE_OP_BACKWARD);
}
