/*
 * Runs of plans: the workspace that they are given, and those with nothing to do.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/plan_case.h"

/* ---- The workspace ---- */

static void test_workspace_of_a_run(void **state) {
    (void)state;
    const attune_forward_args args = usual_args();
    fake.own_bytes = 768;
    attune_plan *plan = make_plan(&args);
    assert_fails(attune_plan_run(plan, NULL, &args, NULL, 0, 768), ATTUNE_INVALID_ARGUMENT,
                 "must have the plan's 768 bytes");
    assert_fails(attune_plan_run(plan, NULL, &args, scratch, 0, 767), ATTUNE_INVALID_ARGUMENT,
                 "workspace_bytes = 767: must be the plan's 768 or more");
    assert_fails(attune_plan_run(plan, NULL, &args, scratch, 128, 768), ATTUNE_INVALID_ARGUMENT,
                 "aligned to 256 bytes");
    assert_fails(attune_plan_run(plan, NULL, &args, scratch + 16, 0, 768), ATTUNE_INVALID_ARGUMENT,
                 "aligned to 256 bytes");
    assert_fails(attune_plan_run(plan, NULL, &args, memory, 512, 768), ATTUNE_INVALID_ARGUMENT, "shares bytes with q");
    assert_fails(attune_plan_run(plan, NULL, &args, args.o.data, 0, 768), ATTUNE_INVALID_ARGUMENT,
                 "shares bytes with o");
    assert_int_equal(fake.executions, 0);
    memset(scratch, 0xEE, sizeof scratch);
    assert_int_equal(attune_plan_run(plan, NULL, &args, scratch, 256, 768), ATTUNE_OK);
    for (size_t i = 0; i < sizeof scratch; i++) {
        assert_true((scratch[i] == 0xEE) == (i < 256 || i >= 1024));
    }
    attune_plan_close(plan);
}

static attune_status short_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)device, (void)kind;
    out_range->space = data == (const void *)scratch ? 1 : 0;
    out_range->offset = data == (const void *)scratch ? 0 : (uint64_t)(uintptr_t)data;
    out_range->size_bytes = data == (const void *)scratch ? 1024 : UINT64_MAX;
    return ATTUNE_OK;
}

static void test_workspace_past_the_end_of_its_memory(void **state) {
    (void)state;
    const attune_forward_args args = usual_args();
    fake.own_bytes = 512;
    fake.backend.memory_range = short_range;
    attune_plan *plan = make_plan(&args);
    assert_int_equal(attune_plan_run(plan, NULL, &args, scratch, 512, 512), ATTUNE_OK);
    assert_fails(attune_plan_run(plan, NULL, &args, scratch, 768, 512), ATTUNE_INVALID_ARGUMENT,
                 "must end within its memory");
    assert_fails(attune_plan_run(plan, NULL, &args, scratch, UINT64_MAX - 255, 512), ATTUNE_INVALID_ARGUMENT,
                 "must end within its memory");
    attune_plan_close(plan);
}

static void test_no_workspace_where_none_is_needed(void **state) {
    (void)state;
    const attune_forward_args args = usual_args();
    attune_plan *plan = make_plan(&args);
    assert_int_equal(attune_plan_run(plan, NULL, &args, NULL, 0, 0), ATTUNE_OK);
    attune_plan_close(plan);
}

/* ---- Runs without work ---- */

static int launches_of(const attune_forward_args *args) {
    const int before = fake.executions;
    attune_plan *plan = make_plan(args);
    assert_int_equal(run(plan, args), ATTUNE_OK);
    attune_plan_close(plan);
    return fake.executions - before;
}

static void test_nothing_is_launched_for_empty_outputs(void **state) {
    (void)state;
    attune_forward_args args = test_forward_args(memory, 0, 16, 4, 8);
    args.q.data = args.k.data = args.v.data = args.o.data = NULL;
    assert_int_equal(launches_of(&args), 0);
    args = test_forward_args(memory, 2, 0, 4, 8);
    assert_int_equal(launches_of(&args), 0);
    args = usual_args();
    args.k.shape[1] = 0; /* no keys: o has to be zeroed */
    args.v.shape[1] = 0;
    assert_int_equal(launches_of(&args), 1);
}

/* dk and dv of sequences without rows have to be zeroed. */
static void test_backward_without_rows_is_launched(void **state) {
    (void)state;
    attune_backward_args args = usual_args();
    const int64_t lse[] = {2, 4, 0};
    fake.rows[0].op = ATTUNE_OP_BACKWARD;
    args.q.shape[1] = 0;
    args.o.shape[1] = 0;
    args.dout = args.o;
    args.lse = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 3, lse);
    args.dk = args.k;
    args.dk.data = memory + (1 << 14);
    attune_plan *plan = NULL;
    assert_int_equal(attune_plan_create(&fake.device, ATTUNE_OP_BACKWARD, &args, &plan), ATTUNE_OK);
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    assert_int_equal(fake.executions, 1);
    attune_plan_close(plan);
}

static void test_append_of_nothing_is_not_launched(void **state) {
    (void)state;
    const int64_t cache[] = {2, 16, 4, 8};
    attune_kvcache_append_args args = attune_kvcache_append_args_init();
    fake.rows[0].op = ATTUNE_OP_APPEND;
    for (int64_t rows = 0; rows <= 1; rows++) {
        const int64_t new_rows[] = {2, rows, 4, 8};
        attune_plan *plan = NULL;
        args.k_cache = attune_tensor_contiguous(memory, ATTUNE_DTYPE_F32, 4, cache);
        args.v_cache = attune_tensor_contiguous(memory + 2048, ATTUNE_DTYPE_F32, 4, cache);
        args.k_new = attune_tensor_contiguous(memory + 4096, ATTUNE_DTYPE_F32, 4, new_rows);
        args.v_new = attune_tensor_contiguous(memory + 8192, ATTUNE_DTYPE_F32, 4, new_rows);
        assert_int_equal(attune_plan_create(&fake.device, ATTUNE_OP_APPEND, &args, &plan), ATTUNE_OK);
        assert_int_equal(attune_plan_run(plan, NULL, &args, NULL, 0, 0), ATTUNE_OK);
        assert_int_equal(fake.executions, rows);
        attune_plan_close(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_workspace_of_a_run),
        TEST(test_workspace_past_the_end_of_its_memory),
        TEST(test_no_workspace_where_none_is_needed),
        TEST(test_nothing_is_launched_for_empty_outputs),
        TEST(test_backward_without_rows_is_launched),
        TEST(test_append_of_nothing_is_not_launched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
