/*
 * The golden forward against results worked out by hand: the score, who sees whom, lengths, pages. Names with a B are
 * faults that other libraries had.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

/* ---- The formula ---- */

/* softmax(q k) v written down again, with nothing shared. */
static void test_plain(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(2, 11, 13, 4, 2, 5, 7);
    test.bindings.scale = 0.7;
    reference_case_run(&test);
    for (int64_t unit = 0; unit < 2 * 11 * 4; unit++) {
        const int64_t b = unit / 44;
        const int64_t h = unit % 4;
        double p[13];
        double sum = 0;
        for (int64_t j = 0; j < 13; j++) {
            p[j] = 0;
            for (int64_t d = 0; d < 5; d++) {
                p[j] += reference_case_get(&test, ATTUNE_OPERAND_Q, unit * 5 + d) *
                        reference_case_get(&test, ATTUNE_OPERAND_K, ((b * 13 + j) * 2 + h / 2) * 5 + d);
            }
            p[j] = exp(0.7 * p[j]);
            sum += p[j];
        }
        for (int64_t d = 0; d < 7; d++) {
            double o = 0;
            for (int64_t j = 0; j < 13; j++) {
                o += p[j] / sum * reference_case_get(&test, ATTUNE_OPERAND_V, ((b * 13 + j) * 2 + h / 2) * 7 + d);
            }
            reference_case_close(reference_case_o(&test, unit * 7 + d), o, 1e-7);
        }
        reference_case_close(reference_case_lse(&test, (b * 4 + h) * 11 + unit / 4 % 11), log(sum), 1e-7);
    }
    reference_case_free(&test);
}

static void test_probs_sum_to_one(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(2, 9, 6, 2, 1, 4, 4);
    reference_case_add_f32(&test, ATTUNE_OPERAND_PROBS);
    test.problem.window_right = 0; /* bottom-right: rows 0 to 2 see nothing */
    reference_case_run(&test);
    for (int64_t row = 0; row < 2 * 2 * 9; row++) {
        double sum = 0;
        for (int64_t j = 0; j < 6; j++) {
            const double p = reference_case_get(&test, ATTUNE_OPERAND_PROBS, row * 6 + j);
            assert_true(p >= 0 && (p == 0) == (j > row % 9 - 3));
            sum += p;
        }
        reference_case_close(sum, row % 9 < 3 ? 0 : 1, 1e-6);
    }
    reference_case_free(&test);
}

/* ---- Who sees whom ---- */

static void test_B005_more_rows_than_keys(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(5, 3);
    test.problem.window_right = 0;
    reference_case_counts(&test, (int[]){0, 0, 1, 2, 3});
    reference_case_free(&test);
}

static void test_B018_alignment(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(2, 5);
    test.problem.window_right = 0;
    reference_case_counts(&test, (int[]){4, 5});
    test.problem.align = ATTUNE_ALIGN_TOP_LEFT;
    reference_case_counts(&test, (int[]){1, 2});
    test.problem.align = ATTUNE_ALIGN_DIAGONAL;
    test.problem.diagonal = 2;
    reference_case_counts(&test, (int[]){3, 4});
    test.problem.diagonal = -1;
    reference_case_counts(&test, (int[]){0, 1});
    reference_case_free(&test);
}

static void test_B019_window(void **state) {
    (void)state;
    const int64_t left[] = {0, 1, 127, 128};
    for (int n = 0; n < 4; n++) {
        struct reference_case test = reference_case_flat(200, 200);
        int count[200];
        test.problem.window_left = left[n];
        test.problem.window_right = 0;
        for (int i = 0; i < 200; i++) {
            count[i] = i + 1 < left[n] + 1 ? i + 1 : (int)left[n] + 1;
        }
        reference_case_counts(&test, count);
        reference_case_free(&test);
    }
}

static void test_mask_of_bytes(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(2, 4);
    uint8_t *mask = reference_case_add(&test, ATTUNE_OPERAND_MASK, ATTUNE_DTYPE_U8, 1, 1, 2, 4);
    memcpy(mask, (uint8_t[]){0, 1, 128, 255, 0, 0, 0, 0}, 8);
    reference_case_counts(&test, (int[]){3, 0});
    reference_case_free(&test);
}

/* Blocks of 2 rows by 3 keys, lists for each head, an empty list, and causality ANDed with them. */
static void test_B085_block_sparse(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 5, 7, 2, 1, 4, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 0);
    test.problem.block_rows = 2;
    test.problem.block_keys = 3;
    int32_t *row_ptr = reference_case_add(&test, ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_DTYPE_I32, 2, 4, 1, 1);
    memcpy(row_ptr, (int32_t[]){0, 2, 2, 3, 3, 6, 7, 7}, 8 * sizeof(int32_t));
    reference_case_add_integers(&test, ATTUNE_OPERAND_BLOCK_COL_IDX, 7, (int32_t[]){0, 2, 1, 0, 1, 2, 2});
    reference_case_run(&test);
    const int count[] = {4, 4, 0, 0, 3, 7, 7, 1, 1, 0};
    for (int n = 0; n < 10; n++) {
        reference_case_close(reference_case_lse(&test, n), log(count[n]), 1e-6);
    }
    test.problem.window_right = 0; /* row i sees keys to i + 2 */
    reference_case_run(&test);
    const int causal[] = {3, 3, 0, 0, 3, 3, 4, 0, 0, 0};
    for (int n = 0; n < 10; n++) {
        reference_case_close(reference_case_lse(&test, n), log(causal[n]), 1e-6);
    }
    reference_case_free(&test);
}

/* ---- The score ---- */

static void test_B043_natural_logarithm(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(1, 8);
    reference_case_counts(&test, (int[]){8});
    reference_case_close(reference_case_lse(&test, 0), 2.0794415, 1e-6);
    reference_case_free(&test);
}

static void test_B087_softcap_before_mask(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(2, 2);
    test.problem.softcap = 1;
    test.problem.window_right = 0;
    for (int64_t d = 0; d < 3; d++) {
        reference_case_set(&test, ATTUNE_OPERAND_V, d, 0);
        reference_case_set(&test, ATTUNE_OPERAND_V, 3 + d, 1e4);
    }
    reference_case_run(&test);
    assert_true(reference_case_o(&test, 0) == 0 && reference_case_lse(&test, 0) == 0);
    reference_case_close(reference_case_o(&test, 3), 5e3, 1e-7);
    reference_case_free(&test);
}

/* One key, so that lse is its score. Softcap acts on the scaled product; bias and ALiBi come after it. */
static void test_order_of_the_score(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 1, 1, 1, 1, 4, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_K, 0.5);
    test.bindings.scale = -2;
    test.problem.softcap = 5;
    *reference_case_add_f32(&test, ATTUNE_OPERAND_BIAS) = 0.25f;
    *reference_case_add_f32(&test, ATTUNE_OPERAND_ALIBI_SLOPES) = 0.5f;
    test.problem.align = ATTUNE_ALIGN_DIAGONAL;
    test.problem.diagonal = -3;
    reference_case_run(&test);
    reference_case_close(reference_case_lse(&test, 0), 5 * tanh(-12.0 / 5) + 0.25 - 0.5 * 3, 1e-6);
    reference_case_free(&test);
}

static void test_B090_alibi(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(1, 3);
    *reference_case_add_f32(&test, ATTUNE_OPERAND_ALIBI_SLOPES) = (float)log(2);
    for (int64_t n = 0; n < 9; n++) {
        reference_case_set(&test, ATTUNE_OPERAND_V, n, n / 3 == n % 3); /* o is the weights */
    }
    reference_case_run(&test);
    for (int64_t d = 0; d < 3; d++) {
        reference_case_close(reference_case_o(&test, d), (1 << d) / 7.0, 1e-6);
    }
    reference_case_close(reference_case_lse(&test, 0), 0.5596158, 1e-6);
    reference_case_free(&test);
}

static void test_alibi_by_batch_and_head(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(2, 1, 2, 40, 40, 4, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 0);
    float *slope = reference_case_add(&test, ATTUNE_OPERAND_ALIBI_SLOPES, ATTUNE_DTYPE_F32, 2, 40, 1, 1);
    for (int n = 0; n < 80; n++) {
        slope[n] = (float)n / 16;
    }
    reference_case_run(&test);
    for (int n = 0; n < 80; n++) {
        reference_case_close(reference_case_lse(&test, n), log1p(exp(-n / 16.0)), 1e-6);
    }
    reference_case_free(&test);
}

static void test_sink(void **state) {
    (void)state;
    struct reference_case test = reference_case_forward(1, 3, 2, 2, 1, 4, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 0);
    reference_case_fill(&test, ATTUNE_OPERAND_V, 6);
    float *sink = reference_case_add_f32(&test, ATTUNE_OPERAND_SINK);
    sink[0] = 1.5f;
    sink[1] = -INFINITY;
    test.problem.window_right = 0; /* 0, 1 and 2 keys */
    reference_case_run(&test);
    for (int i = 0; i < 3; i++) {
        reference_case_close(reference_case_lse(&test, i), log(i + exp(1.5)), 1e-6);
        reference_case_close(reference_case_lse(&test, 3 + i), log(i), 1e-6);
        reference_case_close(reference_case_o(&test, i * 6), 6 * i / (i + exp(1.5)), 1e-6);
        reference_case_close(reference_case_o(&test, i * 6 + 3), i == 0 ? 0 : 6, 1e-6);
    }
    assert_true(reference_case_lse(&test, 0) == 1.5 && reference_case_o(&test, 0) == 0);
    reference_case_free(&test);
}

/* ---- Sharing of heads ---- */

static void test_B035_heads(void **state) {
    (void)state;
    const int64_t heads[][2] = {{3, 1}, {6, 2}, {10, 2}, {12, 3}, {21, 7}, {71, 1}};
    for (int n = 0; n < 6; n++) {
        struct reference_case test = reference_case_forward(1, 2, 3, heads[n][0], heads[n][1], 4, 5);
        for (int64_t at = 0; at < reference_case_count(&test, ATTUNE_OPERAND_V); at++) {
            reference_case_set(&test, ATTUNE_OPERAND_V, at, (double)(at / 5 % heads[n][1]));
        }
        reference_case_run(&test);
        for (int64_t at = 0; at < reference_case_count(&test, ATTUNE_OPERAND_O); at++) {
            const int64_t h = at / 5 % heads[n][0];
            reference_case_close(reference_case_o(&test, at), (double)(h / (heads[n][0] / heads[n][1])), 1e-7);
        }
        reference_case_free(&test);
    }
}

/* ---- Lengths ---- */

/* q and k packed: entries of 0, 2 and 3 rows, of 4, 0 and 2 keys, a used length, and tails that nobody owns. */
static void test_packed(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 3, 3, 4, 1, 1, 4, 3);
    reference_case_add(&test, ATTUNE_OPERAND_Q, ATTUNE_DTYPE_F32, 1, 6, 1, 4);
    reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_F32, 1, 8, 1, 4);
    reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F32, 1, 8, 1, 3);
    reference_case_add(&test, ATTUNE_OPERAND_O, ATTUNE_DTYPE_F32, 1, 6, 1, 3);
    reference_case_add(&test, ATTUNE_OPERAND_LSE, ATTUNE_DTYPE_F32, 1, 1, 6, 1);
    reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_Q, 4, (int32_t[]){0, 0, 2, 5});
    reference_case_add_integers(&test, ATTUNE_OPERAND_CU_SEQLENS_K, 4, (int32_t[]){0, 4, 4, 6});
    for (int n = 0; n < 5 * 4; n++) {
        reference_case_set(&test, ATTUNE_OPERAND_Q, n, 0); /* row 5 stays NaN, and so do keys but 4 and 5 */
    }
    for (int n = 4 * 4; n < 6 * 4; n++) {
        reference_case_set(&test, ATTUNE_OPERAND_K, n, 1);
    }
    for (int n = 4 * 3; n < 6 * 3; n++) {
        reference_case_set(&test, ATTUNE_OPERAND_V, n, n / 3);
    }
    test.problem.window_right = 0;
    reference_case_run(&test);
    const double lse[] = {-INFINITY, -INFINITY, -INFINITY, 0, log(2), NAN};
    const double o[] = {0, 0, 0, 4, 4.5, NAN};
    for (int i = 0; i < 6; i++) {
        reference_case_close(reference_case_lse(&test, i), lse[i], 1e-6);
        reference_case_close(reference_case_o(&test, 3 * i + 2), o[i], 1e-6);
    }
    /* The last entry has one row now: the rows after it are not written. */
    reference_case_fill(&test, ATTUNE_OPERAND_LSE, 77);
    reference_case_add_integers(&test, ATTUNE_OPERAND_SEQUSED_Q, 3, (int32_t[]){0, 2, 1});
    reference_case_run(&test);
    reference_case_close(reference_case_lse(&test, 2), log(2), 1e-6); /* its own key is the last one now */
    assert_true(reference_case_lse(&test, 3) == 77 && reference_case_lse(&test, 5) == 77);
    reference_case_free(&test);
}

static void test_B009_unused_keys(void **state) {
    (void)state;
    const double tail[] = {0, NAN, 1e30};
    struct reference_case test[3];
    for (int n = 0; n < 3; n++) {
        test[n] = reference_case_forward(2, 4, 9, 2, 2, 4, 3);
        reference_case_add_integers(&test[n], ATTUNE_OPERAND_SEQUSED_K, 2, (int32_t[]){5, 0});
        reference_case_add_integers(&test[n], ATTUNE_OPERAND_LEFTPAD_K, 2, (int32_t[]){2, 0});
        for (int64_t j = 0; j < 18; j++) {
            if (j < 2 || j >= 5) {
                for (int64_t d = 0; d < 8; d++) {
                    reference_case_set(&test[n], ATTUNE_OPERAND_K, j * 8 + d, tail[n]);
                }
                for (int64_t d = 0; d < 6; d++) {
                    reference_case_set(&test[n], ATTUNE_OPERAND_V, j * 6 + d, tail[n]);
                }
            }
        }
        reference_case_run(&test[n]);
        reference_case_same_bits(&test[0], &test[n], ATTUNE_OPERAND_O);
        reference_case_same_bits(&test[0], &test[n], ATTUNE_OPERAND_LSE);
    }
    assert_true(isfinite(reference_case_o(&test[0], 0)) && reference_case_lse(&test[0], 8) == -INFINITY);
    for (int n = 0; n < 3; n++) {
        reference_case_free(&test[n]);
    }
}

static void test_leftpad_moves_no_diagonal(void **state) {
    (void)state;
    struct reference_case test = reference_case_flat(3, 5);
    reference_case_add_integers(&test, ATTUNE_OPERAND_LEFTPAD_K, 1, (int32_t[]){3});
    test.problem.window_right = 0; /* rows see keys to 2, 3 and 4; 0 to 2 are padding */
    reference_case_counts(&test, (int[]){0, 1, 2});
    reference_case_free(&test);
}

static void test_B056_nothing_there(void **state) {
    (void)state;
    struct reference_case none = reference_case_forward(2, 0, 3, 2, 2, 4, 3);
    reference_case_run(&none);
    reference_case_free(&none);
    none = reference_case_forward(0, 3, 3, 2, 2, 4, 3);
    reference_case_run(&none);
    reference_case_free(&none);
    struct reference_case test = reference_case_flat(2, 0);
    reference_case_counts(&test, (int[]){0, 0});
    reference_case_free(&test);
}

/* ---- Pages ---- */

/* Keys in shuffled pages, against the same keys in one piece; table entries that no row needs are wild. */
static void test_B075_pages(void **state) {
    (void)state;
    const int64_t sizes[] = {1, 2, 3, 5, 16, 64};
    struct reference_case whole = reference_case_forward(1, 3, 23, 2, 2, 4, 3);
    reference_case_add_integers(&whole, ATTUNE_OPERAND_SEQUSED_K, 1, (int32_t[]){21});
    reference_case_add_integers(&whole, ATTUNE_OPERAND_LEFTPAD_K, 1, (int32_t[]){4});
    whole.problem.window_left = 12;
    reference_case_run(&whole);
    for (int n = 0; n < 6; n++) {
        const int64_t size = sizes[n];
        const int64_t columns = 23 / size + 1;
        struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 1, 3, columns * size, 2, 2, 4, 3);
        reference_case_add_attention(&test, 1);
        reference_case_add(&test, ATTUNE_OPERAND_K, ATTUNE_DTYPE_F32, columns, size, 2, 4);
        reference_case_add(&test, ATTUNE_OPERAND_V, ATTUNE_DTYPE_F32, columns, size, 2, 3);
        int32_t *table = reference_case_add(&test, ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_DTYPE_I32, 1, columns, 1, 1);
        reference_case_add_integers(&test, ATTUNE_OPERAND_SEQUSED_K, 1, (int32_t[]){21});
        reference_case_add_integers(&test, ATTUNE_OPERAND_LEFTPAD_K, 1, (int32_t[]){4});
        for (int64_t column = 0; column < columns; column++) {
            /* Row 0 sees keys from 18 - 12 on. */
            const bool needed = column >= 6 / size && column <= 20 / size;
            table[column] = needed ? (int32_t)(columns - 1 - column) : INT32_MAX;
        }
        for (int64_t at = 0; at < 21 * 8; at++) {
            const int64_t j = at / 8;
            const int64_t slot = (columns - 1 - j / size) * size + j % size;
            reference_case_set(&test, ATTUNE_OPERAND_K, slot * 8 + at % 8,
                               reference_case_get(&whole, ATTUNE_OPERAND_K, at));
        }
        for (int64_t at = 0; at < 21 * 6; at++) {
            const int64_t j = at / 6;
            const int64_t slot = (columns - 1 - j / size) * size + j % size;
            reference_case_set(&test, ATTUNE_OPERAND_V, slot * 6 + at % 6,
                               reference_case_get(&whole, ATTUNE_OPERAND_V, at));
        }
        test.problem.page_size = size;
        test.problem.window_left = 12;
        reference_case_run(&test);
        reference_case_same_bits(&whole, &test, ATTUNE_OPERAND_O);
        reference_case_same_bits(&whole, &test, ATTUNE_OPERAND_LSE);
        reference_case_free(&test);
    }
    reference_case_free(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_probs_sum_to_one),
        cmocka_unit_test(test_B005_more_rows_than_keys),
        cmocka_unit_test(test_B018_alignment),
        cmocka_unit_test(test_B019_window),
        cmocka_unit_test(test_mask_of_bytes),
        cmocka_unit_test(test_B085_block_sparse),
        cmocka_unit_test(test_B043_natural_logarithm),
        cmocka_unit_test(test_B087_softcap_before_mask),
        cmocka_unit_test(test_order_of_the_score),
        cmocka_unit_test(test_B090_alibi),
        cmocka_unit_test(test_alibi_by_batch_and_head),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_B035_heads),
        cmocka_unit_test(test_packed),
        cmocka_unit_test(test_B009_unused_keys),
        cmocka_unit_test(test_leftpad_moves_no_diagonal),
        cmocka_unit_test(test_B056_nothing_there),
        cmocka_unit_test(test_B075_pages),
    };
    return cmocka_run_group_tests_name("reference forward", tests, NULL, NULL);
}
