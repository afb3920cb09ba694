/*
 * Operations, bytes and the roofline, against counts by hand.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cost.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/problems.h"

static struct attune_cost cost_of(const attune_problem *problem) {
    struct attune_cost cost;
    attune_cost_estimate(problem, &cost);
    return cost;
}

static void test_forward(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.head_dim_v = 32;
    problem.heads_kv = 2;
    test_problem_finish(&problem);
    const struct attune_cost cost = cost_of(&problem);
    assert_true(cost.visible_pairs == 2.0 * 4 * 128 * 128);
    assert_false(cost.pairs_are_bound);
    assert_true(cost.flops == cost.visible_pairs * 2 * (64 + 32));
    /* q, k, v, o in f32 */
    assert_true(cost.bytes == 4.0 * 2 * 128 * (4 * 64 + 2 * 64 + 2 * 32 + 4 * 32));
    assert_true(cost.tensor_bytes == (uint64_t)cost.bytes);
}

static void test_causal_counts_what_is_visible(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.window_right = 0;
    problem.rows = 100;
    test_problem_finish(&problem);
    assert_true(cost_of(&problem).visible_pairs == 2.0 * 4 * (100 * 28 + 100 * 101 / 2));
}

static void test_backward_is_two_and_a_half_times_forward(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    test_problem_finish(&problem);
    const double forward = cost_of(&problem).flops;
    problem.op = ATTUNE_OP_BACKWARD;
    assert_true(cost_of(&problem).flops == 2.5 * forward);
}

static void test_lengths_on_the_device_make_a_bound(void **state) {
    (void)state;
    static const uint64_t features[] = {ATTUNE_FEATURE_VARLEN_Q,    ATTUNE_FEATURE_VARLEN_K,  ATTUNE_FEATURE_SEQUSED_Q,
                                        ATTUNE_FEATURE_SEQUSED_K,   ATTUNE_FEATURE_LEFTPAD_K, ATTUNE_FEATURE_MASK,
                                        ATTUNE_FEATURE_BLOCK_SPARSE};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++) {
        attune_problem problem = test_problem();
        test_problem_finish(&problem);
        problem.features = features[i];
        assert_true(cost_of(&problem).pairs_are_bound);
    }
    attune_problem problem = test_problem();
    problem.features = ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_LSE;
    assert_false(cost_of(&problem).pairs_are_bound);
}

/* No sequence is longer than 128, but all of them together have 150 rows. */
static void test_packed_batches_are_bounded_by_their_total(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.batch = 10;
    test_problem_finish(&problem);
    problem.features = ATTUNE_FEATURE_VARLEN_Q;
    problem.operand[ATTUNE_OPERAND_Q] = test_layout(ATTUNE_DTYPE_F32, 1, 150, 4, 64);
    assert_true(cost_of(&problem).visible_pairs == 150.0 * 128 * 4);
    problem.features |= ATTUNE_FEATURE_VARLEN_K;
    problem.operand[ATTUNE_OPERAND_K] = test_layout(ATTUNE_DTYPE_F32, 1, 20, 4, 64);
    assert_true(cost_of(&problem).visible_pairs == 20.0 * 128 * 4);
}

static void test_broadcast_axes_are_moved_once(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    test_problem_finish(&problem);
    const double without = cost_of(&problem).bytes;
    problem.operand[ATTUNE_OPERAND_BIAS] = test_layout(ATTUNE_DTYPE_F16, 1, 4, 128, 128);
    problem.operand[ATTUNE_OPERAND_BIAS].stride[0] = 0;
    assert_true(cost_of(&problem).bytes - without == 2.0 * 4 * 128 * 128);
    problem.operand[ATTUNE_OPERAND_BIAS].shape[1] = 4096; /* one line, expanded */
    problem.operand[ATTUNE_OPERAND_BIAS].stride[1] = 0;
    assert_true(cost_of(&problem).bytes - without == 2.0 * 128 * 128);
}

/* A pool of 1,000 pages, of which two sequences can use five each. */
static void test_pages_that_no_table_names_are_not_moved(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.page_size = 16;
    problem.keys = 5 * 16;
    test_problem_finish(&problem);
    problem.features = ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_SEQUSED_K;
    problem.operand[ATTUNE_OPERAND_K] = test_layout(ATTUNE_DTYPE_F32, 1000, 16, 4, 64);
    problem.operand[ATTUNE_OPERAND_V] = test_layout(ATTUNE_DTYPE_F32, 1000, 16, 4, 64);
    const struct attune_cost cost = cost_of(&problem);
    const double q_and_o = 2.0 * 2 * 128 * 4 * 64 * 4;
    assert_true(cost.bytes == q_and_o + 2.0 * 2 * 80 * 4 * 64 * 4);
    assert_true(cost.tensor_bytes == (uint64_t)q_and_o + UINT64_C(2) * 1000 * 16 * 4 * 64 * 4);
}

static void test_append_moves_the_new_rows(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.op = ATTUNE_OP_APPEND;
    problem.rotary_dim = 32;
    problem.operand[ATTUNE_OPERAND_K] = test_layout(ATTUNE_DTYPE_E4M3, 2, 4096, 4, 64);
    problem.operand[ATTUNE_OPERAND_V] = test_layout(ATTUNE_DTYPE_E4M3, 2, 4096, 4, 64);
    problem.operand[ATTUNE_OPERAND_K_NEW] = test_layout(ATTUNE_DTYPE_F32, 2, 1, 4, 64);
    problem.operand[ATTUNE_OPERAND_V_NEW] = test_layout(ATTUNE_DTYPE_F32, 2, 1, 4, 64);
    const struct attune_cost cost = cost_of(&problem);
    assert_true(cost.bytes == 2.0 * 2 * 4 * 64 * (4 + 1));
    assert_true(cost.flops == 3.0 * 2 * 4 * 32);
    assert_true(cost.visible_pairs == 0 && !cost.pairs_are_bound);
}

static void test_merge_reads_every_part(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.op = ATTUNE_OP_MERGE;
    problem.parts = 7;
    problem.operand[ATTUNE_OPERAND_PART_O] = test_layout(ATTUNE_DTYPE_F32, 2, 8, 4, 64);
    problem.operand[ATTUNE_OPERAND_PART_LSE] = test_layout(ATTUNE_DTYPE_F32, 2, 4, 8, 1);
    problem.operand[ATTUNE_OPERAND_O] = test_layout(ATTUNE_DTYPE_F16, 2, 8, 4, 64);
    const struct attune_cost cost = cost_of(&problem);
    assert_true(cost.bytes == 7.0 * 4 * (2 * 8 * 4 * 64 + 2 * 4 * 8) + 2.0 * 2 * 8 * 4 * 64);
    assert_true(cost.flops == 2.0 * 7 * 2 * 8 * 4 * 64);
}

static void test_empty_problems_cost_nothing(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.batch = 0;
    test_problem_finish(&problem);
    const struct attune_cost cost = cost_of(&problem);
    assert_true(cost.visible_pairs == 0 && cost.flops == 0 && cost.bytes == 0 && cost.tensor_bytes == 0);
}

static void test_roofline(void **state) {
    (void)state;
    const struct attune_cost cost = {0, false, 1000, 10, 10};
    attune_device_limits limits;
    struct attune_roofline roofline;
    memset(&limits, 0, sizeof limits);
    attune_roofline_estimate(&cost, &limits, &roofline);
    assert_true(roofline.intensity == 100 && roofline.seconds == 0 && !roofline.compute_bound);
    limits.peak_flops = 100;
    attune_roofline_estimate(&cost, &limits, &roofline);
    assert_true(roofline.seconds == 0);
    limits.peak_bytes_per_second = 10;
    attune_roofline_estimate(&cost, &limits, &roofline);
    assert_true(roofline.seconds == 10 && roofline.compute_bound);
    limits.peak_bytes_per_second = 0.5;
    attune_roofline_estimate(&cost, &limits, &roofline);
    assert_true(roofline.seconds == 20 && !roofline.compute_bound);
    const struct attune_cost nothing = {0, false, 0, 0, 0};
    attune_roofline_estimate(&nothing, &limits, &roofline);
    assert_true(roofline.intensity == 0 && roofline.seconds == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_causal_counts_what_is_visible),
        cmocka_unit_test(test_backward_is_two_and_a_half_times_forward),
        cmocka_unit_test(test_lengths_on_the_device_make_a_bound),
        cmocka_unit_test(test_packed_batches_are_bounded_by_their_total),
        cmocka_unit_test(test_broadcast_axes_are_moved_once),
        cmocka_unit_test(test_pages_that_no_table_names_are_not_moved),
        cmocka_unit_test(test_append_moves_the_new_rows),
        cmocka_unit_test(test_merge_reads_every_part),
        cmocka_unit_test(test_empty_problems_cost_nothing),
        cmocka_unit_test(test_roofline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
