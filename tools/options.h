/*
 * The options that run, plan, bench and tune share: one table parses and documents them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_OPTIONS_H
#define ATTUNE_TOOLS_OPTIONS_H

#include "attune/attention.h"
#include "attune/plan.h"
#include "values.h"

enum { COMMAND_RUN = 1, COMMAND_PLAN = 2, COMMAND_BENCH = 4, COMMAND_TUNE = 8 };

/* Every flag whose value is one file. */
enum option_file {
    FILE_Q,
    FILE_K,
    FILE_V,
    FILE_O,
    FILE_LSE,
    FILE_PROBS,
    FILE_DO,
    FILE_DLSE,
    FILE_DQ,
    FILE_DK,
    FILE_DV,
    FILE_DBIAS,
    FILE_DSINK,
    FILE_BIAS,
    FILE_MASK,
    FILE_ALIBI,
    FILE_SINK,
    FILE_CU_SEQLENS_Q,
    FILE_CU_SEQLENS_K,
    FILE_SEQUSED_Q,
    FILE_SEQUSED_K,
    FILE_LEFTPAD_K,
    FILE_BLOCK_TABLE,
    FILE_DESCALE_Q,
    FILE_DESCALE_K,
    FILE_DESCALE_V,
    FILE_KNEW,
    FILE_VNEW,
    FILE_COS,
    FILE_SIN,
    FILE_K_OUT,
    FILE_V_OUT,
    FILE_COUNT
};

/* What bench and tune run. */
enum option_work { WORK_FORWARD, WORK_BACKWARD, WORK_DECODE, WORK_APPEND };

enum option_layout { LAYOUT_BSHD, LAYOUT_BHSD };

struct option_align {
    bool given;
    attune_align value;
};

struct option_block_sparse {
    char *row_ptr; /* NULL: not given. From malloc, as col_idx */
    char *col_idx;
    int64_t rows;
    int64_t keys;
};

struct option_shape {
    bool given;
    int64_t batch;
    int64_t rows;
    int64_t keys;
    int64_t heads_q;
    int64_t heads_kv;
    int64_t head_dim;
    int64_t head_dim_v;
};

enum { OPTION_LIST_MAX = 32 };

/* Numbers or names that were separated by commas. */
struct option_lengths {
    int64_t item[OPTION_LIST_MAX];
    int count; /* 0: not given */
};

struct option_names {
    char *text; /* what item points into. From malloc */
    const char *item[OPTION_LIST_MAX];
    int count;
};

/* All zeros is the default of everything. */
struct options {
    bool help;
    bool json;
    const char *files[FILE_COUNT]; /* NULL: not given */
    const char *backend;           /* NULL: the library's choice */
    attune_dtype dtype;            /* NONE: that of q's file */
    attune_dtype out_dtype;        /* NONE: that of q, or bf16 */
    enum option_layout layout;

    struct optional_number scale;
    double softcap;
    bool causal;
    struct option_align align;
    struct optional_integer diagonal;
    attune_window window;
    double dropout_rate;
    uint64_t dropout_seed;
    uint32_t dropout_offset;

    int64_t max_seqlen_q; /* 0: the longest in the file */
    int64_t max_seqlen_k;
    int64_t page_size; /* 0: not given */
    struct option_block_sparse block_sparse;
    bool rotary_interleaved;

    int64_t splits;
    struct tile_sides tile;
    const char *kernel;
    bool deterministic;
    bool check;
    int64_t repeat; /* 0: not given */
    bool memory;    /* run */

    struct option_shape shape; /* all but run, as op */
    attune_op op;              /* 0: not given. bench and tune: what work comes down to */
    enum option_work work;     /* bench, tune */

    struct option_lengths lengths; /* bench */
    struct option_names backends;
    struct option_names kernels;
    bool no_verify;
    const char *csv;
    const char *plot;
};

/* Parses and checks what flags say of each other, but --help alone is checked no further. options_release releases it,
 * after an error too. */
enum tool_exit options_parse(unsigned command, int argc, char **argv, struct options *out_options);

void options_release(struct options *options);

/* The flag of a file, for sentences. */
const char *option_file_flag(enum option_file file);

/* flags_print_help of a command. */
void options_print_help(unsigned command, const char *usage, const char *examples);

/* Setters that other commands' tables use too. */
enum tool_exit option_set_layout(const struct flag *flag, const char *text, void *out_field);

#endif
