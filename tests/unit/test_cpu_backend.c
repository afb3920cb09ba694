/*
 * The CPU backend through its vtable, without core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>

#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

static const attune_backend *cpu;
static void *device;

static int open_device(void **state) {
    (void)state;
    cpu = ATTUNE_BACKEND_QUERY(ATTUNE_BACKEND_ABI_MAJOR, &reference_case_host);
    return cpu == NULL || cpu->device_open(0, &device) != ATTUNE_OK;
}

static int close_device(void **state) {
    (void)state;
    cpu->device_close(device);
    return 0;
}

/* ---- What it is ---- */

static void test_refuses_another_abi(void **state) {
    (void)state;
    assert_null(ATTUNE_BACKEND_QUERY(ATTUNE_BACKEND_ABI_MAJOR + 1, &reference_case_host));
    assert_non_null(strstr(reference_case_last_failure(), "ABI"));
}

static void test_describes_itself(void **state) {
    (void)state;
    attune_device_info info = {.struct_size = sizeof info};
    attune_device_limits limits = {.struct_size = sizeof limits};
    assert_int_equal(cpu->struct_size, sizeof *cpu);
    assert_int_equal(cpu->kernel_row_size, sizeof(attune_kernel_row));
    assert_int_equal(cpu->enumerate(0, &info), ATTUNE_OK);
    assert_true(info.is_cpu && !info.is_emulation && info.memory_bytes > 0 && info.name[0] != '\0');
    assert_int_equal(cpu->enumerate(1, &info), ATTUNE_NOT_FOUND);
    assert_int_equal(cpu->device_limits(device, &limits), ATTUNE_OK);
    assert_true(limits.is_cpu && limits.processors >= 1 && limits.alignment_bytes == 256);
    assert_true(limits.architecture[0] != '\0' && limits.memory_bytes > 0);
}

static void check_refused(const char *name, const char *value) {
    void *refused = NULL;
    reference_case_config(name, value);
    assert_int_equal(cpu->device_open(0, &refused), ATTUNE_INVALID_ARGUMENT);
    assert_null(refused);
    assert_non_null(strstr(reference_case_last_failure(), name));
    assert_non_null(strstr(reference_case_last_failure(), value));
    reference_case_config("", "");
}

static void test_B122_variables(void **state) {
    (void)state;
    const char *threads[] = {"0", "-1", " 1", "+1", "1x", "abc", "4097", "99999999999999999999"};
    for (size_t n = 0; n < sizeof threads / sizeof *threads; n++) {
        check_refused("ATTUNE_NUM_THREADS", threads[n]);
    }
    check_refused("ATTUNE_CPU_ISA", "sse9");
    check_refused("ATTUNE_CPU_ISA", "ref");
    assert_non_null(strstr(reference_case_last_failure(), "reference"));
}

static void test_thread_count_is_honoured(void **state) {
    (void)state;
    void *opened = NULL;
    attune_device_limits limits = {.struct_size = sizeof limits};
    reference_case_config("ATTUNE_NUM_THREADS", "17");
    assert_int_equal(cpu->device_open(0, &opened), ATTUNE_OK);
    reference_case_config("", "");
    assert_int_equal(cpu->device_limits(opened, &limits), ATTUNE_OK);
    assert_int_equal(limits.processors, 17);
    cpu->device_close(opened);
}

static void test_rows(void **state) {
    (void)state;
    static const attune_op ops[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD, ATTUNE_OP_APPEND, ATTUNE_OP_MERGE,
                                    ATTUNE_OP_QUANTIZE};
    int32_t count = 0;
    char reason[ATTUNE_REASON_MAX] = "";
    void *opened = NULL;
    reference_case_config("ATTUNE_CPU_ISA", "Reference"); /* core takes it in any case of letters */
    assert_int_equal(cpu->device_open(0, &opened), ATTUNE_OK);
    reference_case_config("", "");
    const attune_kernel_row *rows = cpu->kernels(&count);
    assert_int_equal(count, 10);
    for (int32_t n = 0; n < count; n++) {
        const char *family = n < 5 ? "generic_" : "reference_";
        assert_int_equal(rows[n].op, ops[n % 5]);
        assert_memory_equal(rows[n].name, family, strlen(family));
        assert_string_equal(rows[n].architecture, "any");
        assert_string_equal(rows[n].isa, "");
        assert_int_equal(rows[n].p_dtype, n < 5 ? ATTUNE_DTYPE_F32 : ATTUNE_DTYPE_F64);
        assert_true(cpu->row_runnable(device, n, reason));
        assert_int_equal(cpu->row_runnable(opened, n, reason), n >= 5); /* opened has the reference alone */
    }
    cpu->device_close(opened);
}

static void test_device_that_is_not_there(void **state) {
    (void)state;
    void *opened = NULL;
    assert_int_equal(cpu->device_open(1, &opened), ATTUNE_NOT_FOUND);
    reference_case_fail_alloc(0);
    assert_int_equal(cpu->device_open(0, &opened), ATTUNE_OUT_OF_MEMORY);
    reference_case_fail_alloc(-1);
    assert_null(opened);
}

/* ---- Plans ---- */

#define REFERENCE_FORWARD 5 /* the generic rows come first */

static attune_plan_request request_of(const struct reference_case *test, uint64_t offset) {
    attune_plan_request request = {
        .problem = &test->problem, .row = REFERENCE_FORWARD, .schedule = {.splits = 1, .pack = 1}};
    request.workspace.own.offset = offset;
    request.workspace.own.size_bytes = cpu->workspace_bytes(device, request.row, request.problem, &request.schedule);
    request.workspace.size_bytes = offset + request.workspace.own.size_bytes;
    return request;
}

static void test_plan_runs(void **state) {
    (void)state;
    struct reference_case direct = reference_case_make(ATTUNE_OP_FORWARD, 2, 7, 9, 2, 1, 4, 5);
    struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 2, 7, 9, 2, 1, 4, 5);
    reference_case_add_attention(&direct, 1);
    reference_case_add_attention(&test, 1);
    reference_case_run(&direct);

    void *plan = NULL;
    attune_plan_request request = request_of(&test, 256);
    assert_true(request.workspace.own.size_bytes > 0);
    assert_int_equal(cpu->plan_build(device, &request, &plan), ATTUNE_OK);
    memset(&test.problem, 0xEE, sizeof test.problem); /* the plan has a copy */
    const size_t bytes = 512 + (size_t)request.workspace.size_bytes;
    unsigned char *workspace = aligned_alloc(256, (bytes + 255) / 256 * 256);
    assert_non_null(workspace);
    memset(workspace, 0x5A, bytes);
    test.bindings.workspace = (attune_pointer){.data = workspace, .byte_offset = 256};
    reference_case_fail_alloc(0); /* a run allocates nothing */
    assert_int_equal(cpu->execute(device, plan, NULL, &test.bindings), ATTUNE_OK);
    reference_case_fail_alloc(-1);
    assert_memory_equal(direct.memory[ATTUNE_OPERAND_O], test.memory[ATTUNE_OPERAND_O], 2 * 7 * 2 * 5 * sizeof(float));
    for (uint64_t n = 0; n < 512; n++) { /* nothing but its own part is written */
        assert_int_equal(workspace[n], 0x5A);
    }
    free(workspace);
    cpu->plan_release(device, plan);
    reference_case_free(&direct);
    reference_case_free(&test);
}

static void test_plan_without_memory(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 2, 7, 9, 2, 1, 4, 5);
    attune_plan_request request = request_of(&test, 0);
    void *plan = NULL;
    reference_case_fail_alloc(0);
    assert_int_equal(cpu->plan_build(device, &request, &plan), ATTUNE_OUT_OF_MEMORY);
    reference_case_fail_alloc(-1);
    assert_null(plan);
    cpu->plan_release(device, NULL);
    reference_case_free(&test);
}

/* A workspace that no memory could hold is asked for as such. */
static void test_B047_workspace_does_not_wrap(void **state) {
    (void)state;
    struct reference_case test = reference_case_make(ATTUNE_OP_FORWARD, 1, 8, INT64_C(1) << 60, 1, 1, 4, 5);
    assert_true(request_of(&test, 0).workspace.own.size_bytes == UINT64_MAX);
    test.problem.keys = INT64_C(1) << 31;
    const uint64_t bytes = request_of(&test, 0).workspace.own.size_bytes;
    assert_true(bytes > (UINT64_C(8) << 31) * 8 && bytes < UINT64_MAX / 2);
    reference_case_free(&test);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refuses_another_abi),
        cmocka_unit_test(test_describes_itself),
        cmocka_unit_test(test_B122_variables),
        cmocka_unit_test(test_thread_count_is_honoured),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_device_that_is_not_there),
        cmocka_unit_test(test_plan_runs),
        cmocka_unit_test(test_plan_without_memory),
        cmocka_unit_test(test_B047_workspace_does_not_wrap),
    };
    return cmocka_run_group_tests_name("cpu backend", tests, open_device, close_device);
}
