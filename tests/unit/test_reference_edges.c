/*
 * The golden forward at its edges: numbers that are not finite, dropout, dtypes, strides, threads. Names with a B are
 * faults that other libraries had.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

/* ---- Numbers that are not finite ---- */

static void test_infinite_score_is_nan_in_its_row(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 3, 4, 1, 1, 4, 3);
    float *bias = reference_case_add_f32(&test, ATTUNE_OPERAND_BIAS);
    memset(bias, 0, 12 * sizeof *bias);
    bias[4 + 2] = INFINITY;
    bias[8 + 0] = -INFINITY;
    reference_case_run(&test);
    for (int i = 0; i < 3; i++) {
        assert_true(isnan(reference_case_lse(&test, i)) == (i == 1));
        assert_true(isnan(reference_case_o(&test, 3 * i)) == (i == 1) &&
                    isnan(reference_case_o(&test, 3 * i + 2)) == (i == 1));
    }
    reference_case_free(&test);
}

static void test_minus_infinity_is_no_key(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(2, 3);
    float *bias = reference_case_add_f32(&test, ATTUNE_OPERAND_BIAS);
    for (int n = 0; n < 6; n++) {
        bias[n] = n < 3 || n == 4 ? -INFINITY : 0;
    }
    /* Its value may be anything. */
    reference_case_set(&test, ATTUNE_OPERAND_V, 3, NAN);
    reference_case_counts(&test, (int[]){0, 2});
    assert_true(isfinite(reference_case_o(&test, 3)));
    reference_case_free(&test);
}

static void test_lowest_finite_score_is_ordinary(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(1, 4);
    float *bias = reference_case_add_f32(&test, ATTUNE_OPERAND_BIAS);
    for (int n = 0; n < 4; n++) {
        bias[n] = -3.402823466e38f;
    }
    reference_case_fill(&test, ATTUNE_OPERAND_V, 2.5);
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 0) == 2.5);
    reference_case_free(&test);
}

static void test_nan_in_q_and_in_unseen_keys(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 4, 4, 1, 1, 4, 3);
    test.problem.window_right = 0;
    reference_case_set(&test, ATTUNE_OPERAND_Q, 4, NAN);         /* row 1 */
    reference_case_set(&test, ATTUNE_OPERAND_K, 3 * 4 + 1, NAN); /* key 3: row 3 alone sees it */
    reference_case_set(&test, ATTUNE_OPERAND_V, 3 * 3 + 1, INFINITY);
    reference_case_run(&test);
    for (int i = 0; i < 4; i++) {
        const bool bad = i == 1 || i == 3;
        assert_true(isnan(reference_case_lse(&test, i)) == bad && isnan(reference_case_o(&test, 3 * i)) == bad);
    }
    reference_case_free(&test);
}

/* ---- Dropout ---- */

static void test_B012_dropout(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 64, 64, 2, 1, 4, 3);
    struct reference_case kept = reference_case_forward(1, 64, 64, 2, 1, 4, 3);
    test.problem.window_right = kept.problem.window_right = 0;
    test.problem.dropout_rate = 0.999;
    test.bindings.dropout_seed = 3;
    reference_case_run(&test);
    reference_case_run(&kept);
    reference_case_same_bits(&test, &kept, ATTUNE_OPERAND_LSE);
    int zero = 0;
    for (int64_t n = 0; n < reference_case_count(&test, ATTUNE_OPERAND_O); n += 3) {
        assert_true(isfinite(reference_case_o(&test, n)));
        zero += reference_case_o(&test, n) == 0;
    }
    assert_in_range(zero, 100, 127); /* 128 rows with 32 keys on average */
    reference_case_free(&test);
    reference_case_free(&kept);
}

/* The second half of the rows, keys, heads and batch, told its origins, draws the bits of the whole. */
static void test_dropout_origins(void **state) {
    (void)state;
    struct reference_case whole = reference_case_forward(2, 4, 6, 4, 4, 4, 6);
    reference_case_fill(&whole, ATTUNE_OPERAND_Q, 0);
    whole.problem.dropout_rate = 0.5;
    whole.bindings.dropout_seed = UINT64_C(0x1234567890);
    whole.bindings.dropout_offset = 9;
    for (int64_t at = 0; at < reference_case_count(&whole, ATTUNE_OPERAND_V); at++) {
        reference_case_set(&whole, ATTUNE_OPERAND_V, at, at / 24 % 6 == at % 6); /* o is the weights */
    }
    reference_case_run(&whole);

    struct reference_case part = reference_case_forward(1, 2, 3, 2, 2, 4, 3);
    reference_case_fill(&part, ATTUNE_OPERAND_Q, 0);
    for (int64_t at = 0; at < reference_case_count(&part, ATTUNE_OPERAND_V); at++) {
        reference_case_set(&part, ATTUNE_OPERAND_V, at, at / 6 % 3 == at % 3);
    }
    part.problem.dropout_rate = 0.5;
    part.problem.heads_total = 4;
    part.problem.batch_origin = 1;
    part.problem.head_origin = 2;
    part.problem.row_origin = 2;
    part.problem.key_origin = 3;
    *(uint64_t *)reference_case_add(&part, ATTUNE_OPERAND_DROPOUT_SEED, ATTUNE_DTYPE_U64, 1, 1, 1, 1) =
        whole.bindings.dropout_seed;
    *(uint32_t *)reference_case_add(&part, ATTUNE_OPERAND_DROPOUT_OFFSET, ATTUNE_DTYPE_U32, 1, 1, 1, 1) = 9;
    reference_case_run(&part);
    int kept = 0;
    for (int64_t at = 0; at < 2 * 2 * 3; at++) {
        const int64_t i = at / 6;
        const int64_t h = at / 3 % 2;
        const int64_t j = at % 3;
        const double of_whole = reference_case_o(&whole, ((4 + 2 + i) * 4 + 2 + h) * 6 + 3 + j);
        reference_case_close(of_whole, of_whole == 0 ? 0 : 1.0 / 6 / 0.5, 1e-6);
        reference_case_close(reference_case_o(&part, at), of_whole * 2, 1e-6);
        kept += of_whole != 0;
    }
    assert_in_range(kept, 1, 11);
    reference_case_free(&whole);
    reference_case_free(&part);
}

/* ---- Dtypes ---- */

static void test_B102_descales(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 2, 130, 131, 4, 2, 4, 4);
    test.problem.dtype = ATTUNE_DTYPE_E4M3;
    reference_case_add_attention(&test, 1);
    reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_E4M3, 2, 130, 4, 4);
    reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_E4M3, 2, 131, 2, 4);
    reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_E4M3, 2, 131, 2, 4);
    reference_case_draw(&test, ATTUNE_OPERAND_Q, 4, 2);
    reference_case_draw(&test, ATTUNE_OPERAND_K, 5, 2);
    reference_case_draw(&test, ATTUNE_OPERAND_V, 6, 2);
    const int64_t shapes[][3] = {{1, 1, 1}, {2, 2, 1}, {2, 2, 2}};
    for (int n = 0; n < 3; n++) {
        const int64_t *shape = shapes[n];
        struct reference_case plain = reference_case_forward(2, 130, 131, 4, 2, 4, 4);
        for (int operand = 0; operand < 3; operand++) {
            float *descale = reference_case_add(&test, ATTUNE_OPERAND_DESCALE_Q + operand, ATTUNE_DTYPE_F32, shape[0],
                                                shape[1], shape[2], 1);
            for (int64_t at = 0; at < shape[0] * shape[1] * shape[2]; at++) {
                descale[at] = (float)(at + 1 + operand) / 4;
            }
            const int64_t heads = operand == 0 ? 4 : 2;
            const int64_t length = operand == 0 ? 130 : 131;
            for (int64_t at = 0; at < reference_case_count(&plain, ATTUNE_OPERAND_Q + operand); at++) {
                const int64_t head_kv = at / 4 % heads / (heads / 2);
                const int64_t position = at / 4 / heads % length;
                const int64_t b = at / 4 / heads / length;
                const int64_t index = n == 0 ? 0 : (n == 1 ? b * 2 + head_kv : (b * 2 + head_kv) * 2 + position / 128);
                reference_case_set(&plain, ATTUNE_OPERAND_Q + operand, at,
                                   reference_case_get(&test, ATTUNE_OPERAND_Q + operand, at) * (double)descale[index]);
            }
        }
        reference_case_run(&test);
        reference_case_run(&plain);
        reference_case_same_bits(&test, &plain, ATTUNE_OPERAND_O);
        reference_case_same_bits(&test, &plain, ATTUNE_OPERAND_LSE);
        reference_case_free(&plain);
    }
    reference_case_free(&test);
}

/* One key: o is its v, rounded once. */
static void test_outputs_are_rounded_once(void **state) {
    (void)state;
    const double values[] = {1 + 0x1p-11 + 0x1p-20, 1 + 0x1p-8 + 0x1p-20, 65519.998, 65520, -0x1p-25 - 0x1p-40, 1e-40};
    struct reference_case test = reference_case_forward(1, 1, 1, 1, 1, 4, 6);
    for (int n = 0; n < 6; n++) {
        reference_case_set(&test, ATTUNE_OPERAND_V, n, values[n]);
    }
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F16, 1, 1, 1, 6);
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 0) == 1 + 0x1p-10 && reference_case_o(&test, 1) == 1 + 0x1p-8);
    assert_true(reference_case_o(&test, 2) == 65504 && reference_case_o(&test, 3) == INFINITY);
    assert_true(reference_case_o(&test, 4) == -0x1p-24 && reference_case_o(&test, 5) == 0);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_BF16, 1, 1, 1, 6);
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 0) == 1 && reference_case_o(&test, 1) == 1 + 0x1p-7 &&
                reference_case_o(&test, 5) > 0);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F64, 1, 1, 1, 6);
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 2) == (double)65519.998f);
    reference_case_free(&test);
}

/* Just past the middle of two f16, or just before it, where f32 would round onto the middle. */
static void test_no_rounding_by_way_of_f32(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 1, 1, 1, 1, 4, 4);
    double *v = reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F64, 1, 1, 1, 4);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F16, 1, 1, 1, 4);
    v[0] = 1 + 0x1p-11 + 0x1p-30;
    v[1] = 1 + 0x1p-11 - 0x1p-30;
    v[2] = -1 - 0x3p-11 + 0x1p-30;
    v[3] = -1 - 0x3p-11 - 0x1p-30;
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 0) == 1 + 0x1p-10 && reference_case_o(&test, 1) == 1);
    assert_true(reference_case_o(&test, 2) == -1 - 0x1p-10 && reference_case_o(&test, 3) == -1 - 0x2p-10);
    reference_case_free(&test);
}

static void test_half_inputs(void **state) {
    (void)state;
    const attune_dtype dtypes[] = {ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16};
    for (int n = 0; n < 2; n++) {
        struct reference_case test = reference_case_forward(1, 9, 10, 2, 1, 12, 5);
        struct reference_case plain = reference_case_forward(1, 9, 10, 2, 1, 12, 5);
        for (int operand = 0; operand < 3; operand++) {
            const int64_t *shape = plain.problem.operand[operand].shape;
            reference_case_add(&test, operand, dtypes[n], shape[0], shape[1], shape[2], shape[3]);
            reference_case_draw(&test, operand, 8, 3);
            for (int64_t at = 0; at < reference_case_count(&test, operand); at++) {
                reference_case_set(&plain, operand, at, reference_case_get(&test, operand, at));
            }
        }
        reference_case_run(&test);
        reference_case_run(&plain);
        reference_case_same_bits(&test, &plain, ATTUNE_OPERAND_O);
        reference_case_free(&test);
        reference_case_free(&plain);
    }
}

/* ---- Memory ---- */

/* BHSD q and o, V as the first columns of K, o over q: the same bits as in separate dense memory. */
static void test_B060_strides(void **state) {
    (void)state;
    struct reference_case plain = reference_case_forward(2, 5, 6, 2, 2, 8, 8);
    struct reference_case test = reference_case_forward(2, 5, 6, 2, 2, 8, 8);
    memcpy(plain.memory[ATTUNE_OPERAND_V], plain.memory[ATTUNE_OPERAND_K], 2 * 6 * 2 * 8 * sizeof(float));
    test.bindings.operand[ATTUNE_OPERAND_V] = test.bindings.operand[ATTUNE_OPERAND_K];
    attune_layout *q = &test.problem.operand[ATTUNE_OPERAND_Q];
    q->stride[1] = 8;
    q->stride[2] = 5 * 8;
    test.problem.operand[ATTUNE_OPERAND_O] = *q;
    test.bindings.operand[ATTUNE_OPERAND_O] = test.bindings.operand[ATTUNE_OPERAND_Q];
    for (int64_t at = 0; at < 2 * 5 * 2 * 8; at++) {
        const int64_t s = at / 16 % 5;
        const int64_t h = at / 8 % 2;
        reference_case_set(&test, ATTUNE_OPERAND_Q, at / 80 * 80 + (h * 5 + s) * 8 + at % 8,
                           reference_case_get(&plain, ATTUNE_OPERAND_Q, at));
    }
    reference_case_run(&plain);
    reference_case_run(&test);
    for (int64_t at = 0; at < 2 * 5 * 2 * 8; at++) {
        const int64_t s = at / 16 % 5;
        const int64_t h = at / 8 % 2;
        assert_true(reference_case_o(&plain, at) ==
                    reference_case_get(&test, ATTUNE_OPERAND_Q, at / 80 * 80 + (h * 5 + s) * 8 + at % 8));
    }
    reference_case_same_bits(&plain, &test, ATTUNE_OPERAND_LSE);
    reference_case_free(&plain);
    reference_case_free(&test);
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    struct reference_case one = reference_case_forward(2, 33, 70, 4, 2, 40, 48);
    one.problem.window_right = 3;
    one.threads = 1;
    reference_case_run(&one);
    for (int32_t threads = 2; threads <= 8; threads *= 2) {
        struct reference_case test = reference_case_forward(2, 33, 70, 4, 2, 40, 48);
        test.problem.window_right = 3;
        test.threads = threads;
        reference_case_run(&test);
        reference_case_same_bits(&one, &test, ATTUNE_OPERAND_O);
        reference_case_same_bits(&one, &test, ATTUNE_OPERAND_LSE);
        reference_case_free(&test);
    }
    reference_case_free(&one);
}

static void test_B046_many_heads(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(70000, 1, 2, 1, 1, 2, 1);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 0);
    reference_case_run(&test);
    for (int64_t b = 0; b < 70000; b++) {
        const double mean = (reference_case_get(&test, ATTUNE_OPERAND_V, 2 * b) +
                             reference_case_get(&test, ATTUNE_OPERAND_V, 2 * b + 1)) /
                            2;
        reference_case_close(reference_case_o(&test, b), mean, 1e-7);
    }
    reference_case_free(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_infinite_score_is_nan_in_its_row),
        cmocka_unit_test(test_minus_infinity_is_no_key),
        cmocka_unit_test(test_lowest_finite_score_is_ordinary),
        cmocka_unit_test(test_nan_in_q_and_in_unseen_keys),
        cmocka_unit_test(test_B012_dropout),
        cmocka_unit_test(test_dropout_origins),
        cmocka_unit_test(test_B102_descales),
        cmocka_unit_test(test_outputs_are_rounded_once),
        cmocka_unit_test(test_no_rounding_by_way_of_f32),
        cmocka_unit_test(test_half_inputs),
        cmocka_unit_test(test_B060_strides),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_B046_many_heads),
    };
    return cmocka_run_group_tests_name("reference edges", tests, NULL, NULL);
}
