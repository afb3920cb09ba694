/*
 * Faults that other libraries had in lengths, layouts, pages, sizes, splits and memory: the rows of
 * tests/faults.md by their ids.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "check.h"
#include "faults.h"
#include "truth.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};
static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};

static void add_check(struct conform_list *list, const char *id, const char *detail,
                      const struct conform_options *options, conform_check_fn check, int64_t variant) {
    struct conform_case *added = conform_list_add(list, id, detail, options);
    if (added) {
        added->check = check;
        added->variant = variant;
    }
}

/* ---- B009: stale bytes in unused slots ---- */

static void add_b009(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int32_t used[] = {32, 64, 96, 48};
    static const char *const details[] = {"k", "v", "all"};
    for (int n = 0; n < 12; n++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.batch = 4;
        options.rows = n % 4 < 2 ? 1 : 5;
        options.keys = 128;
        options.k = (struct conform_lengths){used, n % 4 == 3, n % 4 != 3};
        options.page_size = n % 4 == 1 ? 20 : 0;
        options.splits = n % 2 ? 3 : 0;
        options.leftpad = n % 4 == 2;
        add_check(list, "B009", details[n / 4], &options, conform_check_stale, 1 + n / 4);
    }
}

/* ---- B030: a sequence without rows ---- */

static void add_b030(struct conform_list *list, attune_dtype dtype) {
    static const int32_t rows[] = {0, 5, 0};
    static const int32_t keys[] = {7, 5, 8};
    struct conform_options options = conform_options_make(ATTUNE_OP_BACKWARD, dtype);
    options.batch = 3;
    options.rows = 5;
    options.keys = 8;
    options.q = (struct conform_lengths){rows, true, false};
    options.k = (struct conform_lengths){keys, true, false};
    conform_list_add(list, "B030", "mha", &options);
    options.heads_q = 6;
    conform_list_add(list, "B030", "gqa", &options);
}

/* ---- B035: which key-value head a query head reads ---- */

static double b035_o(const struct conform_options *options, int64_t b, int64_t h, int64_t i) {
    (void)b, (void)i;
    return 1.0 + (double)(h / (options->heads_q / options->heads_kv));
}

static bool b035_truth(const struct conform_oracle *oracle, struct conform_outcome *outcome) {
    return conform_truth_o(oracle, b035_o, outcome);
}

static void add_b035(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int64_t heads[][2] = {{3, 1}, {6, 2}, {10, 2}, {12, 3}, {21, 7}, {71, 1}};
    for (size_t n = 0; n < COUNT(heads); n++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.heads_q = heads[n][0];
        options.heads_kv = heads[n][1];
        options.head_dim = options.head_dim_v = n % 2 ? 120 : 16;
        options.rows = 3;
        options.keys = 9;
        options.values = CONFORM_VALUES_HEAD;
        conform_list_add(list, "B035", "heads", &options)->truth = b035_truth;
        options.values = CONFORM_VALUES_NORMAL;
        conform_list_add(list, "B035", "heads", &options);
    }
}

/* ---- B040: rows behind the last sequence ---- */

static void add_b040(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int64_t extra[] = {2, 17, 130};
    for (size_t n = 0; n < COUNT(extra); n++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.batch = 3;
        options.q.ragged = options.k.ragged = true;
        options.bias.axes = "hij";
        options.sink = true;
        options.extra_rows = extra[n];
        add_check(list, "B040", "extra_rows", &options, conform_check_extra_rows, extra[n]);
    }
}

/* ---- B046: more heads and batches than a grid's axis holds ---- */

static void add_b046(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int64_t counts[] = {65535, 65536, 65537, 70000};
    struct conform_options options = conform_options_make(op, dtype);
    for (size_t n = 0; n < 2 * COUNT(counts); n++) {
        bool heads = n % 2;
        bool large = n == 2 * COUNT(counts) - (op == ATTUNE_OP_BACKWARD ? 2 : 1); /* one of each pass, for time */
        options.rows = options.keys = large ? 4 : 2;
        options.head_dim = options.head_dim_v = large ? 16 : 8;
        options.batch = heads ? 1 : counts[n / 2];
        options.heads_q = options.heads_kv = heads ? counts[n / 2] : 1;
        conform_list_add(list, "B046", heads ? "heads" : "batches", &options);
    }
    options.batch = 1;
    options.rows = 1;
    options.heads_q = 70000;
    options.heads_kv = 2;
    conform_list_add(list, "B046", "group", &options);
}

/* ---- B055, B056: no keys, no rows, no batch ---- */

static void add_b055(struct conform_list *list, attune_op op, attune_dtype dtype) {
    static const int32_t rows[] = {3, 4, 2};
    static const int32_t keys[] = {0, 5, 0};
    struct conform_options options = conform_options_make(op, dtype);
    options.batch = 3;
    options.rows = 4;
    options.keys = 5;
    options.q = (struct conform_lengths){rows, true, false};
    options.k = (struct conform_lengths){keys, true, false};
    conform_list_add(list, "B055", "varlen", &options);
    options.causal = true;
    options.heads_q = 4;
    conform_list_add(list, "B055", "varlen", &options);
}

static void add_b056(struct conform_list *list, attune_op op, attune_dtype dtype) {
    for (int zeros = 1; zeros < 8; zeros++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.batch = zeros & 1 ? 0 : 2;
        options.rows = zeros & 2 ? 0 : 5;
        options.keys = zeros & 4 ? 0 : 7;
        add_check(list, "B056", "zero", &options, conform_check_empty, zeros);
        options.q.ragged = options.k.ragged = true;
        options.max_unset = true;
        add_check(list, "B056", "zero", &options, conform_check_empty, zeros);
    }
}

/* ---- B060, B067: strides of each tensor, tails of tiles ---- */

static void add_b060(struct conform_list *list, attune_op op, attune_dtype dtype) {
    for (unsigned transposed = 1; transposed < 16; transposed++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.heads_q = 4;
        options.transposed = transposed;
        add_check(list, "B060", "layout", &options, conform_check_layouts, transposed);
    }
}

static void add_b067(struct conform_list *list, attune_op op) {
    int64_t turn = 0;
    for (int64_t rows = 1; rows <= 257; rows += 4) {
        struct conform_options options = conform_options_make(op, dtypes[turn % 4]);
        options.batch = options.heads_q = options.heads_kv = 1;
        options.rows = rows;
        options.keys = 1 + (rows * 37 + 2 * turn) % 257;
        options.causal = turn % 3 == 0;
        conform_list_add(list, "B067", "tails", &options);
        options.keys = rows;
        options.rows = 1 + turn % 7 * 10;
        options.dtype = ATTUNE_DTYPE_F16;
        conform_list_add(list, "B067", "tails", &options);
        turn++;
    }
    static const int64_t tails[] = {38, 39, 70, 64, 96, 127, 128, 129, 255, 256};
    for (size_t n = 0; n < COUNT(tails); n++) {
        struct conform_options options = conform_options_make(op, ATTUNE_DTYPE_F16);
        options.rows = tails[n];
        options.keys = tails[COUNT(tails) - 1 - n];
        options.heads_q = options.heads_kv = 1;
        options.head_dim = options.head_dim_v = 64;
        conform_list_add(list, "B067", "tails", &options);
    }
}

/* ---- B075, B082: page sizes and splits ---- */

static void add_b075(struct conform_list *list, attune_dtype dtype) {
    static const int64_t pages[] = {1, 2, 3, 16, 19, 64, 128, 256, 544};
    for (size_t n = 0; n < COUNT(pages); n++) {
        struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, dtype);
        options.rows = 1 + (int64_t)n;
        options.keys = 301;
        options.heads_q = 4;
        options.causal = n % 2;
        options.splits = 1;
        options.page_size = pages[n];
        add_check(list, "B075", "pages", &options, conform_check_page_size, pages[n]);
    }
}

static void add_b082(struct conform_list *list, attune_dtype dtype) {
    for (int32_t splits = 0; splits <= 65; splits++) {
        struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, dtype);
        options.rows = 1 + splits % 3;
        options.keys = 700;
        options.heads_q = 4;
        options.splits = splits <= 64 ? splits : 1000; /* past the last tile of keys: empty parts */
        options.page_size = splits % 2 ? 16 : 0;
        options.causal = splits % 4 >= 2;
        conform_list_add(list, "B082", "splits", &options);
    }
}

/* ---- B085: blocks that name nothing ---- */

static void add_b085(struct conform_list *list, attune_op op, attune_dtype dtype) {
    struct conform_options options = conform_options_make(op, dtype);
    options.batch = 1;
    options.rows = options.keys = 200;
    options.sparse = CONFORM_SPARSE_SHARED;
    options.block_rows = options.block_keys = 64;
    conform_list_add(list, "B085", "blocks", &options);
    options.sparse = CONFORM_SPARSE_HEADS;
    options.causal = true;
    conform_list_add(list, "B085", "blocks", &options);
    options.block_rows = 16;
    options.block_keys = 100;
    options.q.ragged = options.k.ragged = true;
    options.batch = 3;
    conform_list_add(list, "B085", "blocks", &options);
}

/* ---- B098, B102, B118 ---- */

static void add_b098(struct conform_list *list, attune_dtype dtype) {
    struct conform_options options = conform_options_make(ATTUNE_OP_BACKWARD, dtype);
    options.rows = 20;
    options.keys = 40;
    options.heads_q = 6;
    options.bias.axes = "hij";
    options.sink = options.dlse = true;
    options.deterministic = true;
    add_check(list, "B098", "repeat", &options, conform_check_repeat, 50);
    options.op = ATTUNE_OP_FORWARD;
    options.splits = 3;
    add_check(list, "B098", "repeat", &options, conform_check_repeat, 50);
}

static void add_b102(struct conform_list *list) {
    static const enum conform_descale descales[] = {CONFORM_DESCALE_ONE, CONFORM_DESCALE_HEADS, CONFORM_DESCALE_BLOCKS};
    for (int n = 0; n < 12; n++) {
        struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, ATTUNE_DTYPE_E4M3);
        options.descale = descales[n % 3];
        options.rows = n < 6 ? 1 : 30;
        options.keys = 150;
        options.page_size = n / 3 % 2 ? 1 : 0;
        options.splits = n % 2 ? 3 : 0;
        add_check(list, "B102", "v_twice", &options, conform_check_descale_twice, 0);
        add_check(list, "B102", "k_twice", &options, conform_check_descale_twice, 1);
    }
}

static void add_b118(struct conform_list *list, attune_op op, attune_dtype dtype) {
    for (int32_t splits = 0; splits < 6; splits++) {
        struct conform_options options = conform_options_make(op, dtype);
        options.rows = 1 + splits;
        options.keys = 140;
        options.heads_q = 4;
        options.splits = splits;
        options.dlse = splits % 2;
        add_check(list, "B118", "exact", &options, conform_check_workspace, splits);
        options.q.ragged = true;
        options.rows = 24;
        add_check(list, "B118", "exact", &options, conform_check_workspace, splits);
        options.q = (struct conform_lengths){NULL, false, true};
        options.k.used = true;
        add_check(list, "B118", "shorter", &options, conform_check_shorter, splits);
    }
}

static void add_single_checks(struct conform_list *list) {
    for (int64_t n = 0; n < conform_table_lie_count; n++) {
        conform_list_add_check(list, "B073", conform_table_lie_name(n), conform_check_table_lie, n);
    }
    for (int64_t n = 0; n < conform_wide_count; n++) {
        conform_list_add_check(list, "B048", conform_wide_name(n), conform_check_wide, n);
    }
}

void conform_list_faults_shape(struct conform_list *list) {
    for (size_t t = 0; t < COUNT(dtypes); t++) {
        add_b030(list, dtypes[t]);
        add_b075(list, dtypes[t]);
        add_b082(list, dtypes[t]);
        add_b098(list, dtypes[t]);
        for (size_t p = 0; p < COUNT(passes); p++) {
            add_b009(list, passes[p], dtypes[t]);
            add_b035(list, passes[p], dtypes[t]);
            add_b040(list, passes[p], dtypes[t]);
            add_b055(list, passes[p], dtypes[t]);
            add_b056(list, passes[p], dtypes[t]);
            add_b060(list, passes[p], dtypes[t]);
            add_b085(list, passes[p], dtypes[t]);
            add_b118(list, passes[p], dtypes[t]);
        }
    }
    for (size_t p = 0; p < COUNT(passes); p++) {
        add_b046(list, passes[p], ATTUNE_DTYPE_F16);
        add_b067(list, passes[p]);
    }
    add_b102(list);
    add_single_checks(list);
}

void conform_list_faults(struct conform_list *list) {
    conform_list_faults_score(list);
    conform_list_faults_shape(list);
}
