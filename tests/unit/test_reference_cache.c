/*
 * The golden append, merge and quantisation against results worked out by hand. Names with a B are faults that other
 * libraries had.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>

#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

static double at(const struct reference_case *test, attune_operand operand, int64_t index) {
    return reference_case_get(test, operand, index);
}

/* ---- Merge ---- */

/* States of one row of one head, Dv 2. o and lse are parts of their own until a test says otherwise. */
static struct reference_case merge(int parts, const float (*o)[2], const float *lse) {
    static float part_o[8][2];
    static float part_lse[8];
    struct reference_case test = reference_case_make(ATTUNE_OP_MERGE, 1, 1, 0, 1, 1, 2, 2);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F32, 1, 1, 1, 2);
    reference_case_add(&test, ATTUNE_OPERAND_LSE, ATTUNE_DTYPE_F32, 1, 1, 1, 1);
    test.problem.operand[ATTUNE_OPERAND_PART_O] = test.problem.operand[ATTUNE_OPERAND_O];
    test.problem.operand[ATTUNE_OPERAND_PART_LSE] = test.problem.operand[ATTUNE_OPERAND_LSE];
    test.problem.parts = parts;
    for (int n = 0; n < parts; n++) {
        memcpy(part_o[n], o[n], sizeof part_o[n]);
        part_lse[n] = lse[n];
        test.part_o[n].data = part_o[n];
        test.part_lse[n].data = &part_lse[n];
    }
    return test;
}

static void test_B006_merge_with_empty_is_identity(void **state) {
    (void)state;
    const float lse[] = {0.3f, -100, -1e30f, -FLT_MAX, 88, NAN};
    for (int n = 0; n < 6; n++) {
        for (int place = 0; place < 3; place++) {
            float o[3][2] = {{NAN, NAN}, {NAN, NAN}, {NAN, NAN}}; /* of an empty part: never looked at */
            float all[3] = {-INFINITY, -INFINITY, -INFINITY};
            o[place][0] = -0.0f;
            o[place][1] = 1 / 3.0f;
            all[place] = lse[n];
            struct reference_case test = merge(3, o, all);
            reference_case_run(&test);
            if (isnan(lse[n])) {
                assert_true(isnan(at(&test, ATTUNE_OPERAND_O, 1)) && isnan(at(&test, ATTUNE_OPERAND_LSE, 0)));
            } else {
                assert_memory_equal(test.memory[ATTUNE_OPERAND_O], o[place], sizeof o[place]);
                assert_memory_equal(test.memory[ATTUNE_OPERAND_LSE], &all[place], sizeof all[place]);
            }
            reference_case_free(&test);
        }
    }
}

static void test_B006_all_empty(void **state) {
    (void)state;
    for (int parts = 1; parts <= 3; parts++) {
        struct reference_case test =
            merge(parts, (float[][2]){{NAN, 7}, {0, 0}, {0, 0}}, (float[]){-INFINITY, -INFINITY, -INFINITY});
        reference_case_run(&test);
        assert_true(at(&test, ATTUNE_OPERAND_LSE, 0) == -INFINITY);
        assert_true(at(&test, ATTUNE_OPERAND_O, 0) == 0 && !signbit(at(&test, ATTUNE_OPERAND_O, 0)));
        reference_case_free(&test);
    }
}

static void test_merge_weighs(void **state) {
    (void)state;
    struct reference_case test = merge(3, (float[][2]){{1, 0}, {0, 1}, {4, 4}}, (float[]){0, logf(2), logf(5)});
    test.bindings.operand[ATTUNE_OPERAND_O] = test.part_o[0]; /* in place */
    test.bindings.operand[ATTUNE_OPERAND_LSE] = test.part_lse[0];
    reference_case_run(&test);
    const float *o = test.part_o[0].data;
    reference_case_close((double)o[0], 21 / 8.0, 1e-6);
    reference_case_close((double)o[1], 22 / 8.0, 1e-6);
    reference_case_close((double)*(float *)test.part_lse[0].data, log(8), 1e-6);
    reference_case_free(&test);
}

static void test_merge_of_low_and_infinite(void **state) {
    (void)state;
    struct reference_case test = merge(2, (float[][2]){{1, 0}, {3, 0}}, (float[]){-2e38f, -2e38f});
    reference_case_run(&test);
    assert_true(at(&test, ATTUNE_OPERAND_O, 0) == 2);
    reference_case_free(&test);
    test = merge(2, (float[][2]){{1, 0}, {3, 0}}, (float[]){INFINITY, 1});
    reference_case_run(&test);
    assert_true(isnan(at(&test, ATTUNE_OPERAND_O, 0)) && isnan(at(&test, ATTUNE_OPERAND_LSE, 0)));
    reference_case_free(&test);
}

/* B043: keys cut in three, each part attended alone, and merged, are the whole. */
static void test_B043_parts_are_the_whole(void **state) {
    (void)state;
    struct reference_case whole = reference_case_make(ATTUNE_OP_FORWARD, 2, 3, 12, 4, 2, 5, 6);
    reference_case_add_attention(&whole, 3);
    reference_case_run(&whole);
    struct reference_case part[3];
    struct reference_case merged = reference_case_make(ATTUNE_OP_MERGE, 2, 3, 0, 4, 4, 6, 6);
    merged.problem.parts = 3;
    for (int n = 0; n < 3; n++) {
        part[n] = reference_case_make(ATTUNE_OP_FORWARD, 2, 3, 4, 4, 2, 5, 6);
        reference_case_add_attention(&part[n], 3);
        for (attune_operand operand = ATTUNE_OPERAND_K; operand <= ATTUNE_OPERAND_V; operand++) {
            part[n].problem.operand[operand].stride[0] = whole.problem.operand[operand].stride[0];
            part[n].bindings.operand[operand] = whole.bindings.operand[operand];
            part[n].bindings.operand[operand].byte_offset =
                (uint64_t)(4 * n * whole.problem.operand[operand].stride[1]) * sizeof(float);
        }
        reference_case_run(&part[n]);
        merged.part_o[n].data = part[n].memory[ATTUNE_OPERAND_O];
        merged.part_lse[n].data = part[n].memory[ATTUNE_OPERAND_LSE];
    }
    reference_case_add(&merged, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F32, 2, 3, 4, 6);
    reference_case_add(&merged, ATTUNE_OPERAND_LSE, ATTUNE_DTYPE_F32, 2, 4, 3, 1);
    merged.problem.operand[ATTUNE_OPERAND_PART_O] = merged.problem.operand[ATTUNE_OPERAND_O];
    merged.problem.operand[ATTUNE_OPERAND_PART_LSE] = merged.problem.operand[ATTUNE_OPERAND_LSE];
    reference_case_run(&merged);
    for (int64_t n = 0; n < 2 * 3 * 4 * 6; n++) {
        reference_case_close(at(&merged, ATTUNE_OPERAND_O, n), at(&whole, ATTUNE_OPERAND_O, n), 1e-6);
    }
    for (int64_t n = 0; n < 2 * 4 * 3; n++) {
        reference_case_close(at(&merged, ATTUNE_OPERAND_LSE, n), at(&whole, ATTUNE_OPERAND_LSE, n), 1e-6);
    }
    for (int n = 0; n < 3; n++) {
        reference_case_free(&part[n]);
    }
    reference_case_free(&whole);
    reference_case_free(&merged);
}

/* ---- Append ---- */

/* Two sequences, of which 3 and 0 positions are used, get two new rows each. */
static struct reference_case append(attune_dtype cache, attune_dtype from) {
    struct reference_case test = reference_case_make(ATTUNE_OP_APPEND, 2, 2, 6, 2, 2, 4, 3);
    test.problem.dtype = cache;
    reference_case_add(&test, ATTUNE_OPERAND_K, cache, 2, 6, 2, 4);
    reference_case_add(&test, ATTUNE_OPERAND_V, cache, 2, 6, 2, 3);
    reference_case_add(&test, ATTUNE_OPERAND_K_NEW, from, 2, 2, 2, 4);
    reference_case_add(&test, ATTUNE_OPERAND_V_NEW, from, 2, 2, 2, 3);
    reference_case_draw(&test, ATTUNE_OPERAND_K_NEW, 1, 2);
    reference_case_draw(&test, ATTUNE_OPERAND_V_NEW, 2, 2);
    reference_case_add_integers(&test, ATTUNE_OPERAND_SEQUSED_K, 2, (int32_t[]){3, 0});
    return test;
}

/* cos 0.6, sin 0.8 at position 0; position p turns by that p + 1 times. */
static void add_rotary(struct reference_case *test, int64_t rotary_dim) {
    test->problem.rotary_dim = rotary_dim;
    float *cosine = reference_case_add(test, ATTUNE_OPERAND_ROTARY_COS, ATTUNE_DTYPE_F32, 8, rotary_dim / 2, 1, 1);
    float *sine = reference_case_add(test, ATTUNE_OPERAND_ROTARY_SIN, ATTUNE_DTYPE_F32, 8, rotary_dim / 2, 1, 1);
    for (int64_t n = 0; n < 8 * rotary_dim / 2; n++) {
        const double turn = acos(0.6) * (double)(n / (rotary_dim / 2) + 1);
        cosine[n] = (float)cos(turn);
        sine[n] = (float)sin(turn);
    }
}

static void test_append_goes_to_its_position(void **state) {
    (void)state;
    struct reference_case test = append(ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32);
    reference_case_run(&test);
    for (int64_t n = 0; n < 2 * 6 * 2 * 4; n++) {
        const int64_t b = n / 48;
        const int64_t i = n / 8 % 6 - (b == 0 ? 3 : 0);
        if (i < 0 || i >= 2) {
            assert_true(isnan(at(&test, ATTUNE_OPERAND_K, n))); /* not written */
        } else {
            assert_true(at(&test, ATTUNE_OPERAND_K, n) == at(&test, ATTUNE_OPERAND_K_NEW, b * 16 + i * 8 + n % 8));
        }
    }
    for (int64_t n = 0; n < 2 * 6 * 2 * 3; n++) {
        const int64_t b = n / 36;
        const int64_t i = n / 6 % 6 - (b == 0 ? 3 : 0);
        const bool written = i >= 0 && i < 2;
        reference_case_close(at(&test, ATTUNE_OPERAND_V, n),
                             written ? at(&test, ATTUNE_OPERAND_V_NEW, b * 12 + i * 6 + n % 6) : NAN, 0);
    }
    reference_case_free(&test);
}

/* Of what seqused_k makes no position of the cache, nothing is written: a row each of two. */
static void test_append_past_the_capacity(void **state) {
    (void)state;
    struct reference_case test = append(ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32);
    reference_case_add_integers(&test, ATTUNE_OPERAND_SEQUSED_K, 2, (int32_t[]){5, -1});
    reference_case_run(&test);
    for (int64_t n = 0; n < 2 * 6 * 2 * 4; n++) {
        const int64_t row = n / 8;
        const bool written = row == 5 || row == 6; /* of sequence 0 the last, of sequence 1 the first */
        const int64_t from = row == 5 ? 0 : 16 + 8;
        reference_case_close(at(&test, ATTUNE_OPERAND_K, n),
                             written ? at(&test, ATTUNE_OPERAND_K_NEW, from + n % 8) : NAN, 0);
    }
    reference_case_free(&test);
}

static void test_append_to_pages(void **state) {
    (void)state;
    struct reference_case test = append(ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32);
    reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_F32, 5, 2, 2, 4);
    reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F32, 5, 2, 2, 3);
    int32_t *table = reference_case_add(&test, ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_DTYPE_I32, 2, 3, 1, 1);
    memcpy(table, (int32_t[]){-1, 4, 0, 2, -1, -1}, 6 * sizeof *table);
    test.problem.page_size = 2;
    reference_case_run(&test);
    /* Sequence 0: positions 3 and 4 are slot 1 of page 4 and slot 0 of page 0. Sequence 1: page 2. */
    const int64_t slots[] = {4 * 2 + 1, 0, 2 * 2, 2 * 2 + 1};
    for (int64_t n = 0; n < 4 * 8; n++) {
        assert_true(at(&test, ATTUNE_OPERAND_K, slots[n / 8] * 8 + n % 8) == at(&test, ATTUNE_OPERAND_K_NEW, n));
    }
    int written = 0;
    for (int64_t n = 0; n < 5 * 2 * 8; n++) {
        written += !isnan(at(&test, ATTUNE_OPERAND_K, n));
    }
    assert_int_equal(written, 4 * 8);
    reference_case_free(&test);
}

static void check_turned(const struct reference_case *test, attune_operand from, attune_operand to, int64_t index_from,
                         int64_t index_to, int64_t position, bool interleaved) {
    const int64_t pair[2] = {0, interleaved ? 1 : 2};
    for (int64_t t = 0; t < 2; t++) {
        const int64_t a = interleaved ? pair[0] + 2 * t : pair[0] + t;
        const int64_t b = interleaved ? pair[1] + 2 * t : pair[1] + t;
        const double turn = acos(0.6) * (double)(position + 1);
        const double x = at(test, from, index_from + a);
        const double y = at(test, from, index_from + b);
        reference_case_close(at(test, to, index_to + a), x * cos(turn) - y * sin(turn), 1e-6);
        reference_case_close(at(test, to, index_to + b), x * sin(turn) + y * cos(turn), 1e-6);
    }
}

static void test_append_rotates(void **state) {
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct reference_case test = append(ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32);
        add_rotary(&test, 4);
        test.problem.rotary_interleaved = interleaved != 0;
        reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_F32, 2, 1, 2, 4);
        reference_case_add(&test, ATTUNE_OPERAND_Q_OUT, ATTUNE_DTYPE_F32, 2, 1, 2, 4);
        reference_case_draw(&test, ATTUNE_OPERAND_Q, 3, 2);
        reference_case_run(&test);
        for (int64_t row = 0; row < 4; row++) { /* of one head, (b, i) */
            const int64_t position = row < 2 ? 3 + row : row - 2;
            check_turned(&test, ATTUNE_OPERAND_K_NEW, ATTUNE_OPERAND_K, row * 8 + 4, (row / 2 * 6 + position) * 8 + 4,
                         position, interleaved != 0);
            assert_true(at(&test, ATTUNE_OPERAND_V, (row / 2 * 6 + position) * 6) ==
                        at(&test, ATTUNE_OPERAND_V_NEW, row * 6)); /* values are not turned */
        }
        for (int64_t b = 0; b < 2; b++) {
            check_turned(&test, ATTUNE_OPERAND_Q, ATTUNE_OPERAND_Q_OUT, b * 8, b * 8, b == 0 ? 3 : 0, interleaved != 0);
        }
        reference_case_free(&test);
    }
}

/* q_out may be q, and only the first rotary_dim elements turn. */
static void test_append_rotates_in_place(void **state) {
    (void)state;
    struct reference_case test = append(ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32);
    add_rotary(&test, 2);
    float *q = reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_F32, 2, 1, 2, 4);
    for (int n = 0; n < 16; n++) {
        q[n] = (float)n;
    }
    test.problem.operand[ATTUNE_OPERAND_Q_OUT] = test.problem.operand[ATTUNE_OPERAND_Q];
    test.bindings.operand[ATTUNE_OPERAND_Q_OUT] = test.bindings.operand[ATTUNE_OPERAND_Q];
    reference_case_run(&test);
    /* Sequence 1 has used nothing: position 0. */
    reference_case_close((double)q[8], 8 * 0.6 - 9 * 0.8, 1e-6);
    reference_case_close((double)q[9], 8 * 0.8 + 9 * 0.6, 1e-6);
    assert_true(q[10] == 10 && q[11] == 11);
    reference_case_free(&test);
}

/* Values divided by the descale of their position, saturated; a descale of 0 stores 0. */
static void test_append_as_e4m3(void **state) {
    (void)state;
    struct reference_case test = append(ATTUNE_DTYPE_E4M3, ATTUNE_DTYPE_BF16);
    float *descale = reference_case_add(&test, ATTUNE_OPERAND_DESCALE_K, ATTUNE_DTYPE_F32, 2, 2, 1, 1);
    memcpy(descale, (float[]){0.5f, 2, 0, 1}, 4 * sizeof *descale);
    reference_case_set(&test, ATTUNE_OPERAND_K_NEW, 0, 8);
    reference_case_set(&test, ATTUNE_OPERAND_K_NEW, 1, -300);
    reference_case_set(&test, ATTUNE_OPERAND_K_NEW, 2, INFINITY);
    reference_case_set(&test, ATTUNE_OPERAND_K_NEW, 3, NAN);
    reference_case_set(&test, ATTUNE_OPERAND_K_NEW, 4, 8);
    reference_case_run(&test);
    assert_true(at(&test, ATTUNE_OPERAND_K, 3 * 8) == 16);
    assert_true(at(&test, ATTUNE_OPERAND_K, 3 * 8 + 1) == -448);
    assert_true(at(&test, ATTUNE_OPERAND_K, 3 * 8 + 2) == 448);
    assert_true(isnan(at(&test, ATTUNE_OPERAND_K, 3 * 8 + 3)));
    assert_true(at(&test, ATTUNE_OPERAND_K, 3 * 8 + 4) == 4);
    for (int64_t d = 0; d < 4; d++) {
        assert_true(at(&test, ATTUNE_OPERAND_K, 48 + d) == 0);
    }
    reference_case_free(&test);
}

/* ---- Quantise ---- */

static struct reference_case quantize(int64_t batch, int64_t rows, int64_t heads, int64_t groups, int64_t blocks) {
    struct reference_case test = reference_case_make(ATTUNE_OP_QUANTIZE, batch, rows, 0, heads, groups, 3, 3);
    reference_case_add(&test, ATTUNE_OPERAND_X, ATTUNE_DTYPE_F32, batch, rows, heads, 3);
    reference_case_add(&test, ATTUNE_OPERAND_Y, ATTUNE_DTYPE_E4M3, batch, rows, heads, 3);
    reference_case_draw(&test, ATTUNE_OPERAND_X, 1, 5);
    reference_case_add(&test, ATTUNE_OPERAND_DESCALE, ATTUNE_DTYPE_F32, blocks == 0 ? 1 : batch, groups,
                       blocks == 0 ? 1 : blocks, 1);
    return test;
}

static int64_t descale_index(const struct reference_case *test, int64_t at_x) {
    const int64_t *x = test->problem.operand[ATTUNE_OPERAND_X].shape;
    const int64_t *shape = test->problem.operand[ATTUNE_OPERAND_DESCALE].shape;
    const int64_t h = at_x / 3 % x[2];
    const int64_t s = at_x / 3 / x[2] % x[1];
    const int64_t b = at_x / 3 / x[2] / x[1];
    return ((shape[0] == 1 ? 0 : b) * shape[1] + h / (x[2] / shape[1])) * shape[2] + (shape[2] == 1 ? 0 : s / 128);
}

static void check_quantized(struct reference_case *test) {
    reference_case_run(test);
    double largest[64] = {0};
    for (int64_t n = 0; n < reference_case_count(test, ATTUNE_OPERAND_X); n++) {
        const int64_t index = descale_index(test, n);
        largest[index] = fmax(largest[index], fabs(at(test, ATTUNE_OPERAND_X, n)));
    }
    for (int64_t n = 0; n < reference_case_count(test, ATTUNE_OPERAND_DESCALE); n++) {
        assert_true(at(test, ATTUNE_OPERAND_DESCALE, n) == (double)(float)(largest[n] / 448));
    }
    for (int64_t n = 0; n < reference_case_count(test, ATTUNE_OPERAND_X); n++) {
        const double descale = at(test, ATTUNE_OPERAND_DESCALE, descale_index(test, n));
        const double x = at(test, ATTUNE_OPERAND_X, n);
        const double error = fabs(at(test, ATTUNE_OPERAND_Y, n) * descale - x);
        assert_true(error <= fabs(x) / 16 + descale * 0x1p-10);
    }
}

static void test_quantize_by_each_shape(void **state) {
    (void)state;
    const int64_t shapes[][2] = {{1, 0}, {2, 1}, {4, 1}, {2, 3}, {1, 3}};
    for (int n = 0; n < 5; n++) {
        struct reference_case test = quantize(2, 300, 4, shapes[n][0], shapes[n][1]);
        check_quantized(&test);
        reference_case_free(&test);
    }
}

static void test_quantize_edges(void **state) {
    (void)state;
    struct reference_case test = quantize(1, 1, 2, 2, 1);
    float *x = test.memory[ATTUNE_OPERAND_X];
    memcpy(x, (float[]){NAN, 4, -INFINITY, 0, -0.0f, NAN}, 6 * sizeof *x);
    reference_case_run(&test);
    assert_true(at(&test, ATTUNE_OPERAND_DESCALE, 0) == (double)(4 / 448.0f));
    assert_true(isnan(at(&test, ATTUNE_OPERAND_Y, 0)) && at(&test, ATTUNE_OPERAND_Y, 1) == 448);
    assert_true(at(&test, ATTUNE_OPERAND_Y, 2) == -448);
    assert_true(at(&test, ATTUNE_OPERAND_DESCALE, 1) == 1); /* no finite value but 0 */
    assert_true(at(&test, ATTUNE_OPERAND_Y, 3) == 0 && isnan(at(&test, ATTUNE_OPERAND_Y, 5)));
    reference_case_free(&test);
}

static void test_quantize_with_given_descale(void **state) {
    (void)state;
    struct reference_case test = quantize(1, 1, 2, 2, 1);
    test.problem.descale_given = true;
    float *x = test.memory[ATTUNE_OPERAND_X];
    float *descale = test.memory[ATTUNE_OPERAND_DESCALE];
    memcpy(x, (float[]){1, 1e6f, 1.0625f, 3, INFINITY, 0}, 6 * sizeof *x);
    descale[0] = 1;
    descale[1] = 0;
    reference_case_run(&test);
    const double expected[] = {1, 448, 1, 0, 0, 0};
    for (int n = 0; n < 6; n++) {
        assert_true(at(&test, ATTUNE_OPERAND_Y, n) == expected[n]);
    }
    assert_true(descale[0] == 1 && descale[1] == 0);
    reference_case_free(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_B006_merge_with_empty_is_identity),
        cmocka_unit_test(test_B006_all_empty),
        cmocka_unit_test(test_merge_weighs),
        cmocka_unit_test(test_merge_of_low_and_infinite),
        cmocka_unit_test(test_B043_parts_are_the_whole),
        cmocka_unit_test(test_append_goes_to_its_position),
        cmocka_unit_test(test_append_past_the_capacity),
        cmocka_unit_test(test_append_to_pages),
        cmocka_unit_test(test_append_rotates),
        cmocka_unit_test(test_append_rotates_in_place),
        cmocka_unit_test(test_append_as_e4m3),
        cmocka_unit_test(test_quantize_by_each_shape),
        cmocka_unit_test(test_quantize_edges),
        cmocka_unit_test(test_quantize_with_given_descale),
    };
    return cmocka_run_group_tests_name("reference cache and merge", tests, NULL, NULL);
}
