/*
 * The golden backward against differences of the golden forward, in f64, for random mixtures of all options; and its
 * edges by hand. Names with a B are faults that other libraries had.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

#define B   2
#define SQ  5
#define SK  6
#define HQ  4
#define HKV 2
#define D   3
#define DV  5

/* ---- Problems ---- */

static void add_f64(struct reference_case *test, attune_operand operand, attune_operand like) {
    const int64_t *shape = test->problem.operand[like].shape;
    reference_case_add(test, operand, ATTUNE_DTYPE_F64, shape[0], shape[1], shape[2], shape[3]);
}

/* Everything that a difference is taken of, and every result, in f64, so that only the formula is tested. */
static void widen(struct reference_case *test, unsigned seed) {
    static const attune_operand pairs[][2] = {
        {ATTUNE_OPERAND_Q, ATTUNE_OPERAND_Q},      {ATTUNE_OPERAND_K, ATTUNE_OPERAND_K},
        {ATTUNE_OPERAND_V, ATTUNE_OPERAND_V},      {ATTUNE_OPERAND_O, ATTUNE_OPERAND_O},
        {ATTUNE_OPERAND_LSE, ATTUNE_OPERAND_LSE},  {ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_O},
        {ATTUNE_OPERAND_DLSE, ATTUNE_OPERAND_LSE}, {ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_Q},
        {ATTUNE_OPERAND_DK, ATTUNE_OPERAND_K},     {ATTUNE_OPERAND_DV, ATTUNE_OPERAND_V},
    };
    for (unsigned n = 0; n < sizeof pairs / sizeof *pairs; n++) {
        add_f64(test, pairs[n][0], pairs[n][1]);
    }
    for (unsigned n = 0; n < 3; n++) {
        reference_case_draw(test, ATTUNE_OPERAND_Q + n, seed + n, 1.5);
    }
    reference_case_draw(test, ATTUNE_OPERAND_DOUT, seed + 3, 1);
    reference_case_draw(test, ATTUNE_OPERAND_DLSE, seed + 4, 1);
}

static struct reference_case backward(unsigned seed) {
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, B, SQ, SK, HQ, HKV, D, DV);
    test.bindings.scale = 0.8;
    reference_case_add_attention(&test, seed);
    widen(&test, seed);
    return test;
}

/* Packed: three entries share the rows and keys of the dense problem, and one row and key more that nobody owns. */
static struct reference_case backward_packed(unsigned seed) {
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 3, SQ, SK, HQ, HKV, D, DV);
    test.bindings.scale = 0.8;
    reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_F64, 1, 10, HQ, D);
    reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_F64, 1, 13, HKV, D);
    reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F64, 1, 13, HKV, DV);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F64, 1, 10, HQ, DV);
    reference_case_add(&test, ATTUNE_OPERAND_LSE, ATTUNE_DTYPE_F64, 1, HQ, 10, 1);
    reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_Q, 4, (int32_t[]){0, 4, 4, 9});
    reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_K, 4, (int32_t[]){0, 6, 9, 12});
    widen(&test, seed);
    return test;
}

static void run_as(struct reference_case *test, attune_op op) {
    test->problem.op = op;
    reference_case_run(test);
}

/* ---- Differences ---- */

/* What the gradients are of: sum(o do) + sum(lse dlse) over what a sequence owns. */
static double loss(struct reference_case *test) {
    double sum = 0;
    reference_case_fill(test, ATTUNE_OPERAND_O, NAN);
    reference_case_fill(test, ATTUNE_OPERAND_LSE, NAN);
    run_as(test, ATTUNE_OP_FORWARD);
    for (int64_t n = 0; n < reference_case_count(test, ATTUNE_OPERAND_O); n++) {
        const double o = reference_case_get(test, ATTUNE_OPERAND_O, n);
        sum += isnan(o) ? 0 : o * reference_case_get(test, ATTUNE_OPERAND_DOUT, n);
    }
    for (int64_t n = 0; n < reference_case_count(test, ATTUNE_OPERAND_LSE); n++) {
        const double lse = reference_case_get(test, ATTUNE_OPERAND_LSE, n);
        sum += isfinite(lse) ? lse * reference_case_get(test, ATTUNE_OPERAND_DLSE, n) : 0;
    }
    return sum;
}

static double difference(struct reference_case *test, attune_operand operand, int64_t index, double step) {
    const double value = reference_case_get(test, operand, index);
    reference_case_set(test, operand, index, value + step);
    const double above = loss(test);
    reference_case_set(test, operand, index, value - step);
    const double below = loss(test);
    reference_case_set(test, operand, index, value);
    return (above - below) / (2 * step);
}

/* descale: by which a stored value is multiplied. A gradient that was not written (NaN) belongs to what no sequence
 * owns, and its difference is 0. */
static void check_gradient(struct reference_case *test, attune_operand operand, attune_operand gradient, double step,
                           double descale) {
    for (int64_t n = 0; n < reference_case_count(test, operand); n++) {
        const double got = reference_case_get(test, gradient, n);
        const double expected = difference(test, operand, n, step) / descale;
        reference_case_close(isnan(got) ? 0 : got, expected, 1e-6);
    }
}

static void check_gradients(struct reference_case *test) {
    (void)loss(test);
    run_as(test, ATTUNE_OP_BACKWARD);
    for (int n = 0; n < 3; n++) {
        const float *descale = test->memory[ATTUNE_OPERAND_DESCALE_Q + n];
        check_gradient(test, ATTUNE_OPERAND_Q + n, ATTUNE_OPERAND_DQ + n, 1e-4, descale == NULL ? 1 : (double)*descale);
    }
    if (test->memory[ATTUNE_OPERAND_BIAS] != NULL) {
        check_gradient(test, ATTUNE_OPERAND_BIAS, ATTUNE_OPERAND_DBIAS, 1e-4, 1);
    }
    if (test->memory[ATTUNE_OPERAND_SINK] != NULL) {
        check_gradient(test, ATTUNE_OPERAND_SINK, ATTUNE_OPERAND_DSINK, 0x1p-12, 1);
    }
}

/* ---- Options ---- */

static void add_bias(struct reference_case *test, int broadcast) {
    const int64_t n0 = (broadcast & 1) != 0 ? 1 : test->problem.batch;
    const int64_t n1 = (broadcast & 2) != 0 ? 1 : HQ;
    const int64_t n2 = (broadcast & 4) != 0 ? 1 : SQ;
    const int64_t n3 = (broadcast & 8) != 0 ? 1 : SK;
    reference_case_add(test, ATTUNE_OPERAND_BIAS, ATTUNE_DTYPE_F64, n0, n1, n2, n3);
    reference_case_draw(test, ATTUNE_OPERAND_BIAS, 50, 1);
    reference_case_add(test, ATTUNE_OPERAND_DBIAS, ATTUNE_DTYPE_F64, n0, n1, n2, n3);
}

static void add_mask(struct reference_case *test, unsigned seed) {
    uint8_t *mask = reference_case_add(test, ATTUNE_OPERAND_MASK, ATTUNE_DTYPE_U8, 1, HQ, SQ, SK);
    for (int n = 0; n < HQ * SQ * SK; n++) {
        mask[n] = reference_case_noise(seed, n) > -0.5;
    }
}

/* On a grid that a step of 2^-12 stays on, in f32. */
static void add_sink(struct reference_case *test) {
    float *sink = reference_case_add_f32(test, ATTUNE_OPERAND_SINK);
    reference_case_add(test, ATTUNE_OPERAND_DSINK, ATTUNE_DTYPE_F64, HQ, 1, 1, 1);
    for (int h = 0; h < HQ; h++) {
        sink[h] = (float)(h - 1) / 2;
    }
}

static void add_alibi(struct reference_case *test) {
    float *slope = reference_case_add_f32(test, ATTUNE_OPERAND_ALIBI_SLOPES);
    for (int h = 0; h < HQ; h++) {
        slope[h] = (float)h / 8;
    }
}

static void add_blocks(struct reference_case *test) {
    test->problem.block_rows = 2;
    test->problem.block_keys = 2;
    reference_case_add_integers(test, ATTUNE_OPERAND_BLOCK_ROW_PTR, 4, (int32_t[]){0, 2, 2, 5});
    reference_case_add_integers(test, ATTUNE_OPERAND_BLOCK_COL_IDX, 5, (int32_t[]){0, 2, 0, 1, 2});
}

static void add_descales(struct reference_case *test) {
    for (int n = 0; n < 3; n++) {
        *(float *)reference_case_add(test, ATTUNE_OPERAND_DESCALE_Q + n, ATTUNE_DTYPE_F32, 1, 1, 1, 1) =
            0.5f + 0.25f * (float)n;
    }
}

static void add_lengths(struct reference_case *test) {
    reference_case_add_integers(test, ATTUNE_OPERAND_SEQUSED_Q, 3, (int32_t[]){3, 2, 4});
    reference_case_add_integers(test, ATTUNE_OPERAND_SEQUSED_K, 3, (int32_t[]){5, 3, 2});
    reference_case_add_integers(test, ATTUNE_OPERAND_LEFTPAD_K, 3, (int32_t[]){1, 0, 2});
    if (test->memory[ATTUNE_OPERAND_CU_SEQLENS_Q] != NULL) {
        memcpy(test->memory[ATTUNE_OPERAND_SEQUSED_Q], (int32_t[]){3, 0, 4}, 3 * sizeof(int32_t));
    }
}

static void add_window(struct reference_case *test, unsigned choice) {
    static const int64_t windows[][2] = {{-1, 0}, {1, 2}, {0, -1}, {2, 0}};
    test->problem.window_left = windows[choice % 4][0];
    test->problem.window_right = windows[choice % 4][1];
    test->problem.align = choice / 4 % 3;
    test->problem.diagonal = test->problem.align == ATTUNE_ALIGN_DIAGONAL ? (int64_t)(choice / 12 % 5) - 2 : 0;
}

static void add_dropout(struct reference_case *test, unsigned seed) {
    test->problem.dropout_rate = 0.4;
    test->problem.key_origin = 3;
    test->bindings.dropout_seed = seed;
}

/* Bit n of options turns option n on. */
static void add_options(struct reference_case *test, unsigned options, unsigned seed) {
    test->problem.softcap = (options & 1) != 0 ? 0.9 : 0;
    if ((options & 2) != 0) {
        add_bias(test, (int)(seed % 16));
    }
    if ((options & 4) != 0) {
        add_mask(test, seed);
    }
    if ((options & 8) != 0) {
        add_sink(test);
    }
    if ((options & 16) != 0) {
        add_alibi(test);
    }
    if ((options & 32) != 0) {
        add_blocks(test);
    }
    if ((options & 64) != 0) {
        add_descales(test);
    }
    if ((options & 128) != 0) {
        add_lengths(test);
    }
    if ((options & 256) != 0) {
        add_window(test, seed);
    }
    if ((options & 512) != 0) {
        add_dropout(test, seed);
    }
}
#define OPTIONS 10

static void check_options(unsigned options, unsigned seed) {
    struct reference_case test = (options >> OPTIONS & 1) != 0 ? backward_packed(seed) : backward(seed);
    test.threads = 1; /* thousands of tiny runs */
    add_options(&test, options, seed);
    check_gradients(&test);
    reference_case_free(&test);
}

static void test_each_option(void **state) {
    (void)state;
    check_options(0, 1);
    for (unsigned n = 0; n <= OPTIONS; n++) {
        check_options(1u << n, 60 + n);
        check_options(1u << n | 1u << OPTIONS, 80 + n);
    }
}

static void test_mixtures_of_options(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 40; seed++) {
        const double chosen = (reference_case_noise(99, seed) + 1) / 2 * (2 << OPTIONS);
        check_options((unsigned)chosen, seed);
    }
}

static void test_every_broadcast_of_bias(void **state) {
    (void)state;
    for (unsigned broadcast = 0; broadcast < 16; broadcast++) {
        check_options(2, broadcast);
        check_options(2 | 128, broadcast);
    }
}

/* ---- Edges ---- */

static double at(const struct reference_case *test, attune_operand operand, int64_t index) {
    return reference_case_get(test, operand, index);
}

static void test_B030_sequences_without_rows(void **state) {
    (void)state;
    for (int64_t heads_q = 1; heads_q <= 2; heads_q++) {
        struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 3, 5, 8, heads_q, 1, 2, 2);
        reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_F64, 1, 5, heads_q, 2);
        reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_F64, 1, 22, 1, 2);
        reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F64, 1, 22, 1, 2);
        reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F64, 1, 5, heads_q, 2);
        reference_case_add(&test, ATTUNE_OPERAND_LSE, ATTUNE_DTYPE_F64, 1, heads_q, 5, 1);
        widen(&test, 1);
        reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_Q, 4, (int32_t[]){0, 0, 5, 5});
        reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_K, 4, (int32_t[]){0, 7, 12, 20});
        run_as(&test, ATTUNE_OP_FORWARD);
        run_as(&test, ATTUNE_OP_BACKWARD);
        for (int64_t n = 0; n < 22 * 2; n++) {
            const bool owned = n < 20 * 2;
            const bool seen = n >= 7 * 2 && n < 12 * 2;
            assert_true(isnan(at(&test, ATTUNE_OPERAND_DK, n)) == !owned);
            assert_true(isnan(at(&test, ATTUNE_OPERAND_DV, n)) == !owned);
            assert_true(!owned || (at(&test, ATTUNE_OPERAND_DV, n) != 0) == seen);
            assert_true(!owned || seen || at(&test, ATTUNE_OPERAND_DK, n) == 0);
        }
        reference_case_free(&test);
    }
}

/* Keys under the left padding and past the used length own no gradient; rows past theirs neither. */
static void test_unowned_is_not_written(void **state) {
    (void)state;
    struct reference_case test = backward(3);
    add_lengths(&test);
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    const int rows[] = {3, 2};
    const int keys[][2] = {{1, 5}, {0, 3}};
    for (int64_t n = 0; n < B * SQ * HQ * D; n++) {
        const int64_t b = n / (SQ * HQ * D);
        assert_true(isnan(at(&test, ATTUNE_OPERAND_DQ, n)) == (n / (HQ * D) % SQ >= rows[b]));
    }
    for (int64_t n = 0; n < B * SK * HKV * D; n++) {
        const int64_t b = n / (SK * HKV * D);
        const int64_t j = n / (HKV * D) % SK;
        assert_true(isnan(at(&test, ATTUNE_OPERAND_DK, n)) == (j < keys[b][0] || j >= keys[b][1]));
    }
    reference_case_free(&test);
}

/* Rows that see nothing have no gradient, whatever their do and dlse hold; with a sink, dsink gets dlse. */
static void test_B038_rows_without_keys(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 1, 4, 2, 1, 1, 2, 2);
    reference_case_add_attention(&test, 5);
    widen(&test, 5);
    test.problem.window_right = 0; /* rows 0 and 1 see nothing */
    run_as(&test, ATTUNE_OP_FORWARD);
    reference_case_set(&test, ATTUNE_OPERAND_DOUT, 0, NAN);
    reference_case_set(&test, ATTUNE_OPERAND_DLSE, 1, INFINITY);
    run_as(&test, ATTUNE_OP_BACKWARD);
    for (int64_t n = 0; n < 8; n++) {
        assert_true(n < 4 ? at(&test, ATTUNE_OPERAND_DQ, n) == 0 : isfinite(at(&test, ATTUNE_OPERAND_DQ, n)));
    }
    for (int64_t n = 0; n < 4; n++) {
        assert_true(isfinite(at(&test, ATTUNE_OPERAND_DK, n)) && isfinite(at(&test, ATTUNE_OPERAND_DV, n)));
    }
    reference_case_set(&test, ATTUNE_OPERAND_DOUT, 0, 1);
    reference_case_set(&test, ATTUNE_OPERAND_DLSE, 1, 0.75);
    test.problem.window_right = -1;
    reference_case_add_integers(&test, ATTUNE_OPERAND_SEQUSED_K, 1, (int32_t[]){0});
    float *sink = reference_case_add_f32(&test, ATTUNE_OPERAND_SINK);
    reference_case_add(&test, ATTUNE_OPERAND_DSINK, ATTUNE_DTYPE_F64, 1, 1, 1, 1);
    *sink = 2;
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    double sum = 0;
    for (int64_t i = 0; i < 4; i++) {
        sum += at(&test, ATTUNE_OPERAND_DLSE, i);
    }
    reference_case_close(at(&test, ATTUNE_OPERAND_DSINK, 0), sum, 1e-12);
    *sink = -INFINITY;
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    assert_true(at(&test, ATTUNE_OPERAND_DSINK, 0) == 0);
    reference_case_free(&test);
}

/* A sink of -inf takes no part, even where its row's gradient is not finite. */
static void test_no_sink_has_no_gradient(void **state) {
    (void)state;
    struct reference_case test = backward(3);
    add_sink(&test);
    *(float *)test.memory[ATTUNE_OPERAND_SINK] = -INFINITY;
    run_as(&test, ATTUNE_OP_FORWARD);
    reference_case_fill(&test, ATTUNE_OPERAND_DLSE, INFINITY);
    run_as(&test, ATTUNE_OP_BACKWARD);
    assert_true(at(&test, ATTUNE_OPERAND_DSINK, 0) == 0 && !isfinite(at(&test, ATTUNE_OPERAND_DSINK, 1)));
    reference_case_free(&test);
}

/* Scores below -FLT_MAX: lse is -inf in f32, as if the row saw nothing, and so it has no gradient. */
static void test_lse_that_f32_cannot_hold(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 1, 1, 2, 1, 1, 1, 1);
    reference_case_add_attention(&test, 1);
    reference_case_add_gradients(&test, 2);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 1e20);
    reference_case_fill(&test, ATTUNE_OPERAND_K, -1e20);
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    assert_true(at(&test, ATTUNE_OPERAND_LSE, 0) == -INFINITY);
    assert_true(at(&test, ATTUNE_OPERAND_DQ, 0) == 0 && at(&test, ATTUNE_OPERAND_DV, 1) == 0);
    reference_case_free(&test);
}

static void test_nan_in_q_stays_in_its_row(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 1, 4, 4, 1, 1, 2, 2);
    reference_case_add_attention(&test, 5);
    widen(&test, 5);
    test.problem.window_left = 1;
    test.problem.window_right = 0;
    reference_case_set(&test, ATTUNE_OPERAND_Q, 2 * 2, NAN); /* row 2 sees keys 1 and 2 */
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    for (int64_t n = 0; n < 8; n++) {
        assert_true(isnan(at(&test, ATTUNE_OPERAND_DQ, n)) == (n / 2 == 2));
        assert_true(isnan(at(&test, ATTUNE_OPERAND_DK, n)) == (n / 2 == 1 || n / 2 == 2));
        assert_true(isnan(at(&test, ATTUNE_OPERAND_DV, n)) == (n / 2 == 1 || n / 2 == 2));
    }
    reference_case_free(&test);
}

static void test_B056_nothing_there(void **state) {
    (void)state;
    const int64_t sizes[][3] = {{0, 3, 2}, {2, 0, 2}, {2, 3, 0}, {0, 0, 2}, {0, 3, 0}, {2, 0, 0}, {0, 0, 0}};
    for (int n = 0; n < 7; n++) {
        struct reference_case test =
            reference_case_make(ATTUNE_OP_BACKWARD, sizes[n][0], sizes[n][1], sizes[n][2], 2, 1, 2, 2);
        reference_case_add_attention(&test, 5);
        widen(&test, 5);
        reference_case_add(&test, ATTUNE_OPERAND_BIAS, ATTUNE_DTYPE_F64, 1, 1, 1, 1);
        reference_case_add(&test, ATTUNE_OPERAND_DBIAS, ATTUNE_DTYPE_F64, 1, 1, 1, 1);
        reference_case_fill(&test, ATTUNE_OPERAND_BIAS, 0);
        run_as(&test, ATTUNE_OP_FORWARD);
        run_as(&test, ATTUNE_OP_BACKWARD);
        for (int64_t at_key = 0; at_key < reference_case_count(&test, ATTUNE_OPERAND_DK); at_key++) {
            assert_true(at(&test, ATTUNE_OPERAND_DK, at_key) == 0 && at(&test, ATTUNE_OPERAND_DV, at_key) == 0);
        }
        for (int64_t row = 0; row < reference_case_count(&test, ATTUNE_OPERAND_DQ); row++) {
            assert_true(at(&test, ATTUNE_OPERAND_DQ, row) == 0);
        }
        assert_true(at(&test, ATTUNE_OPERAND_DBIAS, 0) == 0);
        reference_case_free(&test);
    }
}

/* Any of the gradients alone is what it is together with the others. */
static void test_gradients_are_optional(void **state) {
    (void)state;
    static const attune_operand gradients[] = {ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV};
    struct reference_case all = backward(3);
    run_as(&all, ATTUNE_OP_FORWARD);
    run_as(&all, ATTUNE_OP_BACKWARD);
    for (int n = 0; n < 3; n++) {
        struct reference_case test = backward(3);
        run_as(&test, ATTUNE_OP_FORWARD);
        for (int other = 0; other < 3; other++) {
            if (other != n) {
                test.problem.operand[gradients[other]] = (attune_layout){0};
                test.bindings.operand[gradients[other]].data = NULL;
            }
        }
        run_as(&test, ATTUNE_OP_BACKWARD);
        assert_memory_equal(all.memory[gradients[n]], test.memory[gradients[n]],
                            (size_t)reference_case_count(&all, gradients[n]) * sizeof(double));
        reference_case_free(&test);
    }
    reference_case_free(&all);
}

static struct reference_case large(int32_t threads) {
    struct reference_case test = reference_case_make(ATTUNE_OP_BACKWARD, 2, 37, 41, 4, 2, 24, 16);
    reference_case_add_attention(&test, 7);
    reference_case_add_gradients(&test, 8);
    reference_case_add(&test, ATTUNE_OPERAND_BIAS, ATTUNE_DTYPE_F32, 1, 4, 1, 41);
    reference_case_add(&test, ATTUNE_OPERAND_DBIAS, ATTUNE_DTYPE_F32, 1, 4, 1, 41);
    reference_case_draw(&test, ATTUNE_OPERAND_BIAS, 9, 1);
    test.problem.window_right = 0;
    test.threads = threads;
    run_as(&test, ATTUNE_OP_FORWARD);
    run_as(&test, ATTUNE_OP_BACKWARD);
    return test;
}

static void test_B098_threads_change_nothing(void **state) {
    (void)state;
    static const attune_operand results[] = {ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV,
                                             ATTUNE_OPERAND_DBIAS};
    struct reference_case one = large(1);
    for (int32_t threads = 2; threads <= 8; threads *= 2) {
        struct reference_case test = large(threads);
        for (int n = 0; n < 4; n++) {
            assert_memory_equal(one.memory[results[n]], test.memory[results[n]],
                                (size_t)reference_case_count(&one, results[n]) * sizeof(float));
        }
        reference_case_free(&test);
    }
    reference_case_free(&one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_option),
        cmocka_unit_test(test_mixtures_of_options),
        cmocka_unit_test(test_every_broadcast_of_bias),
        cmocka_unit_test(test_B030_sequences_without_rows),
        cmocka_unit_test(test_unowned_is_not_written),
        cmocka_unit_test(test_B038_rows_without_keys),
        cmocka_unit_test(test_no_sink_has_no_gradient),
        cmocka_unit_test(test_lse_that_f32_cannot_hold),
        cmocka_unit_test(test_nan_in_q_stays_in_its_row),
        cmocka_unit_test(test_B056_nothing_there),
        cmocka_unit_test(test_gradients_are_optional),
        cmocka_unit_test(test_B098_threads_change_nothing),
    };
    return cmocka_run_group_tests_name("reference backward", tests, NULL, NULL);
}
