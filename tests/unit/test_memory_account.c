/*
 * What a device tells of the memory that its calls took.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/memory_account.h"

#include "attune/attention.h"
#include "attune/plan.h"
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

static attune_memory_report report(void) {
    attune_memory_report got = {.struct_size = sizeof got};
    assert_ok(attune_device_get_memory(&fake.device, &got));
    return got;
}

static void assert_report(uint64_t tensors, uint64_t workspace, uint64_t workspace_peak, uint64_t peak) {
    const attune_memory_report got = report();
    assert_int_equal(got.tensor_bytes, tensors);
    assert_int_equal(got.workspace_bytes, workspace);
    assert_int_equal(got.workspace_peak_bytes, workspace_peak);
    assert_int_equal(got.peak_bytes, peak);
}

static void run(attune_stream *stream, int64_t length) {
    const attune_forward_args args = test_forward_args(memory, 1, length, 1, 8);
    assert_ok(attune_forward(&fake.device, stream, &args));
}

/* Four tensors of (1, length, 1, 8) f32. */
static uint64_t tensors_of(uint64_t length) {
    return 4 * length * 8 * 4;
}

static void test_nothing_has_run(void **state) {
    (void)state;
    assert_report(0, 0, 0, 0);
}

static void test_the_largest_run_counts(void **state) {
    (void)state;
    run(NULL, 16);
    run(NULL, 64);
    run(NULL, 32);
    assert_report(tensors_of(64), 0, 0, tensors_of(64));
}

static void test_workspaces_are_kept(void **state) {
    (void)state;
    attune_stream *stream;
    assert_ok(fake_stream_open(&fake, &stream));
    fake.own_bytes = 1024;
    run(NULL, 16);
    assert_report(tensors_of(16), 1024, 1024, tensors_of(16) + 1024);
    run(stream, 16);
    assert_report(tensors_of(16), 2048, 2048, tensors_of(16) + 2048);
    fake_stream_close(stream);
    assert_report(tensors_of(16), 1024, 2048, tensors_of(16) + 2048);
    run(NULL, 64);
    assert_report(tensors_of(64), 1024, 2048, tensors_of(64) + 1024);
}

static void test_a_workspace_grows(void **state) {
    (void)state;
    fake.own_bytes = 256;
    run(NULL, 16);
    fake.own_bytes = 4096;
    run(NULL, 32);
    assert_report(tensors_of(32), 4096, 4096, tensors_of(32) + 4096);
}

static void test_a_workspace_of_the_caller(void **state) {
    (void)state;
    static _Alignas(256) unsigned char workspace[512];
    const attune_forward_args args = test_forward_args(memory, 1, 16, 1, 8);
    attune_plan *plan;
    fake.own_bytes = 512;
    assert_ok(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan));
    assert_report(0, 0, 0, 0);
    assert_ok(attune_plan_run(plan, NULL, &args, workspace, 0, sizeof workspace));
    assert_report(tensors_of(16), 0, 512, tensors_of(16) + 512);
    attune_plan_close(plan);
}

static void test_failed_allocations_count_nothing(void **state) {
    (void)state;
    const attune_forward_args args = test_forward_args(memory, 1, 16, 1, 8);
    fake.own_bytes = 512;
    fake.alloc_status = ATTUNE_OUT_OF_MEMORY;
    assert_int_equal(attune_forward(&fake.device, NULL, &args), ATTUNE_OUT_OF_MEMORY);
    assert_report(0, 0, 0, 0);
}

static void test_sums_saturate(void **state) {
    (void)state;
    struct attune_memory_account account = {0};
    attune_memory_account_run(&account, UINT64_MAX, 2);
    assert_true(account.peak_bytes == UINT64_MAX);
}

static void test_arguments_are_checked(void **state) {
    (void)state;
    attune_memory_report got = {.struct_size = 3};
    assert_int_equal(attune_device_get_memory(NULL, &got), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_memory(&fake.device, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_memory(&fake.device, &got), ATTUNE_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_has_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_largest_run_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_workspaces_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_workspace_grows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_workspace_of_the_caller, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_allocations_count_nothing, set_up, tear_down),
        cmocka_unit_test(test_sums_saturate),
        cmocka_unit_test_setup_teardown(test_arguments_are_checked, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
