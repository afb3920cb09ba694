/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* strdup, strndup */

#include "options.h"

#include <stdlib.h>
#include <string.h>

#include "backend.h"

/* ---- Setters of one flag each ---- */

struct word {
    const char *text;
    int value;
};

static bool find_word(const struct word *words, int count, const char *text, int *out_value) {
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i].text, text) == 0) {
            *out_value = words[i].value;
            return true;
        }
    }
    return false;
}

static enum tool_exit set_dtype(const struct flag *flag, const char *text, void *out_field) {
    for (attune_dtype dtype = ATTUNE_DTYPE_F32; dtype <= ATTUNE_DTYPE_E4M3; dtype++) {
        if (strcmp(attune_dtype_name(dtype), text) == 0) {
            *(attune_dtype *)out_field = dtype;
            return TOOL_OK;
        }
    }
    return flag_refuse(flag, text, "a dtype is f32, f16, bf16 or e4m3");
}

enum tool_exit option_set_layout(const struct flag *flag, const char *text, void *out_field) {
    static const struct word layouts[] = {{"bshd", LAYOUT_BSHD}, {"bhsd", LAYOUT_BHSD}};
    int layout;
    if (!find_word(layouts, 2, text, &layout)) {
        return flag_refuse(flag, text, "a layout is bshd or bhsd");
    }
    *(enum option_layout *)out_field = (enum option_layout)layout;
    return TOOL_OK;
}

static enum tool_exit set_align(const struct flag *flag, const char *text, void *out_field) {
    static const struct word aligns[] = {{"bottom-right", ATTUNE_ALIGN_BOTTOM_RIGHT},
                                         {"top-left", ATTUNE_ALIGN_TOP_LEFT}};
    int align;
    if (!find_word(aligns, 2, text, &align)) {
        return flag_refuse(flag, text, "an alignment is bottom-right or top-left");
    }
    *(struct option_align *)out_field = (struct option_align){true, (attune_align)align};
    return TOOL_OK;
}

static enum tool_exit set_op(const struct flag *flag, const char *text, void *out_field) {
    static const struct word ops[] = {{"fwd", ATTUNE_OP_FORWARD}, {"bwd", ATTUNE_OP_BACKWARD}};
    int op;
    if (!find_word(ops, 2, text, &op)) {
        return flag_refuse(flag, text, "an operation is fwd or bwd");
    }
    *(attune_op *)out_field = (attune_op)op;
    return TOOL_OK;
}

static enum tool_exit set_work(const struct flag *flag, const char *text, void *out_field) {
    static const struct word works[] = {
        {"fwd", WORK_FORWARD}, {"bwd", WORK_BACKWARD}, {"decode", WORK_DECODE}, {"append", WORK_APPEND}};
    int work;
    if (!find_word(works, 4, text, &work)) {
        return flag_refuse(flag, text, "an operation is fwd, bwd, decode or append");
    }
    *(enum option_work *)out_field = (enum option_work)work;
    return TOOL_OK;
}

/* 512,1k,2k */
static enum tool_exit set_lengths(const struct flag *flag, const char *text, void *out_field) {
    struct option_lengths *field = out_field;
    const char *at = text;
    do {
        int64_t length;
        if (field->count == OPTION_LIST_MAX || !integer_read(at, &at, &length) || length < 1 ||
            length > INT64_MAX / 1024) {
            return flag_refuse(flag, text, "1 to 32 lengths are needed, each 1 or more, as 512,1k,2k");
        }
        if (*at == 'k' || *at == 'K') {
            length *= 1024;
            at++;
        }
        field->item[field->count++] = length;
    } while (*at++ == ',');
    return at[-1] == '\0' ? TOOL_OK : flag_refuse(flag, text, "lengths are separated by commas, as 512,1k,2k");
}

static enum tool_exit set_names(const struct flag *flag, const char *text, void *out_field) {
    struct option_names *field = out_field;
    field->text = strdup(text);
    if (!field->text) {
        return tool_fail_memory();
    }
    for (char *at = field->text; at; field->count++) {
        char *comma = strchr(at, ',');
        if (field->count == OPTION_LIST_MAX || at == comma || !*at) {
            return flag_refuse(flag, text, "1 to 32 names, separated by commas, are needed");
        }
        field->item[field->count] = at;
        if (comma) {
            *comma++ = '\0';
        }
        at = comma;
    }
    return TOOL_OK;
}

static enum tool_exit set_window(const struct flag *flag, const char *text, void *out_field) {
    int64_t sides[2];
    if (!integers_read(text, ',', 2, sides)) {
        return flag_refuse(flag, text, "two integers L,R are needed");
    }
    if (sides[0] < -1 || sides[1] < -1) {
        return flag_refuse(flag, text, "a window side is -1 (open) or more");
    }
    *(attune_window *)out_field = ATTUNE_WINDOW(sides[0], sides[1]);
    return TOOL_OK;
}

static enum tool_exit set_softcap(const struct flag *flag, const char *text, void *out_field) {
    double softcap;
    if (!number_read(text, &softcap) || softcap < 0) {
        return flag_refuse(flag, text, "a softcap is a finite number, 0 (off) or more");
    }
    *(double *)out_field = softcap;
    return TOOL_OK;
}

static enum tool_exit set_rate(const struct flag *flag, const char *text, void *out_field) {
    double rate;
    if (!number_read(text, &rate) || rate < 0 || rate >= 1) {
        return flag_refuse(flag, text, "a rate is from 0 (off) to less than 1");
    }
    *(double *)out_field = rate;
    return TOOL_OK;
}

/* ROWPTR,COLIDX,BQ,BK: a file's name cannot hold a comma here. */
static enum tool_exit set_block_sparse(const struct flag *flag, const char *text, void *out_field) {
    struct option_block_sparse *field = out_field;
    size_t row_ptr_length = strcspn(text, ",");
    const char *col_idx = text + row_ptr_length + (text[row_ptr_length] == ',');
    size_t col_idx_length = strcspn(col_idx, ",");
    int64_t sizes[2];
    if (row_ptr_length == 0 || col_idx_length == 0 || col_idx[col_idx_length] != ',' ||
        !integers_read(col_idx + col_idx_length + 1, ',', 2, sizes)) {
        return flag_refuse(flag, text, "two files and two integers, ROWPTR,COLIDX,BQ,BK, are needed");
    }
    if (sizes[0] < 1 || sizes[1] < 1) {
        return flag_refuse(flag, text, "a block has 1 row and 1 key or more");
    }
    field->row_ptr = strndup(text, row_ptr_length);
    field->col_idx = strndup(col_idx, col_idx_length);
    field->rows = sizes[0];
    field->keys = sizes[1];
    return field->row_ptr && field->col_idx ? TOOL_OK : tool_fail_memory();
}

static enum tool_exit set_shape(const struct flag *flag, const char *text, void *out_field) {
    int64_t n[7] = {0};
    bool has_head_dim_v = integers_read(text, ',', 7, n);
    if (!has_head_dim_v && !integers_read(text, ',', 6, n)) {
        return flag_refuse(flag, text, "six or seven integers, B,Sq,Sk,Hq,Hkv,D[,Dv], are needed");
    }
    for (int i = 0; i < 7; i++) {
        if (n[i] < 0) {
            return flag_refuse(flag, text, "an extent is 0 or more");
        }
    }
    *(struct option_shape *)out_field =
        (struct option_shape){true, n[0], n[1], n[2], n[3], n[4], n[5], has_head_dim_v ? n[6] : n[5]};
    return TOOL_OK;
}

/* ---- The table ---- */

#define FIELD(member) offsetof(struct options, member)
#define TIMED         (COMMAND_BENCH | COMMAND_TUNE)
#define SHAPED        (COMMAND_PLAN | TIMED)
#define SHARED        (COMMAND_RUN | SHAPED)
#define LISTED        (COMMAND_RUN | COMMAND_PLAN)

/* Rows of one group: set GROUP before them. */
#define FILE_ROW(flag, file, commands, help)                                                                           \
    { flag, "FILE", flag_set_text, FIELD(files[file]), 0, 0, commands, GROUP, help }
#define ROW(flag, argument, setter, member, commands, help)                                                            \
    { flag, argument, setter, FIELD(member), 0, 0, commands, GROUP, help }
#define INTEGER_ROW(flag, setter, member, least, most, commands, help)                                                 \
    { flag, "N", setter, FIELD(member), least, most, commands, GROUP, help }
#define SWITCH_ROW(flag, member, commands, help) ROW(flag, NULL, flag_set_switch, member, commands, help)

static const struct flag rows[] = {
#define GROUP "Tensors"
    FILE_ROW("--q", FILE_Q, COMMAND_RUN, "queries (B, Sq, Hq, D), or with --cu-seqlens-q (total, Hq, D)"),
    FILE_ROW("--k", FILE_K, COMMAND_RUN,
             "keys (B, Sk, Hkv, D), with --cu-seqlens-k (total, Hkv, D), with --block-table (pages, page_size, Hkv, "
             "D). With --knew the cache"),
    FILE_ROW("--v", FILE_V, COMMAND_RUN, "values, as the keys with Dv for D"),
    ROW("--shape", "B,Sq,Sk,Hq,Hkv,D[,Dv]", set_shape, shape, SHAPED,
        "the problem, in place of files; Dv is D if absent. With --cu-seqlens-q or -k, Sq or Sk is the maximal "
        "length. With --block-table, Sk is at most columns * page_size; with --page-size alone the pages are "
        "there in a random order"),
    ROW("--op", "fwd|bwd", set_op, op, COMMAND_PLAN, "the pass; bwd is the default where --do is given, else fwd"),
    ROW("--op", "fwd|bwd|decode|append", set_work, work, TIMED,
        "the work. decode: forward against a cache whose lengths, --seqused-k or all of Sk, lie in device memory. "
        "append: Sq new rows at the end of a cache of Sk. Default fwd"),
    FILE_ROW("-o", FILE_O, LISTED, "write the output (B, Sq, Hq, Dv), or (total, Hq, Dv)"),
    FILE_ROW("--lse", FILE_LSE, SHARED, "write the natural logarithm of each row's sum: (B, Hq, Sq), or (Hq, total)"),
    FILE_ROW("--probs", FILE_PROBS, SHARED, "write the weights before dropout (B, Hq, Sq, Sk); O(S^2) memory"),
    ROW("--dtype", "f32|f16|bf16|e4m3", set_dtype, dtype, SHARED,
        "round q, k and v to it, to nearest even, e4m3 saturating. Default: what q's file holds; then k and v must "
        "hold the same, and not f64. Without files f32"),
    ROW("--out-dtype", "T", set_dtype, out_dtype, SHARED,
        "ask the kernel for another o, dq, dk and dv than q's dtype (bf16 where that is e4m3)"),
    ROW("--layout", "bshd|bhsd", option_set_layout, layout, SHARED,
        "the axes of q, k, v, o, their gradients, --knew and --vnew in files of (B, S, H, D); default bshd. Packed "
        "and paged tensors have but one layout"),
#undef GROUP
#define GROUP "Backward, run after forward where --do is given"
    FILE_ROW(
        "--do", FILE_DO, LISTED,
        "the gradient of o, shaped as it; rounded to o's dtype. If no gradient is written, dq, dk and dv are computed "
        "all the same"),
    FILE_ROW("--dlse", FILE_DLSE, SHARED, "the gradient of lse, shaped as it"),
    FILE_ROW("--dq", FILE_DQ, SHARED, "write the gradient of q"),
    FILE_ROW("--dk", FILE_DK, SHARED, "write the gradient of k"),
    FILE_ROW("--dv", FILE_DV, SHARED, "write the gradient of v"),
    FILE_ROW("--dbias", FILE_DBIAS, SHARED, "write the gradient of --bias, shaped as it, f32"),
    FILE_ROW("--dsink", FILE_DSINK, SHARED, "write the gradient of --sink (Hq), f32"),
#undef GROUP
#define GROUP "The score"
    ROW("--scale", "X", flag_set_number, scale, SHARED, "factor of q k^T, any finite number; default 1 / sqrt(D)"),
    ROW("--softcap", "X", set_softcap, softcap, SHARED, "X tanh(score / X); 0: off"),
    FILE_ROW("--bias", FILE_BIAS, SHARED, "added to the scores: broadcastable to (B, Hq, Sq, Sk); taken as f32"),
    FILE_ROW("--alibi", FILE_ALIBI, SHARED, "ALiBi slopes (Hq) or (B, Hq)"),
    FILE_ROW("--sink", FILE_SINK, SHARED, "a logit for each head that takes part in the sum and brings no value (Hq)"),
    ROW("--dropout", "RATE", set_rate, dropout_rate, SHARED, "probability that a weight is dropped, from 0 to below 1"),
    ROW("--seed", "N", flag_set_u64, dropout_seed, SHARED, "of dropout: 64 bits; default 0"),
    ROW("--offset", "N", flag_set_u32, dropout_offset, SHARED, "of dropout: 32 bits; default 0"),
#undef GROUP
#define GROUP "Who sees whom; all that is given is ANDed"
    SWITCH_ROW("--causal", causal, SHARED, "row i sees no key past its own"),
    ROW("--align", "bottom-right|top-left", set_align, align, SHARED,
        "where row i's own key lies: i + Sk - Sq (the default), or i"),
    INTEGER_ROW("--diagonal", flag_set_optional_integer, diagonal, -(INT64_C(1) << 61), INT64_C(1) << 61, SHARED,
                "row i's own key is i + N; in place of --align"),
    ROW("--window", "L,R", set_window, window, SHARED,
        "row i sees L keys before its own, R past it, and its own; -1: all on that side"),
    FILE_ROW("--mask", FILE_MASK, SHARED, "u8 or bool, nonzero is visible: broadcastable to (B, Hq, Sq, Sk)"),
    ROW("--block-sparse", "ROWPTR,COLIDX,BQ,BK", set_block_sparse, block_sparse, SHARED,
        "key blocks of BK keys that each block of BQ rows sees: two files, row offsets (nq + 1) or (Hq, nq + 1) and "
        "block numbers"),
#undef GROUP
#define GROUP "Lengths; integers, int32 or int64"
    FILE_ROW("--cu-seqlens-q", FILE_CU_SEQLENS_Q, SHARED,
             "(B + 1): q is packed, sequence b has its rows from entry b to entry b + 1"),
    FILE_ROW("--cu-seqlens-k", FILE_CU_SEQLENS_K, SHARED, "(B + 1): k and v are packed"),
    INTEGER_ROW("--max-seqlen-q", flag_set_integer, max_seqlen_q, 0, INT64_MAX, SHARED,
                "no sequence has more rows; default the longest of --cu-seqlens-q"),
    INTEGER_ROW("--max-seqlen-k", flag_set_integer, max_seqlen_k, 0, INT64_MAX, SHARED, "likewise"),
    FILE_ROW("--seqused-q", FILE_SEQUSED_Q, SHARED, "(B): only the first so many rows of each sequence exist"),
    FILE_ROW("--seqused-k", FILE_SEQUSED_K, SHARED, "(B): only the first so many keys exist"),
    FILE_ROW("--leftpad-k", FILE_LEFTPAD_K, SHARED, "(B): the first so many keys are outside the sequence"),
    FILE_ROW("--block-table", FILE_BLOCK_TABLE, SHARED,
             "(B, n): the page of each page_size keys; needs --page-size and --seqused-k"),
    INTEGER_ROW("--page-size", flag_set_integer, page_size, 1, INT64_MAX, SHARED, "keys of a page"),
#undef GROUP
#define GROUP "e4m3: value = stored * descale"
    FILE_ROW("--descale-q", FILE_DESCALE_Q, SHARED, "f32 (1), (B, Hkv) or (B, Hkv, ceil(S / 128))"),
    FILE_ROW("--descale-k", FILE_DESCALE_K, SHARED, "likewise"),
    FILE_ROW("--descale-v", FILE_DESCALE_V, SHARED, "likewise"),
#undef GROUP
#define GROUP "Appending to the cache, before forward"
    FILE_ROW("--knew", FILE_KNEW, LISTED,
             "new keys (B, Snew, Hkv, D): row i of sequence b goes to position seqused_k[b] + i of the cache in --k, "
             "and seqused_k (0 where no file is given) grows by Snew. Rounded as k; under an e4m3 cache taken as f32, "
             "divided by --descale-k and saturated"),
    FILE_ROW("--vnew", FILE_VNEW, LISTED, "new values (B, Snew, Hkv, Dv)"),
    FILE_ROW("--cos", FILE_COS, SHARED,
             "rotate the new keys and q: f32 (positions, rotary_dim / 2), row i at position seqused_k[b] + i"),
    FILE_ROW("--sin", FILE_SIN, SHARED, "as --cos"),
    SWITCH_ROW("--rotary-interleaved", rotary_interleaved, SHARED,
               "rotate the pairs (2 t, 2 t + 1); otherwise (t, t + rotary_dim / 2)"),
    FILE_ROW("--k-out", FILE_K_OUT, LISTED, "write the cache of keys after the append"),
    FILE_ROW("--v-out", FILE_V_OUT, LISTED, "write the cache of values after the append"),
#undef GROUP
#define GROUP "A sweep: each of these with each other"
    ROW("--lengths", "N,N,...", set_lengths, lengths, COMMAND_BENCH,
        "in place of --shape's Sq and Sk, of decode's and append's Sk; 2k is 2048"),
    ROW("--backends", "B,B,...", set_names, backends, COMMAND_BENCH, "in place of --backend"),
    ROW("--kernels", "ROW,ROW,...", set_names, kernels, COMMAND_BENCH, "in place of --kernel"),
    ROW("--csv", "FILE", flag_set_text, csv, COMMAND_BENCH, "write the table as comma-separated values too"),
    ROW("--plot", "FILE.svg", flag_set_text, plot, COMMAND_BENCH, "draw speed against length too"),
#undef GROUP
#define GROUP "How"
    ROW("--backend", BACKEND_ARGUMENT, flag_set_text, backend, SHARED, BACKEND_HELP),
    INTEGER_ROW("--splits", flag_set_integer, splits, 0, INT32_MAX, SHARED,
                "process the keys in N parts; 0: automatic. A request: a kernel row may ignore it"),
    ROW("--tile", "BRxBC", flag_set_tile, tile, SHARED & ~COMMAND_TUNE,
        "rows and keys of a tile, each from 16 to 128. A request: a kernel row may ignore it"),
    ROW("--kernel", "ROW", flag_set_text, kernel, SHARED,
        "this kernel row and no other; 'attune devices --verbose' lists them"),
    SWITCH_ROW("--deterministic", deterministic, SHARED, "bit-identical from run to run"),
    SWITCH_ROW("--check", check, LISTED, "check lengths, offsets and tables on every run. The first run always does"),
    INTEGER_ROW("--repeat", flag_set_integer, repeat, 1, 1000000, COMMAND_RUN,
                "run N times and report the fastest and the median"),
    INTEGER_ROW("--repeat", flag_set_integer, repeat, 1, 1000000, COMMAND_PLAN,
                "taken so that a line of 'attune run' serves here too; nothing is run"),
    INTEGER_ROW("--repeat", flag_set_integer, repeat, 1, 1000, TIMED,
                "time N runs; default as many as take a second, from 3 to 1000"),
    SWITCH_ROW("--memory", memory, COMMAND_RUN,
               "report the bytes of tensors, workspace and peak in the summary, with or without -o"),
    SWITCH_ROW("--no-verify", no_verify, COMMAND_BENCH, "do not hold the result to the reference before it is timed"),
    SWITCH_ROW("--json", json, COMMAND_RUN, "print the summary as JSON, with or without -o"),
    SWITCH_ROW("--json", json, COMMAND_PLAN, "print every field as JSON"),
    SWITCH_ROW("--json", json, TIMED, "print the table as JSON"),
    SWITCH_ROW("--help", help, SHARED, "print this text"),
#undef GROUP
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

static struct flag_table table_of(unsigned command) {
    return (struct flag_table){rows, ROW_COUNT, command};
}

const char *option_file_flag(enum option_file file) {
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].offset == FIELD(files) + file * sizeof(const char *)) {
            return rows[i].name;
        }
    }
    return "";
}

/* ---- What flags say of each other ---- */

static bool given(const struct options *options, enum option_file file) {
    return options->files[file] != NULL;
}

/* Whether a command has what a file needs without its flag. */
static bool is_there_anyway(const struct options *options, enum option_file needed) {
    return (needed == FILE_DO && options->op == ATTUNE_OP_BACKWARD) ||
           (needed == FILE_KNEW && options->work == WORK_APPEND);
}

static enum tool_exit check_needs(const struct options *options) {
    static const struct {
        enum option_file file;
        enum option_file needed;
    } needs[] = {
        {FILE_DLSE, FILE_DO},   {FILE_DQ, FILE_DO},      {FILE_DK, FILE_DO},      {FILE_DV, FILE_DO},
        {FILE_DBIAS, FILE_DO},  {FILE_DSINK, FILE_DO},   {FILE_DBIAS, FILE_BIAS}, {FILE_DSINK, FILE_SINK},
        {FILE_KNEW, FILE_VNEW}, {FILE_VNEW, FILE_KNEW},  {FILE_COS, FILE_SIN},    {FILE_SIN, FILE_COS},
        {FILE_COS, FILE_KNEW},  {FILE_K_OUT, FILE_KNEW}, {FILE_V_OUT, FILE_KNEW},
    };
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        if (given(options, needs[i].file) && !given(options, needs[i].needed) &&
            !is_there_anyway(options, needs[i].needed)) {
            return tool_fail(TOOL_BAD_INPUT, "%s %s: needs %s too", option_file_flag(needs[i].file),
                             options->files[needs[i].file], option_file_flag(needs[i].needed));
        }
    }
    return TOOL_OK;
}

static enum tool_exit check_required(const struct options *options, unsigned command) {
    if (command != COMMAND_RUN) {
        return options->shape.given ? TOOL_OK : tool_fail(TOOL_BAD_INPUT, "--shape: needed, and not given");
    }
    for (enum option_file file = FILE_Q; file <= FILE_V; file++) {
        if (!given(options, file)) {
            return tool_fail(TOOL_BAD_INPUT, "%s: needed, and not given", option_file_flag(file));
        }
    }
    return TOOL_OK;
}

static bool is_output(enum option_file file) {
    return (file >= FILE_O && file <= FILE_PROBS) || (file >= FILE_DQ && file <= FILE_DSINK) || file == FILE_K_OUT ||
           file == FILE_V_OUT;
}

static enum tool_exit check_outputs_differ(const struct options *options) {
    for (int i = 0; i < FILE_COUNT; i++) {
        for (int j = i + 1; j < FILE_COUNT; j++) {
            if (is_output(i) && is_output(j) && given(options, i) && given(options, j) &&
                strcmp(options->files[i], options->files[j]) == 0) {
                return tool_fail(TOOL_BAD_INPUT, "%s and %s both name %s: each output needs a file of its own",
                                 option_file_flag(i), option_file_flag(j), options->files[i]);
            }
        }
    }
    return TOOL_OK;
}

/* What only some work takes, and lists in place of one. */
static enum tool_exit check_timed(const struct options *options) {
    if (options->backends.count && options->backend) {
        return tool_fail(TOOL_BAD_INPUT, "--backends and --backend: only one of them can say where");
    }
    if (options->kernels.count && options->kernel) {
        return tool_fail(TOOL_BAD_INPUT, "--kernels and --kernel: only one of them can say how");
    }
    if (options->work != WORK_APPEND && given(options, FILE_COS)) {
        return tool_fail(TOOL_BAD_INPUT, "--cos: only --op append rotates");
    }
    if (options->work != WORK_BACKWARD && given(options, FILE_DLSE)) {
        return tool_fail(TOOL_BAD_INPUT, "--dlse: only --op bwd takes it");
    }
    return TOOL_OK;
}

static attune_op op_of(enum option_work work) {
    static const attune_op ops[] = {
        [WORK_FORWARD] = ATTUNE_OP_FORWARD,
        [WORK_BACKWARD] = ATTUNE_OP_BACKWARD,
        [WORK_DECODE] = ATTUNE_OP_FORWARD,
        [WORK_APPEND] = ATTUNE_OP_APPEND,
    };
    return ops[work];
}

static enum tool_exit check_together(const struct options *options) {
    if (options->align.given && options->diagonal.given) {
        return tool_fail(TOOL_BAD_INPUT, "--align and --diagonal: only one of them can place the diagonal");
    }
    if (options->rotary_interleaved && !given(options, FILE_COS)) {
        return tool_fail(TOOL_BAD_INPUT, "--rotary-interleaved: needs --cos and --sin too");
    }
    if (options->op == ATTUNE_OP_FORWARD && given(options, FILE_DO)) {
        return tool_fail(TOOL_BAD_INPUT, "--op fwd and --do: forward takes no gradient");
    }
    return TOOL_OK;
}

/* ---- ---- */

enum tool_exit options_parse(unsigned command, int argc, char **argv, struct options *out_options) {
    struct flag_table table = table_of(command);
    *out_options = (struct options){0};
    enum tool_exit status = flags_parse(&table, argc, argv, out_options);
    if (status || out_options->help) {
        return status;
    }
    if (command & TIMED) {
        out_options->op = op_of(out_options->work);
    }
    status = check_required(out_options, command);
    if (!status) {
        status = check_together(out_options);
    }
    if (!status && (command & TIMED)) {
        status = check_timed(out_options);
    }
    if (!status && command == COMMAND_RUN) {
        status = check_outputs_differ(out_options);
    }
    return status ? status : check_needs(out_options);
}

void options_release(struct options *options) {
    free(options->kernels.text);
    free(options->backends.text);
    options->kernels = options->backends = (struct option_names){0};
    free(options->block_sparse.col_idx);
    free(options->block_sparse.row_ptr);
    options->block_sparse = (struct option_block_sparse){0};
}

void options_print_help(unsigned command, const char *usage, const char *examples) {
    struct flag_table table = table_of(command);
    flags_print_help(usage, &table, examples);
}
