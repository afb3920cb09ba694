/*
 * Dropout's bits: known answers, counters, thresholds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */

#include "core/portable/philox.h"
#include "tests/support/cmocka_all.h"

/* Random123's kat_vectors, "philox4x32 10": counter, key, words. */
static const uint32_t known[][10] = {
    {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
    {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
     0x6d5451fd},
    {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
     0x24126ea1},
};

static attune_dropout plain(void) {
    attune_dropout dropout = {0};
    dropout.heads_total = 4;
    return dropout;
}

static void test_known_answers(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
        attune_philox_words counter;
        for (int w = 0; w < 4; w++) {
            counter.word[w] = known[n][w];
        }
        const attune_philox_words words = attune_philox(counter, known[n][4], known[n][5]);
        for (int w = 0; w < 4; w++) {
            assert_int_equal(words.word[w], known[n][6 + w]);
        }
    }
}

/* The last known answer again, asked for as a key of a row: each field lands in its word of the counter. */
static void test_counter_packing(void **state) {
    (void)state;
    attune_dropout dropout = plain();
    dropout.seed = UINT64_C(0x299f31d0a4093822);
    dropout.offset = 0x243f6a88;
    dropout.heads_total = INT64_C(0x1000000000); /* 0 mod 2^32, and so is its product with the batch */
    dropout.batch_origin = 3;
    dropout.head_origin = INT64_C(0x585a308d0);
    dropout.row_origin = INT64_C(0x713198a00);
    dropout.key_origin = INT64_C(0x103707344) * 4 - 2;
    const attune_philox_words words = attune_dropout_words(dropout, 2, 3, 0x2e, INT64_C(0x103707344));
    for (int w = 0; w < 4; w++) {
        assert_int_equal(words.word[w], known[2][6 + w]);
    }
    for (int key = 2; key < 6; key++) {
        dropout.threshold = known[2][6 + key - 2];
        assert_true(attune_dropout_keeps(dropout, 2, 3, 0x2e, key));
        dropout.threshold += 1;
        assert_false(attune_dropout_keeps(dropout, 2, 3, 0x2e, key));
    }
}

static void test_batch_and_head_make_one_number(void **state) {
    (void)state;
    attune_dropout dropout = plain();
    const attune_philox_words words = attune_dropout_words(dropout, 3, 2, 5, 6);
    dropout.batch_origin = 1;
    dropout.head_origin = 1;
    const attune_philox_words moved = attune_dropout_words(dropout, 2, 1, 5, 6);
    assert_memory_equal(&words, &moved, sizeof words);
    dropout.batch_origin = 0;
    dropout.head_origin = 12 + 1;
    const attune_philox_words flat = attune_dropout_words(dropout, 0, 1, 5, 6);
    assert_memory_equal(&words, &flat, sizeof words);
}

static void test_threshold(void **state) {
    (void)state;
    assert_int_equal(attune_dropout_threshold(0.0), 0);
    assert_int_equal(attune_dropout_threshold(0.5), UINT64_C(1) << 31);
    assert_int_equal(attune_dropout_threshold(1e-300), 1);
    assert_int_equal(attune_dropout_threshold(0x1p-32), 1);
    assert_int_equal(attune_dropout_threshold(0x1.8p-32), 2);
    assert_int_equal(attune_dropout_threshold(0.1), 429496730); /* 429496729.6 */
    assert_int_equal(attune_dropout_threshold(1 - 0x1p-32), UINT32_MAX);
    assert_int_equal(attune_dropout_threshold(1 - 0x1p-53), UINT64_C(1) << 32);
}

static void test_threshold_ends(void **state) {
    (void)state;
    attune_dropout dropout = plain();
    assert_true(attune_dropout_keeps_word(dropout, 0));
    dropout.threshold = attune_dropout_threshold(1 - 0x1p-53);
    assert_false(attune_dropout_keeps_word(dropout, UINT32_MAX));
    dropout.threshold = 1;
    assert_false(attune_dropout_keeps_word(dropout, 0));
    assert_true(attune_dropout_keeps_word(dropout, 1));
}

/* The share that is kept, to five standard deviations. */
static void test_share(void **state) {
    (void)state;
    attune_dropout dropout = plain();
    dropout.seed = 11;
    dropout.threshold = attune_dropout_threshold(0.3);
    int kept = 0;
    for (int64_t row = 0; row < 100; row++) {
        for (int64_t key = 0; key < 1000; key++) {
            kept += attune_dropout_keeps(dropout, 0, 1, row, key);
        }
    }
    assert_in_range(kept, 70000 - 725, 70000 + 725);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_counter_packing),
        cmocka_unit_test(test_batch_and_head_make_one_number),
        cmocka_unit_test(test_threshold),
        cmocka_unit_test(test_threshold_ends),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests_name("portable philox", tests, NULL, NULL);
}
