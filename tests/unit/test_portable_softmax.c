/*
 * The online-softmax state: tiles of scores against one sum in f64, and each row of the edge table of docs/semantics.md
 * that it decides.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "core/portable/softmax.h"
#include "tests/support/cmocka_all.h"

/* A row whose value at every key is a number of its own, so that o is checked too. */
struct row {
    attune_softmax state;
    float o;
};

static float value_at(int key) {
    return (float)((key * 37) % 11) - 5.0f;
}

static struct row row_empty(void) {
    return (struct row){attune_softmax_empty(), 0.0f};
}

/* What a kernel does with a tile of scores. */
static void row_add(struct row *row, const float *score, int first, int count) {
    float max = -INFINITY;
    for (int j = first; j < first + count; j++) {
        max = attune_fmaxf(max, score[j]);
    }
    row->o *= attune_softmax_raise(&row->state, max);
    for (int j = first; j < first + count; j++) {
        const float weight = attune_softmax_weight(score[j], attune_softmax_base(row->state.max));
        row->state.sum += weight;
        row->o += weight * value_at(j);
    }
}

static struct row row_of(const float *score, int first, int count, int tile) {
    struct row row = row_empty();
    for (int j = first; j < first + count; j += tile) {
        row_add(&row, score, j, j + tile > first + count ? first + count - j : tile);
    }
    return row;
}

static void check_close(double got, double expected, double tolerance) {
    if (!(fabs(got - expected) <= tolerance * fmax(1, fabs(expected)))) {
        fail_msg("%.9g, not %.9g", got, expected);
    }
}

static void check_row(struct row row, const float *score, int count) {
    double max = -INFINITY;
    double sum = 0;
    double o = 0;
    for (int j = 0; j < count; j++) {
        max = fmax(max, score[j]);
    }
    for (int j = 0; j < count; j++) {
        sum += exp(score[j] - max);
        o += exp(score[j] - max) * value_at(j);
    }
    const attune_softmax_result result = attune_softmax_finish(row.state);
    check_close(result.lse, max + log(sum), 1e-6);
    check_close(row.o * result.inverse, o / sum, 1e-5);
}

static void draw(float *score, int count, double size) {
    for (int j = 0; j < count; j++) {
        score[j] = (float)(size * (rand() / (double)RAND_MAX - 0.5));
    }
}

static void test_tiles_against_one_sum(void **state) {
    (void)state;
    float score[300];
    srand(5);
    for (double size = 1e-3; size < 1e4; size *= 10) {
        for (int tile = 1; tile <= 300; tile = tile * 2 + 1) {
            draw(score, 300, size);
            check_row(row_of(score, 0, 300, tile), score, 300);
        }
    }
}

static void test_merge_is_the_whole(void **state) {
    (void)state;
    float score[200];
    srand(6);
    for (double size = 1e-2; size < 1e4; size *= 10) {
        draw(score, 200, size);
        for (int cut = 0; cut <= 200; cut += 25) {
            const struct row a = row_of(score, 0, cut, 16);
            const struct row b = row_of(score, cut, 200 - cut, 16);
            const attune_softmax_merged merged = attune_softmax_merge(a.state, b.state);
            check_row((struct row){merged.state, a.o * merged.factor_a + b.o * merged.factor_b}, score, 200);
        }
    }
}

static void test_no_visible_key(void **state) {
    (void)state;
    const float score[] = {-INFINITY, -INFINITY, -INFINITY};
    const struct row row = row_of(score, 0, 3, 2);
    const attune_softmax_result result = attune_softmax_finish(row.state);
    assert_true(result.lse == -INFINITY && result.inverse == 0 && row.o == 0);
    const attune_softmax_merged merged = attune_softmax_merge(row.state, attune_softmax_empty());
    assert_true(attune_softmax_finish(merged.state).lse == -INFINITY);
    assert_false(isnan(merged.factor_a) || isnan(merged.factor_b));
}

static void test_unseen_keys_before_and_after(void **state) {
    (void)state;
    const float score[] = {-INFINITY, -INFINITY, 2.5f, -INFINITY};
    for (int tile = 1; tile <= 4; tile++) {
        const struct row row = row_of(score, 0, 4, tile);
        const attune_softmax_result result = attune_softmax_finish(row.state);
        assert_true(result.lse == 2.5f && row.o * result.inverse == value_at(2));
    }
}

/* -FLT_MAX as a bias is finite: a whole row of it is a plain average. */
static void test_lowest_finite_score_is_ordinary(void **state) {
    (void)state;
    const float score[] = {-FLT_MAX, -FLT_MAX, -FLT_MAX, -FLT_MAX};
    const struct row row = row_of(score, 0, 4, 2);
    const attune_softmax_result result = attune_softmax_finish(row.state);
    assert_true(result.inverse == 0.25f && result.lse == -FLT_MAX);
    check_close(row.o * result.inverse, (value_at(0) + value_at(1) + value_at(2) + value_at(3)) / 4, 1e-6);
}

static void test_infinite_and_nan_scores_give_nan(void **state) {
    (void)state;
    const float bad[] = {INFINITY, NAN};
    for (int n = 0; n < 2; n++) {
        for (int at = 0; at < 6; at++) {
            float score[6] = {0.5f, -INFINITY, 1.0f, -FLT_MAX, 3.0f, 2.0f};
            score[at] = bad[n];
            for (int tile = 1; tile <= 6; tile++) {
                const struct row row = row_of(score, 0, 6, tile);
                const attune_softmax_result result = attune_softmax_finish(row.state);
                assert_true(isnan(result.lse) && isnan(row.o * result.inverse));
                const attune_softmax_merged merged = attune_softmax_merge(attune_softmax_from_logit(1.0f), row.state);
                assert_true(isnan(attune_softmax_finish(merged.state).lse));
            }
        }
    }
    const float all[] = {NAN, NAN};
    assert_true(isnan(attune_softmax_finish(row_of(all, 0, 2, 1).state).lse));
}

static void test_sink(void **state) {
    (void)state;
    /* Alone: a row without a key, and lse is the sink. */
    const attune_softmax_result alone = attune_softmax_finish(attune_softmax_from_logit(1.5f));
    assert_true(alone.lse == 1.5f && alone.inverse == 1.0f);
    /* -inf is no sink. */
    assert_true(attune_softmax_from_logit(-INFINITY).sum == 0);
    /* Two keys of score 0 and a sink of 0: thirds. */
    const float score[] = {0, 0};
    struct row row = {attune_softmax_from_logit(0.0f), 0.0f};
    row_add(&row, score, 0, 2);
    check_close(attune_softmax_finish(row.state).lse, log(3), 1e-6);
    check_close(attune_softmax_finish(row.state).inverse, 1 / 3.0, 1e-6);
    assert_true(isnan(attune_softmax_finish(attune_softmax_from_logit(INFINITY)).lse));
    assert_true(isnan(attune_softmax_finish(attune_softmax_from_logit(NAN)).lse));
}

/* B006: finished parts as logits. Merging with an empty one is the identity, bit for bit. */
static void test_merge_with_empty_is_identity(void **state) {
    (void)state;
    const float lse[] = {0, 1.7f, -87.3f, -1e30f, -FLT_MAX, 88.1f};
    for (size_t n = 0; n < sizeof lse / sizeof *lse; n++) {
        const attune_softmax one = attune_softmax_from_logit(lse[n]);
        const attune_softmax none = attune_softmax_from_logit(-INFINITY);
        const attune_softmax_merged first = attune_softmax_merge(one, none);
        const attune_softmax_merged second = attune_softmax_merge(none, one);
        assert_true(first.factor_a == 1 && second.factor_b == 1 && first.factor_b == 0 && second.factor_a == 0);
        assert_true(attune_softmax_finish(first.state).lse == lse[n]);
        assert_true(attune_softmax_finish(second.state).inverse == 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_against_one_sum),
        cmocka_unit_test(test_merge_is_the_whole),
        cmocka_unit_test(test_no_visible_key),
        cmocka_unit_test(test_unseen_keys_before_and_after),
        cmocka_unit_test(test_lowest_finite_score_is_ordinary),
        cmocka_unit_test(test_infinite_and_nan_scores_give_nan),
        cmocka_unit_test(test_sink),
        cmocka_unit_test(test_merge_with_empty_is_identity),
    };
    return cmocka_run_group_tests_name("portable softmax", tests, NULL, NULL);
}
