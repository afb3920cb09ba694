/*
 * Explanations, as data and as text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/plan.h"

#include <stdlib.h>

#include "tests/support/cmocka_all.h"
#include "tests/support/fake_backend.h"
#include "tests/support/problems.h"

static struct fake fake;
static _Alignas(256) float memory[1 << 15];

static int set_up(void **state) {
    (void)state;
    fake_init(&fake);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    fake_finish(&fake);
    return 0;
}

static attune_explanation explain(const attune_forward_args *args) {
    attune_explanation explanation = attune_explanation_init();
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, args, &explanation), ATTUNE_OK);
    return explanation;
}

/* One row that cannot, and one that can. */
static void set_rows(void) {
    fake.rows[1] = fake.rows[0];
    fake.rows[1].name = "general";
    fake.rows[1].features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_ANY_TILE | ATTUNE_FEATURE_SPLITS;
    fake.row_count = 2;
}

static void test_what_would_be_done(void **state) {
    (void)state;
    attune_refusal refusals[2];
    attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    attune_explanation explanation = attune_explanation_init();
    explanation.refusals = refusals;
    explanation.refusal_capacity = 2;
    set_rows();
    args.causal = true;
    args.splits = 2;
    fake.device.limits.peak_flops = 1e9;
    fake.device.limits.peak_bytes_per_second = 1e9;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OK);
    assert_int_equal(explanation.status, ATTUNE_OK);
    assert_string_equal(explanation.kernel, "general");
    assert_string_equal(explanation.device, "fake:0");
    assert_string_equal(explanation.problem, "forward f32, B 2, Sq 16, Sk 16, Hq 4, Hkv 4, D 8, Dv 8; causal");
    assert_true(explanation.tile_rows == 16 && explanation.tile_keys == 16);
    assert_true(explanation.splits == 2 && explanation.pack == 1);
    assert_true(explanation.grid[0] == 1 && explanation.grid[1] == 2 && explanation.grid[2] == 8);
    assert_int_equal(explanation.alignment_bytes, 16);
    assert_int_equal(explanation.workspace_bytes, 4 * 2 * 8 * 16 * 8 + 4 * 2 * 8 * 16);
    assert_int_equal(explanation.tensor_bytes, 4 * 4 * 1024);
    assert_true(explanation.visible_pairs == 8.0 * 16 * 17 / 2 && !explanation.pairs_are_bound);
    assert_true(explanation.flops == explanation.visible_pairs * 4 * 8);
    assert_true(explanation.bytes == 16384 && explanation.intensity == explanation.flops / 16384);
    assert_true(explanation.compute_bound && explanation.seconds_at_peak == explanation.flops / 1e9);
    assert_int_equal(explanation.refusal_count, 1);
    assert_string_equal(refusals[0].kernel, "fake_forward");
    assert_string_equal(refusals[0].reason, "cannot do causal");
    assert_ptr_equal(explanation.refusals, refusals);
    assert_int_equal(fake.builds, 0);
}

static void test_nothing_that_can_is_no_error(void **state) {
    (void)state;
    attune_forward_args args = test_forward_args(NULL, 2, 16, 4, 8);
    args.causal = true;
    const attune_explanation explanation = explain(&args);
    assert_int_equal(explanation.status, ATTUNE_UNSUPPORTED);
    assert_string_equal(explanation.kernel, "");
    assert_int_equal(explanation.refusal_count, 1);
    assert_int_equal(explanation.tile_rows, 0);
    assert_true(explanation.flops > 0);
}

/* As a caller that was compiled before the struct grew. */
static void test_a_shorter_struct_is_written_to_its_end(void **state) {
    (void)state;
    const attune_forward_args args = test_forward_args(NULL, 2, 16, 4, 8);
    attune_explanation explanation = attune_explanation_init();
    explanation.struct_size = offsetof(attune_explanation, device);
    explanation.refusal_capacity = -1; /* not the caller's to set: its struct ends before */
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OK);
    assert_string_not_equal(explanation.kernel, "");
    assert_int_equal(explanation.struct_size, offsetof(attune_explanation, device));
    assert_string_equal(explanation.device, "");
    assert_int_equal(explanation.refusal_capacity, -1);
}

static void test_a_plan_explains_itself(void **state) {
    (void)state;
    attune_plan *plan = NULL;
    const attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    const attune_explanation before = explain(&args);
    attune_explanation after = attune_explanation_init();
    assert_int_equal(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_OK);
    assert_int_equal(attune_plan_explain(plan, &after), ATTUNE_OK);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(attune_plan_explain(NULL, &after), ATTUNE_INVALID_ARGUMENT);
    attune_plan_close(plan);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    const attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    attune_forward_args unknown = args;
    attune_explanation explanation = attune_explanation_init();
    unknown.kernel = "nothing";
    assert_int_equal(attune_explain(NULL, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, NULL, &explanation), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &unknown, &explanation), ATTUNE_NOT_FOUND);
    explanation.refusal_capacity = 1;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "refusal_capacity = 1");
    explanation.refusal_capacity = 0;
    explanation.struct_size = sizeof explanation.struct_size - 1;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "struct_size = 7: must be sizeof");
    fake.own_bytes = UINT64_MAX;
    explanation.struct_size = sizeof explanation;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OUT_OF_MEMORY);
}

/* ---- Text ---- */

static void test_text_of_a_kernel_that_can(void **state) {
    (void)state;
    char text[4096];
    size_t length = 0;
    attune_refusal refusals[1];
    attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    attune_explanation explanation = attune_explanation_init();
    explanation.refusals = refusals;
    explanation.refusal_capacity = 1;
    set_rows();
    args.causal = true;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OK);
    assert_int_equal(attune_explanation_format(&explanation, text, sizeof text, &length), ATTUNE_OK);
    assert_string_equal(text, "problem     forward f32, B 2, Sq 16, Sk 16, Hq 4, Hkv 4, D 8, Dv 8; causal\n"
                              "device      fake:0\n"
                              "kernel      general\n"
                              "tile        16 rows x 16 keys\n"
                              "splits      1\n"
                              "pack        1 query heads a tile\n"
                              "grid        1 row tiles x 1 splits x 8 batches and heads\n"
                              "alignment   16 bytes\n"
                              "workspace   0 bytes\n"
                              "tensors     16384 bytes\n"
                              "pairs       1088 visible\n"
                              "flops       34816\n"
                              "bytes       16384 moved\n"
                              "intensity   2.125 flops a byte\n"
                              "roofline    unknown: the device does not tell its peaks\n"
                              "refused     fake_forward: cannot do causal\n");
    assert_int_equal(length, strlen(text));
}

static void test_text_of_bounds_and_refusals(void **state) {
    (void)state;
    char text[4096];
    size_t length = 0;
    attune_explanation explanation = attune_explanation_init();
    attune_refusal refusals[2] = {{"one", "because"}, {"two", "why not"}};
    explanation.status = ATTUNE_UNSUPPORTED;
    explanation.pairs_are_bound = true;
    explanation.seconds_at_peak = 0.25;
    explanation.refusals = refusals;
    explanation.refusal_capacity = 2;
    explanation.refusal_count = 5;
    assert_int_equal(attune_explanation_format(&explanation, text, sizeof text, &length), ATTUNE_OK);
    assert_contains(text, "kernel      none: UNSUPPORTED\ntensors ");
    assert_contains(text, "pairs       0 visible at most: lengths, masks and block lists lie in device memory\n");
    assert_contains(text, "roofline    0.25 s at best, bound by memory\n");
    assert_contains(text, "refused     one: because\n            two: why not\n            3 more rows\n");
    explanation.refusals = NULL;
    explanation.refusal_capacity = 0;
    explanation.compute_bound = true;
    assert_int_equal(attune_explanation_format(&explanation, text, sizeof text, &length), ATTUNE_OK);
    assert_contains(text, "bound by compute\nrefused     5 rows\n");
}

/* Any capacity gives as much as fits, ended by 0, and the same length. */
static void test_text_is_cut_to_its_capacity(void **state) {
    (void)state;
    char whole[4096];
    size_t length = 0;
    const attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    const attune_explanation explanation = explain(&args);
    assert_int_equal(attune_explanation_format(&explanation, NULL, 0, &length), ATTUNE_OK);
    assert_true(length > 200);
    assert_int_equal(attune_explanation_format(&explanation, whole, sizeof whole, &length), ATTUNE_OK);
    for (size_t capacity = 1; capacity <= length + 1; capacity++) {
        size_t again = 0;
        char *text = malloc(capacity); /* its end is watched by the sanitizer */
        assert_int_equal(attune_explanation_format(&explanation, text, capacity, &again), ATTUNE_OK);
        assert_int_equal(again, length);
        assert_int_equal(strlen(text), capacity - 1);
        assert_memory_equal(text, whole, capacity - 1);
        free(text);
    }
}

static void test_text_with_wrong_arguments(void **state) {
    (void)state;
    char text[8];
    size_t length = 0;
    attune_explanation explanation = attune_explanation_init();
    assert_int_equal(attune_explanation_format(NULL, text, sizeof text, &length), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_explanation_format(&explanation, NULL, 1, &length), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_explanation_format(&explanation, text, sizeof text, NULL), ATTUNE_INVALID_ARGUMENT);
    explanation.struct_size = 0;
    assert_int_equal(attune_explanation_format(&explanation, text, sizeof text, &length), ATTUNE_INVALID_ARGUMENT);
}

/* ---- Splits that the backend chooses ---- */

static int32_t splits_of_backend;

static int32_t row_splits(void *device, int32_t row, const attune_problem *problem, int32_t request) {
    (void)device, (void)row, (void)problem;
    return request == 0 ? splits_of_backend : request;
}

static attune_forward_args set_own_splits(int32_t splits) {
    attune_forward_args args = test_forward_args(memory, 2, 16, 4, 8);
    set_rows();
    fake.rows[1].features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_ANY_TILE | ATTUNE_FEATURE_OWN_SPLITS;
    fake.backend.row_splits = row_splits;
    splits_of_backend = splits;
    args.causal = true;
    return args;
}

/* What parts leave is then the backend's, too. */
static void test_splits_that_the_backend_chooses(void **state) {
    (void)state;
    attune_forward_args args = set_own_splits(5);
    fake.own_bytes = 512;
    const attune_explanation explanation = explain(&args);
    assert_true(explanation.splits == 5 && explanation.grid[1] == 5);
    assert_int_equal(explanation.workspace_bytes, 512);
    args.splits = 2;
    assert_int_equal(explain(&args).splits, 2);
    fake.backend.row_splits = NULL;
    assert_int_equal(explain(&args).splits, 1);
}

/* Such a row leaves what it would not split to others, but to a request by name. */
static void test_a_row_that_would_not_split(void **state) {
    (void)state;
    attune_refusal refusals[2];
    attune_forward_args args = set_own_splits(1);
    attune_explanation explanation = attune_explanation_init();
    explanation.refusals = refusals;
    explanation.refusal_capacity = 2;
    fake.rows[2] = fake.rows[1];
    fake.rows[2].name = "whole";
    fake.rows[2].features = ATTUNE_FEATURE_CAUSAL;
    fake.row_count = 3;
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OK);
    assert_string_equal(explanation.kernel, "whole");
    assert_string_equal(refusals[1].kernel, "general");
    assert_string_equal(refusals[1].reason, "it splits the keys, which would gain too little here");
    args.splits = 3;
    assert_string_equal(explain(&args).kernel, "general");
    args.splits = 0;
    args.kernel = "general";
    assert_string_equal(explain(&args).kernel, "general");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_what_would_be_done),
        TEST(test_nothing_that_can_is_no_error),
        TEST(test_a_shorter_struct_is_written_to_its_end),
        TEST(test_a_plan_explains_itself),
        TEST(test_wrong_arguments),
        TEST(test_text_of_a_kernel_that_can),
        TEST(test_text_of_bounds_and_refusals),
        TEST(test_text_is_cut_to_its_capacity),
        TEST(test_text_with_wrong_arguments),
        TEST(test_splits_that_the_backend_chooses),
        TEST(test_a_row_that_would_not_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
