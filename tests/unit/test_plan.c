/*
 * Plans: what is fixed in them, what a run may change, and what it is refused for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/plan_case.h"

/* ---- Making plans ---- */

static void test_a_plan_is_what_was_asked_for(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    args.causal = true;
    args.tile_rows = 32;
    args.tile_keys = 16;
    fake.own_bytes = 1000;
    attune_plan *plan = make_plan(&args);
    uint64_t bytes = 0;
    assert_int_equal(attune_plan_get_workspace(plan, &bytes), ATTUNE_OK);
    assert_int_equal(bytes, 1024);
    assert_int_equal(fake.last_request.row, 0);
    assert_int_equal(fake.last_request.schedule.tile_rows, 32);
    assert_int_equal(fake.last_request.schedule.tile_keys, 16);
    assert_int_equal(fake.last_request.workspace.own.size_bytes, 1000);
    assert_int_equal(fake.last_problem.rows, 16);
    assert_int_equal(fake.last_problem.window_right, 0);
    assert_int_equal(fake.last_problem.alignment_bytes, 16);
    attune_plan_close(plan);
    attune_plan_close(NULL);
}

static void test_plans_before_the_data_is_there(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    args.q.data = args.k.data = args.v.data = args.o.data = NULL;
    attune_plan *plan = make_plan(&args);
    assert_int_equal(fake.last_problem.alignment_bytes, 16);
    args = usual_args();
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    args.v.data = NULL;
    assert_fails(run(plan, &args), ATTUNE_INVALID_ARGUMENT, "v");
    attune_plan_close(plan);
}

static void test_plans_that_are_refused(void **state) {
    (void)state;
    attune_plan *plan = NULL;
    attune_forward_args args = usual_args();
    assert_fails(attune_plan_create(NULL, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_INVALID_ARGUMENT, "device");
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, NULL, &plan), ATTUNE_INVALID_ARGUMENT, "NULL");
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, NULL), ATTUNE_INVALID_ARGUMENT, "out_plan");
    assert_fails(attune_plan_create(&fake.device, (attune_op)77, &args, &plan), ATTUNE_INVALID_ARGUMENT, "77");
    args.kernel = "fake_forwards";
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_NOT_FOUND, "fake_forward");
    args.kernel = NULL;
    args.softcap = -1;
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_INVALID_ARGUMENT, "softcap");
    args.softcap = 1;
    fake.rows[0].features = 0;
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_UNSUPPORTED,
                 "\n  fake_forward: cannot do softcap");
    fake.rows[0].features = ALL_FEATURES;
    fake.build_status = ATTUNE_UNAVAILABLE;
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_UNAVAILABLE, "plan_build");
    fake.build_status = ATTUNE_OK;
    fake.own_bytes = UINT64_MAX;
    assert_fails(attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan), ATTUNE_OUT_OF_MEMORY, "workspace");
    assert_null(plan);
}

/* With each number of allocations that succeed: a plan, or OUT_OF_MEMORY and nothing leaked. */
static void test_plans_without_host_memory(void **state) {
    (void)state;
    const attune_forward_args args = usual_args();
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    int64_t allowed = 0;
    while (status != ATTUNE_OK) {
        attune_plan *plan = NULL;
        attune_host_limit_allocations(allowed++);
        status = attune_plan_create(&fake.device, ATTUNE_OP_FORWARD, &args, &plan);
        attune_host_limit_allocations(-1);
        assert_true(status == ATTUNE_OK || status == ATTUNE_OUT_OF_MEMORY);
        assert_true((status == ATTUNE_OK) == (plan != NULL));
        attune_plan_close(plan);
    }
    assert_true(allowed > 2);
}

static void test_settings_of_the_device(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    fake.device.settings.deterministic = true;
    fake.device.settings.tile_rows = 64;
    fake.device.settings.tile_keys = 32;
    attune_plan *plan = make_plan(&args);
    assert_true(fake.last_problem.deterministic);
    assert_true((fake.last_problem.features & ATTUNE_FEATURE_DETERMINISTIC) != 0);
    assert_int_equal(fake.last_request.schedule.tile_rows, 64);
    assert_int_equal(fake.last_request.schedule.tile_keys, 32);
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    attune_plan_close(plan);
    args.tile_keys = 16; /* the args' own request, of one side only */
    plan = make_plan(&args);
    assert_int_equal(fake.last_request.schedule.tile_keys, 16);
    assert_int_equal(fake.last_request.schedule.tile_rows, 16);
    attune_plan_close(plan);
}

/* ---- Runs ---- */

static void test_a_run_may_change_what_is_not_baked_in(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    args.dropout_rate = 0.5;
    fake.own_bytes = 256;
    attune_plan *plan = make_plan(&args);
    args.scale = -3;
    args.dropout_seed = 77;
    args.dropout_offset = 5;
    args.v.data = memory + (1 << 14);
    args.o.data = memory;
    args.o.byte_offset = 20 * sizeof(float) * 1024;
    assert_int_equal(attune_plan_run(plan, NULL, &args, scratch, 512, 256), ATTUNE_OK);
    assert_int_equal(fake.executions, 1);
    const attune_bindings *bindings = &fake.last_bindings;
    assert_true(bindings->scale == -3 && bindings->dropout_seed == 77 && bindings->dropout_offset == 5);
    assert_ptr_equal(bindings->operand[ATTUNE_OPERAND_V].data, memory + (1 << 14));
    assert_int_equal(bindings->operand[ATTUNE_OPERAND_O].byte_offset, args.o.byte_offset);
    assert_ptr_equal(bindings->workspace.data, scratch);
    assert_int_equal(bindings->workspace.byte_offset, 512);
    attune_plan_close(plan);
}

/* Changes one thing in the args of a run, and names what the sentence must tell. */
struct change {
    void (*apply)(attune_forward_args *args);
    const char *part;
};

static void change_length(attune_forward_args *args) {
    *args = test_forward_args(memory, 2, 17, 4, 8);
}
static void change_batch(attune_forward_args *args) {
    *args = test_forward_args(memory, 1, 16, 4, 8);
}
static void change_stride(attune_forward_args *args) {
    args->v.stride[1] = 40;
    args->v.stride[0] = 640;
    args->v.data = memory + (1 << 14);
}
static void change_dtype(attune_forward_args *args) {
    args->q.dtype = args->k.dtype = args->v.dtype = args->o.dtype = ATTUNE_DTYPE_F16;
}
static void change_memory(attune_forward_args *args) {
    args->k.memory = ATTUNE_MEMORY_HOST;
}
static void change_presence(attune_forward_args *args) {
    const int64_t shape[] = {2, 4, 16};
    args->lse = attune_tensor_contiguous(memory + (1 << 14), ATTUNE_DTYPE_F32, 3, shape);
}
static void change_causal(attune_forward_args *args) {
    args->causal = true;
}
static void change_window(attune_forward_args *args) {
    args->window = ATTUNE_WINDOW(3, 4);
}
static void change_align(attune_forward_args *args) {
    args->causal = true;
    args->align = ATTUNE_ALIGN_DIAGONAL;
    args->diagonal = 2;
}
static void change_softcap(attune_forward_args *args) {
    args->softcap = 2;
}
static void change_dropout(attune_forward_args *args) {
    args->dropout_rate = 0.25;
}
static void change_origin(attune_forward_args *args) {
    args->dropout_rate = 0.25;
    args->row_origin = 6;
}
static void change_deterministic(attune_forward_args *args) {
    args->deterministic = true;
}
static void change_splits(attune_forward_args *args) {
    args->splits = 3;
}
static void change_tile(attune_forward_args *args) {
    args->tile_rows = 16;
    args->tile_keys = 16;
}
static void change_kernel(attune_forward_args *args) {
    args->kernel = "fake_forward";
}

static void test_a_run_may_change_nothing_else(void **state) {
    static const struct change changes[] = {
        {change_length, "q has shape, on four axes, (2, 17, 4, 8): must be (2, 16, 4, 8), as the plan was made"},
        {change_batch, "q has shape"},
        {change_stride, "v has stride, on four axes, (640, 40, 8, 1): must be (512, 32, 8, 1), as the plan was made"},
        {change_dtype, "q.dtype = f16: must be f32, as the plan was made"},
        {change_memory, "k.memory = "},
        {change_presence, "lse.dtype = f32: must be none, as the plan was made"},
        {change_causal, "window.right (0 if causal) = 0: must be -1, as the plan was made"},
        {change_window, "window.left = 3"},
        {change_align, "diagonal = 2"},
        {change_softcap, "softcap = 2: must be 0, as the plan was made"},
        {change_dropout, "dropout_rate = 0.25"},
        {change_origin, "row_origin = 6"},
        {change_deterministic, "deterministic = 1: must be 0, as the plan was made"},
        {change_splits, "splits = 3: must be 0, as the plan was made"},
        {change_tile, "tile_rows = 16"},
        {change_kernel, "kernel = \"fake_forward\""},
    };
    (void)state;
    attune_forward_args args = usual_args();
    attune_plan *plan = make_plan(&args);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        args = usual_args();
        changes[i].apply(&args);
        assert_fails(run(plan, &args), ATTUNE_INVALID_ARGUMENT, changes[i].part);
        /* And the other way round. */
        attune_plan *changed = make_plan(&args);
        args = usual_args();
        assert_int_equal(run(changed, &args), ATTUNE_INVALID_ARGUMENT);
        attune_plan_close(changed);
    }
    args = usual_args();
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    assert_int_equal(fake.executions, 1);
    attune_plan_close(plan);
}

static void test_a_kernel_by_name_outlives_the_callers_string(void **state) {
    (void)state;
    char name[] = "fake_forward";
    attune_forward_args args = usual_args();
    args.kernel = name;
    attune_plan *plan = make_plan(&args);
    memset(name, 'x', sizeof name - 1);
    args.kernel = "fake_forward";
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    attune_plan_close(plan);
}

static void test_pointers_are_aligned_as_planned(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    attune_plan *aligned = make_plan(&args);
    args.k.byte_offset = 4;
    args.v.data = memory + (1 << 14);
    attune_plan *unaligned = make_plan(&args);
    assert_int_equal(fake.last_problem.alignment_bytes, 4);
    assert_fails(run(aligned, &args), ATTUNE_INVALID_ARGUMENT,
                 "aligned to 4 bytes: must be to 16, as the plan was made");
    assert_int_equal(run(unaligned, &args), ATTUNE_OK);
    args = usual_args(); /* better than planned */
    assert_int_equal(run(unaligned, &args), ATTUNE_OK);
    attune_plan_close(aligned);
    attune_plan_close(unaligned);
}

static void test_o_that_is_q(void **state) {
    (void)state;
    attune_forward_args args = usual_args();
    attune_plan *plan = make_plan(&args);
    args.o.data = args.q.data;
    assert_fails(run(plan, &args), ATTUNE_INVALID_ARGUMENT, "o is q");
    attune_plan_close(plan);
    fake.rows[0].features |= ATTUNE_FEATURE_O_IS_Q;
    args = usual_args();
    plan = make_plan(&args);
    args.o.data = args.q.data;
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    attune_plan_close(plan);
    plan = make_plan(&args);
    args = usual_args();
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    attune_plan_close(plan);
}

static void test_runs_with_wrong_arguments(void **state) {
    (void)state;
    const attune_forward_args args = usual_args();
    attune_plan *plan = make_plan(&args);
    struct attune_device elsewhere = fake.device;
    struct attune_stream stream = {&elsewhere, NULL};
    uint64_t bytes;
    assert_fails(attune_plan_run(NULL, NULL, &args, NULL, 0, 0), ATTUNE_INVALID_ARGUMENT, "plan");
    assert_fails(attune_plan_run(plan, NULL, NULL, NULL, 0, 0), ATTUNE_INVALID_ARGUMENT, "NULL");
    assert_fails(attune_plan_run(plan, &stream, &args, NULL, 0, 0), ATTUNE_INVALID_ARGUMENT, "stream");
    assert_fails(attune_plan_get_workspace(NULL, &bytes), ATTUNE_INVALID_ARGUMENT, "plan");
    assert_fails(attune_plan_get_workspace(plan, NULL), ATTUNE_INVALID_ARGUMENT, "out_bytes");
    fake.execute_status = ATTUNE_DEVICE_LOST;
    assert_fails(run(plan, &args), ATTUNE_DEVICE_LOST, "execute");
    attune_plan_close(plan);
}

/* ---- ATTUNE_CHECK ---- */

static void test_lengths_are_checked_when_asked(void **state) {
    (void)state;
    static int32_t lengths[2] = {16, 17};
    const int64_t shape[] = {2};
    attune_forward_args args = usual_args();
    args.seqused_k = attune_tensor_contiguous(lengths, ATTUNE_DTYPE_I32, 1, shape);
    attune_plan *plan = make_plan(&args);
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    args.check = true;
    assert_fails(run(plan, &args), ATTUNE_INVALID_ARGUMENT, "seqused_k");
    args.check = false;
    fake.device.settings.check = true;
    assert_fails(run(plan, &args), ATTUNE_INVALID_ARGUMENT, "17");
    lengths[1] = 15;
    assert_int_equal(run(plan, &args), ATTUNE_OK);
    assert_int_equal(fake.executions, 2);
    attune_plan_close(plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_plan_is_what_was_asked_for),    TEST(test_plans_before_the_data_is_there),
        TEST(test_plans_that_are_refused),          TEST(test_plans_without_host_memory),
        TEST(test_settings_of_the_device),          TEST(test_a_run_may_change_what_is_not_baked_in),
        TEST(test_a_run_may_change_nothing_else),   TEST(test_a_kernel_by_name_outlives_the_callers_string),
        TEST(test_pointers_are_aligned_as_planned), TEST(test_o_that_is_q),
        TEST(test_runs_with_wrong_arguments),       TEST(test_lengths_are_checked_when_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
