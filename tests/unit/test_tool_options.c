/*
 * The flags of the command: what run, plan, bench and tune accept, what they refuse, and what they say then.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* dup, dup2 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

enum { WORDS_MAX = 64, TEXT_BYTES = 4096 };

static struct options options;
static char said[TEXT_BYTES]; /* on stderr by the last parse */

static void expect_said(FILE *capture) {
    rewind(capture);
    size_t length = fread(said, 1, sizeof said - 1, capture);
    said[length] = '\0';
}

/* line: words with single spaces between them, parsed with stderr kept in `said`. */
static enum tool_exit parse(unsigned command, const char *line) {
    static char text[TEXT_BYTES];
    char *argv[WORDS_MAX] = {"command"};
    int argc = 1;
    snprintf(text, sizeof text, "%s", line);
    for (char *word = text; word && *line; argc++) {
        assert_true(argc < WORDS_MAX - 1);
        argv[argc] = word;
        word = strchr(word, ' ');
        if (word) {
            *word++ = '\0';
        }
    }
    FILE *capture = tmpfile();
    assert_non_null(capture);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    assert_true(dup2(fileno(capture), STDERR_FILENO) >= 0);
    options_release(&options);
    enum tool_exit status = options_parse(command, argc, argv, &options);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    expect_said(capture);
    fclose(capture);
    return status;
}

#define QKV "--q q.npy --k k.npy --v v.npy "

static void accept(const char *flags) {
    char line[TEXT_BYTES];
    snprintf(line, sizeof line, QKV "%s", flags);
    if (!*flags) {
        line[strlen(line) - 1] = '\0';
    }
    enum tool_exit status = parse(COMMAND_RUN, line);
    if (status) {
        fail_msg("refused: %s: %s", line, said);
    }
    assert_string_equal(said, "");
}

/* The flags are bad input, and the sentence has what it has to have. */
static void refuse(const char *flags, const char *words) {
    char line[TEXT_BYTES];
    snprintf(line, sizeof line, QKV "%s", flags);
    if (parse(COMMAND_RUN, line) != TOOL_BAD_INPUT) {
        fail_msg("accepted: %s", line);
    }
    if (!strstr(said, words)) {
        fail_msg("'%s' says '%s', without '%s'", line, said, words);
    }
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

/* ---- Words ---- */

static void test_every_flag_of_the_contract(void **state) {
    (void)state;
    accept("-o o.npy --lse l.npy --do do.npy --dlse dl.npy --dq dq.npy --dk dk.npy --dv dv.npy --dbias db.npy "
           "--dsink ds.npy --probs p.npy --backend cpu --dtype e4m3 --out-dtype bf16 --layout bhsd --scale 0 "
           "--causal --align top-left --window 3,-1 --softcap 30 --alibi a.npy --bias b.npy --mask m.npy "
           "--sink s.npy --dropout 0.25");
    assert_string_equal(options.files[FILE_O], "o.npy");
    assert_string_equal(options.files[FILE_DSINK], "ds.npy");
    assert_string_equal(options.files[FILE_ALIBI], "a.npy");
    assert_string_equal(options.backend, "cpu");
    assert_int_equal(options.dtype, ATTUNE_DTYPE_E4M3);
    assert_int_equal(options.out_dtype, ATTUNE_DTYPE_BF16);
    assert_int_equal(options.layout, LAYOUT_BHSD);
    assert_true(options.scale.given && options.scale.value == 0);
    assert_true(options.causal);
    assert_int_equal(options.align.value, ATTUNE_ALIGN_TOP_LEFT);
    assert_true(options.window.set && options.window.left == 3 && options.window.right == -1);
    assert_true(options.softcap == 30 && options.dropout_rate == 0.25);

    accept("--seed 7 --offset 8 --diagonal -9 --cu-seqlens-q cq.npy --cu-seqlens-k ck.npy --max-seqlen-q 10 "
           "--max-seqlen-k 11 --seqused-q sq.npy --seqused-k sk.npy --leftpad-k lp.npy --block-table bt.npy "
           "--page-size 12 --block-sparse rp.npy,ci.npy,13,14 --descale-q xq.npy --descale-k xk.npy "
           "--descale-v xv.npy --splits 15 --tile 64x128 --kernel row --deterministic --check --repeat 16 --json");
    assert_true(options.dropout_seed == 7 && options.dropout_offset == 8);
    assert_true(options.diagonal.given && options.diagonal.value == -9);
    assert_true(options.max_seqlen_q == 10 && options.max_seqlen_k == 11 && options.page_size == 12);
    assert_string_equal(options.block_sparse.row_ptr, "rp.npy");
    assert_string_equal(options.block_sparse.col_idx, "ci.npy");
    assert_true(options.block_sparse.rows == 13 && options.block_sparse.keys == 14);
    assert_true(options.splits == 15 && options.tile.rows == 64 && options.tile.keys == 128);
    assert_string_equal(options.kernel, "row");
    assert_true(options.deterministic && options.check && options.repeat == 16 && options.json);

    accept("--knew kn.npy --vnew vn.npy --cos c.npy --sin s.npy --rotary-interleaved --k-out ko.npy --v-out vo.npy");
    assert_true(options.rotary_interleaved);
    assert_string_equal(options.files[FILE_V_OUT], "vo.npy");
}

static void test_defaults(void **state) {
    (void)state;
    accept("");
    assert_false(options.scale.given || options.diagonal.given || options.align.given || options.window.set);
    assert_int_equal(options.dtype, ATTUNE_DTYPE_NONE);
    assert_int_equal(options.repeat, 0);
    assert_null(options.files[FILE_O]);
    assert_null(options.backend);
}

static void test_a_flag_takes_the_next_word_whatever_it_is(void **state) {
    (void)state;
    accept("-o -odd.npy --lse --causal --scale -0.5 --window -1,0");
    assert_string_equal(options.files[FILE_O], "-odd.npy");
    assert_string_equal(options.files[FILE_LSE], "--causal");
    assert_false(options.causal);
    assert_true(options.scale.value == -0.5);
    accept("--scale=-2");
    assert_true(options.scale.value == -2);
}

static void test_words_that_are_no_flags(void **state) {
    (void)state;
    refuse("--wndow 1,1", "--wndow: no such flag");
    refuse("--caus", "--caus: no such flag"); /* an abbreviation */
    refuse("--max-seqlen 3", "--max-seqlen: no such flag");
    refuse("--out-dtyp=f32", "--out-dtyp=f32: no such flag");
    refuse("--out-dtyp", "--out-dtyp: no such flag");
    refuse("-x", "-x: no such flag");
    refuse("--shape 1,1,1,1,1,1", "--shape: no such flag"); /* plan's */
    refuse("--causal stray", "stray: neither a flag nor the value of one");
    refuse("--causal --causal", "--causal: the flag is given twice");
    refuse("--scale 1 --scale 2", "--scale 2: the flag is given twice");
    refuse("--causal=1", "--causal takes no value");
    refuse("--scale", "--scale: needs a value");
    refuse("-o", "-o: needs a value");
    refuse("--lse=", "--lse '': the value is empty");
}

static void test_help_asks_for_nothing_else(void **state) {
    (void)state;
    assert_int_equal(parse(COMMAND_RUN, "--help"), TOOL_OK);
    assert_true(options.help);
    assert_int_equal(parse(COMMAND_PLAN, "--help"), TOOL_OK);
    assert_true(options.help);
}

/* ---- Values ---- */

static void test_numbers_are_exact_or_refused(void **state) {
    (void)state;
    accept("--scale 1e-300");
    assert_true(options.scale.value == 1e-300);
    static const char *const not_finite[] = {"inf", "-inf", "nan", "1e999", "1x", "0x", "1,0", "--"};
    for (size_t i = 0; i < sizeof not_finite / sizeof not_finite[0]; i++) {
        char flags[64];
        snprintf(flags, sizeof flags, "--scale %s", not_finite[i]);
        refuse(flags, "a finite number is needed");
    }
    refuse("--softcap -1", "--softcap -1: a softcap is a finite number, 0 (off) or more");
    refuse("--softcap nan", "--softcap nan: ");
    refuse("--dropout 1", "--dropout 1: a rate is from 0 (off) to less than 1");
    refuse("--dropout -0.1", "--dropout -0.1: ");
    accept("--dropout 0");
}

static void test_integers_are_exact_or_refused(void **state) {
    (void)state;
    accept("--seed 18446744073709551615 --offset 4294967295");
    assert_true(options.dropout_seed == UINT64_MAX && options.dropout_offset == UINT32_MAX);
    refuse("--seed 18446744073709551616", "--seed 18446744073709551616: an integer from 0 to 18446744073709551615");
    refuse("--seed -1", "--seed -1: ");
    refuse("--seed +1", "--seed +1: ");
    refuse("--seed 1e3", "--seed 1e3: ");
    refuse("--seed 0x10", "--seed 0x10: ");
    refuse("--offset 4294967296", "--offset 4294967296: an integer from 0 to 4294967295");
    refuse("--page-size 0", "--page-size 0: an integer from 1 to");
    refuse("--max-seqlen-q -1", "--max-seqlen-q -1: an integer from 0 to");
    refuse("--max-seqlen-k 9223372036854775808", "--max-seqlen-k 9223372036854775808: ");
    refuse("--splits 2147483648", "--splits 2147483648: an integer from 0 to 2147483647");
    refuse("--repeat 0", "--repeat 0: an integer from 1 to");
    accept("--diagonal -2305843009213693952");
    refuse("--diagonal -2305843009213693953", "--diagonal -2305843009213693953: ");
}

static void test_pairs_and_lists(void **state) {
    (void)state;
    refuse("--window -2,0", "--window -2,0: a window side is -1 (open) or more");
    refuse("--window 1", "--window 1: two integers L,R are needed");
    refuse("--window 1,2,3", "--window 1,2,3: two integers");
    refuse("--window 1,", "--window 1,: two integers");
    accept("--tile 16x128");
    refuse("--tile 64", "--tile 64: a tile is BRxBC");
    refuse("--tile 15x64", "--tile 15x64: a tile is BRxBC, each from 16 to 128");
    refuse("--tile 64x129", "--tile 64x129: ");
    refuse("--block-sparse r.npy,c.npy,8", "two files and two integers");
    refuse("--block-sparse r.npy,c.npy,8,8,8", "two files and two integers");
    refuse("--block-sparse ,c.npy,8,8", "two files and two integers");
    refuse("--block-sparse r.npy,,8,8", "two files and two integers");
    refuse("--block-sparse r.npy", "two files and two integers");
    refuse("--block-sparse r.npy,c.npy,0,8", "a block has 1 row and 1 key or more");
    accept("--block-sparse a.safetensors:r,a.safetensors:c,1,2");
    assert_string_equal(options.block_sparse.col_idx, "a.safetensors:c");
}

static void test_names(void **state) {
    (void)state;
    refuse("--dtype f64", "--dtype f64: a dtype is f32, f16, bf16 or e4m3");
    refuse("--dtype F32", "--dtype F32: ");
    refuse("--out-dtype i32", "--out-dtype i32: ");
    refuse("--layout sbhd", "--layout sbhd: a layout is bshd or bhsd");
    refuse("--align left", "--align left: an alignment is bottom-right or top-left");
}

/* ---- What flags say of each other ---- */

static void test_flags_that_need_others(void **state) {
    (void)state;
    assert_int_equal(parse(COMMAND_RUN, "--q q.npy --k k.npy"), TOOL_BAD_INPUT);
    assert_non_null(strstr(said, "--v: needed, and not given"));
    refuse("--dq dq.npy", "--dq dq.npy: needs --do too");
    refuse("--dlse dl.npy", "--dlse dl.npy: needs --do too");
    refuse("--do do.npy --dbias db.npy", "--dbias db.npy: needs --bias too");
    refuse("--do do.npy --dsink ds.npy", "--dsink ds.npy: needs --sink too");
    refuse("--knew kn.npy", "--knew kn.npy: needs --vnew too");
    refuse("--vnew vn.npy", "--vnew vn.npy: needs --knew too");
    refuse("--cos c.npy --sin s.npy", "--cos c.npy: needs --knew too");
    refuse("--knew kn.npy --vnew vn.npy --sin s.npy", "--sin s.npy: needs --cos too");
    refuse("--k-out ko.npy", "--k-out ko.npy: needs --knew too");
    refuse("--rotary-interleaved", "--rotary-interleaved: needs --cos");
}

static void test_flags_that_exclude_others(void **state) {
    (void)state;
    refuse("--align top-left --diagonal 0", "--align and --diagonal: only one");
    refuse("-o x.npy --lse x.npy", "-o and --lse both name x.npy");
}

/* ---- plan ---- */

static void test_plan(void **state) {
    (void)state;
    assert_int_equal(parse(COMMAND_PLAN, "--shape 2,3,4,6,2,64"), TOOL_OK);
    assert_true(options.shape.batch == 2 && options.shape.rows == 3 && options.shape.keys == 4);
    assert_true(options.shape.heads_q == 6 && options.shape.heads_kv == 2);
    assert_true(options.shape.head_dim == 64 && options.shape.head_dim_v == 64);
    assert_int_equal(options.op, 0);
    assert_int_equal(parse(COMMAND_PLAN, "--shape 2,3,4,6,2,64,32 --op bwd --dq dq.npy"), TOOL_OK);
    assert_int_equal(options.shape.head_dim_v, 32);
    assert_int_equal(options.op, ATTUNE_OP_BACKWARD);
    assert_int_equal(parse(COMMAND_PLAN, "--shape 2,3,4,6,2,64 --repeat 2"), TOOL_OK);
    static const char *const refused[] = {"",
                                          "--shape 2,3,4,6,2",
                                          "--shape 1,2,3,4,5,6,7,8",
                                          "--shape -1,3,4,6,2,64",
                                          "--shape 2,3,4,6,2,64 --q q.npy",
                                          "--shape 2,3,4,6,2,64 --op fwd --do do.npy",
                                          "--shape 2,3,4,6,2,64 --op both"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(parse(COMMAND_PLAN, refused[i]), TOOL_BAD_INPUT);
    }
}

/* ---- bench and tune ---- */

#define SHAPE "--shape 2,3,4,6,2,64 "

static void test_bench(void **state) {
    (void)state;
    assert_int_equal(parse(COMMAND_BENCH, SHAPE "--lengths 512,1k,3K --backends cpu,cuda:1 --kernels a,b,c"), TOOL_OK);
    assert_int_equal(options.lengths.count, 3);
    assert_true(options.lengths.item[0] == 512 && options.lengths.item[1] == 1024 && options.lengths.item[2] == 3072);
    assert_int_equal(options.backends.count, 2);
    assert_string_equal(options.backends.item[1], "cuda:1");
    assert_int_equal(options.kernels.count, 3);
    assert_string_equal(options.kernels.item[0], "a");
    assert_string_equal(options.kernels.item[2], "c");
    assert_true(options.work == WORK_FORWARD && options.op == ATTUNE_OP_FORWARD && options.repeat == 0);
    assert_int_equal(parse(COMMAND_BENCH, SHAPE "--op bwd --dq x --dlse y"), TOOL_OK);
    assert_int_equal(options.op, ATTUNE_OP_BACKWARD);
    assert_int_equal(parse(COMMAND_BENCH, SHAPE "--op decode"), TOOL_OK);
    assert_true(options.work == WORK_DECODE && options.op == ATTUNE_OP_FORWARD);
    assert_int_equal(parse(COMMAND_BENCH, SHAPE "--op append --cos c --sin s --rotary-interleaved"), TOOL_OK);
    assert_int_equal(options.op, ATTUNE_OP_APPEND);
}

static void test_bench_refuses(void **state) {
    (void)state;
    static const char *const refused[][2] = {
        {"--lengths 512", "--shape: needed"},
        {SHAPE "--lengths 0", "1 to 32 lengths"},
        {SHAPE "--lengths 1,,2", "1 to 32 lengths"},
        {SHAPE "--lengths 1,", "1 to 32 lengths"},
        {SHAPE "--lengths 1m", "separated by commas"},
        {SHAPE "--lengths 9223372036854775807k", "1 to 32 lengths"},
        {SHAPE "--lengths 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "1 to 32 lengths"},
        {SHAPE "--backends cpu,,cuda", "1 to 32 names"},
        {SHAPE "--backends cpu,", "1 to 32 names"},
        {SHAPE "--backends cpu --backend cpu", "only one"},
        {SHAPE "--kernels a --kernel a", "only one"},
        {SHAPE "--op both", "fwd, bwd, decode or append"},
        {SHAPE "--op fwd --dq x", "--do too"},
        {SHAPE "--op decode --cos c --sin s", "only --op append"},
        {SHAPE "--op append --cos c", "--sin too"},
        {SHAPE "--op append --dlse x", "only --op bwd"},
        {SHAPE "--repeat 1001", "1000"},
        {SHAPE "--do x", "no such flag"},
        {SHAPE "--knew x", "no such flag"},
        {SHAPE "-o x", "no such flag"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(parse(COMMAND_BENCH, refused[i][0]), TOOL_BAD_INPUT);
        if (!strstr(said, refused[i][1])) {
            fail_msg("'%s' says '%s', without '%s'", refused[i][0], said, refused[i][1]);
        }
    }
}

static void test_tune(void **state) {
    (void)state;
    assert_int_equal(parse(COMMAND_TUNE, SHAPE "--op bwd --causal --repeat 5"), TOOL_OK);
    assert_int_equal(options.op, ATTUNE_OP_BACKWARD);
    assert_int_equal(parse(COMMAND_TUNE, SHAPE "--tile 64x64"), TOOL_BAD_INPUT);
    assert_int_equal(parse(COMMAND_TUNE, SHAPE "--lengths 1k"), TOOL_BAD_INPUT);
}

static int release(void **state) {
    (void)state;
    options_release(&options);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_flag_of_the_contract),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_a_flag_takes_the_next_word_whatever_it_is),
        cmocka_unit_test(test_words_that_are_no_flags),
        cmocka_unit_test(test_help_asks_for_nothing_else),
        cmocka_unit_test(test_numbers_are_exact_or_refused),
        cmocka_unit_test(test_integers_are_exact_or_refused),
        cmocka_unit_test(test_pairs_and_lists),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_flags_that_need_others),
        cmocka_unit_test(test_flags_that_exclude_others),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_bench),
        cmocka_unit_test(test_bench_refuses),
        cmocka_unit_test(test_tune),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
