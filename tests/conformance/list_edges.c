/*
 * The edge table of docs/semantics.md: one or more cases for each of its rows, in both passes where it concerns both.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "case.h"
#include "check.h"

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef void (*add_fn)(struct conform_list *list, struct conform_options options);

static void add_sink_too(struct conform_list *list, const char *detail, struct conform_options options) {
    conform_list_add(list, "edge", detail, &options);
    options.sink = true;
    options.dlse = options.op == ATTUNE_OP_BACKWARD;
    conform_list_add(list, "edge", detail, &options);
}

/* ---- Rows that see nothing ---- */

static void add_no_visible_key(struct conform_list *list, struct conform_options options) {
    const char *detail = "no_visible_key";
    struct conform_options start = options;
    options.rows = 21;
    options.keys = 13;
    options.causal = true; /* rows 0 to 7 */
    add_sink_too(list, detail, options);
    options.splits = 4;
    add_sink_too(list, detail, options);
    options = start;
    options.mask.axes = "bhij";
    options.inject = CONFORM_INJECT_MASK_ROW;
    add_sink_too(list, detail, options);
    options = start;
    options.causal = true;
    options.align = ATTUNE_ALIGN_DIAGONAL;
    options.diagonal = -100; /* every row */
    add_sink_too(list, detail, options);
    options.causal = false;
    options.diagonal = INT64_C(1) << 60;
    options.window = ATTUNE_WINDOW(2, 2);
    add_sink_too(list, detail, options);
    options = start;
    options.sparse = CONFORM_SPARSE_HEADS;
    add_sink_too(list, detail, options);
    options = start;
    options.window = ATTUNE_WINDOW(0, 0); /* sees itself alone */
    options.rows = 21;
    options.keys = 13;
    add_sink_too(list, detail, options);
    options = start;
    options.leftpad = true;
    options.batch = 6;
    options.keys = 3; /* all keys of some entries are left padding */
    add_sink_too(list, detail, options);
}

static void add_no_keys(struct conform_list *list, struct conform_options options) {
    static const int32_t zeros[] = {0, 0, 0, 0};
    static const int32_t some[] = {0, 9, 0, 5};
    const char *detail = "no_keys";
    struct conform_options start = options;
    options.keys = 0;
    add_sink_too(list, detail, options);
    options.family = CONFORM_FAMILY_PACKED_QKV;
    add_sink_too(list, detail, options);
    options = start;
    options.batch = 4;
    options.k.used = true;
    options.k.given = zeros;
    add_sink_too(list, detail, options);
    options.k.given = some;
    add_sink_too(list, detail, options);
    options.page_size = 4;
    add_sink_too(list, detail, options);
    options = start;
    options.batch = 4;
    options.keys = 9;
    options.k.ragged = true;
    options.k.given = some;
    add_sink_too(list, detail, options);
    options.q.ragged = true;
    add_sink_too(list, detail, options);
}

static void add_no_rows(struct conform_list *list, struct conform_options options) {
    static const int32_t some[] = {0, 9, 0, 5};
    const char *detail = "no_rows";
    struct conform_options start = options;
    options.rows = 0;
    add_sink_too(list, detail, options);
    options = start;
    options.batch = 0;
    add_sink_too(list, detail, options);
    options.q.ragged = options.k.ragged = options.max_unset = true; /* rows and keys of no sequence */
    add_sink_too(list, detail, options);
    options = start;
    options.batch = 4;
    options.rows = 9;
    options.q.ragged = true;
    options.q.given = some;
    add_sink_too(list, detail, options);
    options.extra_rows = 0;
    options.k.ragged = true;
    add_sink_too(list, detail, options);
    options = start;
    options.batch = 4;
    options.q.used = true;
    options.q.given = some;
    add_sink_too(list, detail, options);
}

/* ---- Scores that are not ordinary ---- */

/* A scale past f32, of scores that are 0. */
static void add_scale_far(struct conform_list *list, struct conform_options options) {
    options.softcap = 0;
    options.values = CONFORM_VALUES_FLAT;
    options.has_scale = true;
    if (options.op == ATTUNE_OP_FORWARD) { /* in backward dq holds no multiple of such a scale in f32 */
        options.scale = 1e300;
        conform_list_add(list, "edge", "scale_far", &options);
        options.scale = -1e300;
        conform_list_add(list, "edge", "scale_far", &options);
    }
}

static void add_scores(struct conform_list *list, struct conform_options options) {
    options.bias.axes = "bhij";
    options.inject = CONFORM_INJECT_BIAS_INFINITE;
    conform_list_add(list, "edge", "score_infinite", &options);
    options.inject = CONFORM_INJECT_BIAS_HIDES_KEY;
    add_sink_too(list, "score_minus_infinite", options);
    options.inject = CONFORM_INJECT_BIAS_HIDES_ROW;
    add_sink_too(list, "score_minus_infinite", options);
    options.inject = CONFORM_INJECT_BIAS_LOW;
    if (options.op == ATTUNE_OP_FORWARD) { /* lse holds no more of such scores in f32 than their size */
        struct conform_options split = options;
        add_sink_too(list, "score_low", options);
        split.splits = 3; /* nor may what splits leave of a row hold it in an lse alone */
        split.tile_rows = split.tile_keys = 16;
        split.keys = 100;
        add_sink_too(list, "score_low", split);
    }
    options.bias = (struct conform_broadcast){0};
    options.inject = CONFORM_INJECT_NONE;
    options.values = CONFORM_VALUES_LARGE;
    conform_list_add(list, "edge", "score_large", &options);
    options.values = CONFORM_VALUES_NORMAL;
    options.softcap = 1e300; /* more than f32 holds: as good as none */
    conform_list_add(list, "edge", "softcap_far", &options);
    options.softcap = 1e-300; /* every score is 0 */
    conform_list_add(list, "edge", "softcap_far", &options);
    add_scale_far(list, options);
}

/* ---- Bytes outside ---- */

static void add_outside(struct conform_list *list, struct conform_options options) {
    static const int32_t short_q[] = {5, 1};
    static const int32_t short_k[] = {9, 1};
    const char *detail = "outside";
    struct conform_options start = options;
    for (int n = 0; n < 8; n++) {
        options = start;
        options.causal = n % 2;
        options.q.ragged = n & 2;
        options.k.ragged = n & 2;
        options.q.used = n & 4;
        options.k.used = true;
        options.leftpad = true;
        options.padded = true;
        conform_list_add(list, "edge", detail, &options);
        options.q.ragged = options.k.ragged = false;
        options.page_size = 5;
        conform_list_add(list, "edge", detail, &options);
    }
    options = start;
    options.q = (struct conform_lengths){short_q, false, true};
    options.k = (struct conform_lengths){short_k, false, true};
    options.keys = 150;
    conform_list_add(list, "edge", "not_owned", &options);
    options.q = (struct conform_lengths){NULL, true, true};
    options.k = (struct conform_lengths){NULL, true, true};
    options.extra_rows = 70;
    conform_list_add(list, "edge", "not_owned", &options);
    options.max_unset = true;
    conform_list_add(list, "edge", "not_owned", &options);
}

/* ---- Sizes ---- */

static void add_sizes(struct conform_list *list, struct conform_options options) {
    static const int64_t odd[] = {4, 7, 9, 12, 17, 31, 60, 65, 127, 129};
    for (size_t n = 0; n < COUNT(odd); n++) {
        struct conform_options odd_head = options;
        odd_head.head_dim = odd[n];
        odd_head.head_dim_v = n % 2 ? odd[n] : odd[COUNT(odd) - 1 - n];
        odd_head.keys = 40;
        conform_list_add(list, "edge", "head_dim_odd", &odd_head);
    }
}

static void add_long(struct conform_list *list, struct conform_options options) {
    options.batch = options.heads_q = options.heads_kv = 1;
    options.head_dim = options.head_dim_v = 8;
    options.rows = 2;
    options.keys = 32769;
    options.page_size = 16;
    conform_list_add(list, "edge", "long", &options);
    options.page_size = 0;
    options.causal = true;
    options.keys = 65537;
    conform_list_add(list, "edge", "long", &options);
    options.causal = false;
    options.rows = 65537;
    options.keys = 2;
    conform_list_add(list, "edge", "long", &options);
}

static void add_numbers(struct conform_list *list, struct conform_options options) {
    options.inject = CONFORM_INJECT_ZERO_SIGNED;
    conform_list_add(list, "edge", "zero_signed", &options);
    options.inject = CONFORM_INJECT_NONE;
    options.values = CONFORM_VALUES_TINY;
    conform_list_add(list, "edge", "subnormal", &options);
    options.values = CONFORM_VALUES_NORMAL;
    if (options.dtype == ATTUNE_DTYPE_E4M3) {
        options.descale = CONFORM_DESCALE_ZERO;
        conform_list_add(list, "edge", "descale_zero", &options);
    }
}

static void add_overlaps(struct conform_list *list, struct conform_options options) {
    static const enum conform_family families[] = {CONFORM_FAMILY_PACKED_QKV, CONFORM_FAMILY_POOL_KV,
                                                   CONFORM_FAMILY_V_IN_K, CONFORM_FAMILY_SHARED_HEADS};
    for (size_t n = 0; n < COUNT(families); n++) {
        for (int causal = 0; causal < 2; causal++) {
            options.family = families[n];
            options.causal = causal;
            options.heads_q = 4;
            conform_list_add(list, "edge", "overlap", &options);
        }
    }
    if (options.op == ATTUNE_OP_FORWARD && options.dtype != ATTUNE_DTYPE_E4M3) {
        options.in_place = true;
        options.family = CONFORM_FAMILY_SEPARATE;
        conform_list_add(list, "edge", "overlap", &options);
        options.rows = 150;
        options.family = CONFORM_FAMILY_PACKED_QKV;
        conform_list_add(list, "edge", "overlap", &options);
        options.q.ragged = true;
        options.splits = 3;
        conform_list_add(list, "edge", "overlap", &options);
    }
}

void conform_list_edges(struct conform_list *list) {
    static const add_fn rows[] = {add_no_visible_key, add_no_keys, add_no_rows, add_scores,  add_outside,
                                  add_sizes,          add_long,    add_numbers, add_overlaps};
    for (size_t n = 0; n < COUNT(rows); n++) {
        for (size_t p = 0; p < COUNT(passes); p++) {
            for (size_t t = 0; t < COUNT(dtypes); t++) {
                rows[n](list, conform_options_make(passes[p], dtypes[t]));
            }
        }
    }
    for (int64_t n = 0; n < conform_refusal_count; n++) {
        conform_list_add_check(list, "edge/refused", conform_refusal_name(n), conform_check_refusal, n);
    }
}
