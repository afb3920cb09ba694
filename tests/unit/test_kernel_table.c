/*
 * Which row computes a problem, and the sentence for each that does not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/kernel_table.h"

#include <stdlib.h>

#include "core/describe.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/fake_backend.h"
#include "tests/support/problems.h"

static struct fake fake;

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

static const struct attune_request automatic = {NULL, 0, 0, 0, false};

/* The reason for which the only row refuses; "" if it does not. */
static const char *reason_of(const attune_problem *problem) {
    static attune_refusal refusal;
    struct attune_refusal_list list = {&refusal, 1, 0};
    struct attune_choice choice;
    memset(&refusal, 0, sizeof refusal);
    fake.row_count = 1;
    assert_int_equal(attune_kernel_choose(&fake.device, problem, &automatic, &list, &choice), ATTUNE_OK);
    assert_int_equal(choice.row, list.count == 0 ? 0 : -1);
    if (list.count > 0) {
        assert_string_equal(refusal.kernel, "fake_forward");
    }
    return refusal.reason;
}

/* ---- One column at a time ---- */

static void test_a_row_that_fits(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    assert_string_equal(reason_of(&problem), "");
    problem.head_dim = 256;
    problem.head_dim_v = 1;
    assert_string_equal(reason_of(&problem), "");
}

static void test_dtype(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.dtype = ATTUNE_DTYPE_BF16;
    assert_string_equal(reason_of(&problem), "does not read bf16, but f32 f16");
}

static void test_head_sizes(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.head_dim = 257;
    assert_string_equal(reason_of(&problem), "D = 257 is more than 256");
    problem.head_dim = 64;
    problem.head_dim_v = 300;
    assert_string_equal(reason_of(&problem), "Dv = 300 is more than 256");
    fake.rows[0].head_dim_multiple = 8;
    problem.head_dim_v = 60;
    assert_string_equal(reason_of(&problem), "Dv = 60 is not a multiple of 8");
}

static void test_features_by_the_names_of_options(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.features = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_PAGED;
    fake.rows[0].features |= ATTUNE_FEATURE_SOFTCAP;
    assert_string_equal(reason_of(&problem), "cannot do causal, block_table");
}

static void test_every_feature_has_a_name(void **state) {
    (void)state;
    for (int32_t bit = 0; bit < ATTUNE_FEATURE_COUNT; bit++) {
        assert_string_not_equal(attune_feature_name(bit), "unknown");
        for (int32_t other = 0; other < bit; other++) {
            assert_string_not_equal(attune_feature_name(bit), attune_feature_name(other));
        }
    }
    assert_string_equal(attune_feature_name(ATTUNE_FEATURE_COUNT), "unknown");
}

static void test_rows_alignment_and_limits(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    fake.rows[0].rows_max = 16;
    assert_string_equal(reason_of(&problem), "128 rows are more than 16");
    problem.rows = 16;
    fake.rows[0].alignment_bytes = 16;
    problem.alignment_bytes = 4;
    assert_string_equal(reason_of(&problem), "pointers are aligned to 4 bytes, not to 16");
    problem.alignment_bytes = 16;
    fake.rows[0].shared_bytes = 131072;
    fake.rows[0].threads = 384;
    assert_string_equal(reason_of(&problem), "");
    fake.device.limits.shared_memory_bytes = 101376;
    fake.device.limits.work_group_size_max = 256;
    assert_string_equal(reason_of(&problem), "takes 131072 bytes of on-chip memory, the device has 101376; "
                                             "takes work-groups of 384, the device has at most 256");
    fake.device.limits.is_cpu = true;
    assert_string_equal(reason_of(&problem), "");
}

static void test_tiles_that_do_not_fit(void **state) {
    (void)state;
    const attune_problem problem = test_problem();
    fake.device.limits.shared_memory_bytes = 2048;
    assert_contains(reason_of(&problem), "the device has 2048");
}

/* Every cheap reason at once; those of the backend only if there is none. */
static void test_all_cheap_reasons_are_told(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.dtype = ATTUNE_DTYPE_E4M3;
    problem.head_dim = 260;
    problem.features = ATTUNE_FEATURE_BIAS;
    fake.not_runnable[0] = "needs another device";
    fake.not_accepted[0] = "strides";
    assert_string_equal(reason_of(&problem),
                        "does not read e4m3, but f32 f16; D = 260 is more than 256; cannot do bias");
    problem = test_problem();
    assert_string_equal(reason_of(&problem), "needs another device");
    fake.not_runnable[0] = NULL;
    assert_string_equal(reason_of(&problem), "strides");
    fake.not_accepted[0] = "";
    assert_string_equal(reason_of(&problem), "the backend does not accept it");
    fake.not_runnable[0] = "";
    assert_string_equal(reason_of(&problem), "this device cannot run it");
    fake.backend.row_runnable = NULL;
    fake.backend.row_accepts = NULL;
    assert_string_equal(reason_of(&problem), "");
}

static void test_reasons_are_cut_not_overrun(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.features = (UINT64_C(1) << ATTUNE_FEATURE_COUNT) - 1;
    problem.dtype = ATTUNE_DTYPE_E4M3;
    const char *reason = reason_of(&problem);
    assert_int_equal(strlen(reason), ATTUNE_REASON_MAX - 1);
    assert_string_equal(reason + ATTUNE_REASON_MAX - 4, "...");
}

/* ---- Several rows ---- */

static void set_rows(int32_t count) {
    static const char *const names[] = {"first", "second", "third", "fourth"};
    for (int32_t row = 0; row < count; row++) {
        fake.rows[row] = test_row(names[row]);
    }
    fake.row_count = count;
}

static struct attune_choice choose(const struct attune_request *request, struct attune_refusal_list *list) {
    const attune_problem problem = test_problem();
    struct attune_choice choice;
    assert_int_equal(attune_kernel_choose(&fake.device, &problem, request, list, &choice), ATTUNE_OK);
    return choice;
}

static void test_rows_are_tried_in_order(void **state) {
    (void)state;
    attune_refusal refusals[4];
    struct attune_refusal_list list = {refusals, 4, 0};
    set_rows(4);
    fake.rows[0].dtypes = 0;
    fake.rows[1].op = ATTUNE_OP_BACKWARD; /* not asked, so not refused */
    const struct attune_choice choice = choose(&automatic, &list);
    assert_int_equal(choice.row, 2);
    assert_string_equal(choice.kernel.name, "third");
    assert_true(choice.schedule.tile_rows > 0);
    assert_int_equal(list.count, 1);
    assert_string_equal(refusals[0].kernel, "first");
}

static void test_refusals_are_counted_past_the_capacity(void **state) {
    (void)state;
    attune_refusal refusal;
    struct attune_refusal_list list = {&refusal, 1, 0};
    set_rows(4);
    for (int32_t row = 0; row < 4; row++) {
        fake.rows[row].rows_max = row + 1;
    }
    assert_int_equal(choose(&automatic, &list).row, -1);
    assert_int_equal(list.count, 4);
    assert_string_equal(refusal.kernel, "first");
    struct attune_refusal_list only_count = {NULL, 0, 0};
    assert_int_equal(choose(&automatic, &only_count).row, -1);
    assert_int_equal(only_count.count, 4);
}

/* A request picks among the rows that can; it refuses nothing. */
static void test_requests_prefer_rows_that_honour_them(void **state) {
    (void)state;
    struct attune_refusal_list list = {NULL, 0, 0};
    const struct attune_request tile = {NULL, 32, 64, 0, false};
    const struct attune_request splits = {NULL, 0, 0, 4, false};
    const struct attune_request both = {NULL, 32, 64, 4, false};
    set_rows(4);
    fake.rows[0].features = 0; /* a tile of its own */
    fake.rows[0].tile_rows = 128;
    fake.rows[0].tile_keys = 128;
    fake.rows[2].features |= ATTUNE_FEATURE_SPLITS;
    fake.rows[2].dtypes = 0;
    fake.rows[3].features |= ATTUNE_FEATURE_SPLITS;
    assert_int_equal(choose(&automatic, &list).row, 0);
    assert_int_equal(choose(&tile, &list).row, 1);
    assert_int_equal(choose(&splits, &list).row, 3);
    assert_int_equal(choose(&both, &list).row, 3);
    fake.row_count = 2;
    assert_int_equal(choose(&splits, &list).row, 0);
    fake.row_count = 1;
    assert_int_equal(choose(&tile, &list).row, 0);
}

/* ---- A kernel by its name ---- */

static attune_status choose_kernel(const char *name, struct attune_choice *out_choice) {
    const struct attune_request request = {name, 0, 0, 0, false};
    const attune_problem problem = test_problem();
    struct attune_refusal_list list = {NULL, 0, 0};
    return attune_kernel_choose(&fake.device, &problem, &request, &list, out_choice);
}

static void test_a_kernel_by_name(void **state) {
    (void)state;
    struct attune_choice choice;
    set_rows(4);
    assert_int_equal(choose_kernel("third", &choice), ATTUNE_OK);
    assert_int_equal(choice.row, 2);
    fake.rows[2].dtypes = 0;
    assert_int_equal(choose_kernel("third", &choice), ATTUNE_OK);
    assert_int_equal(choice.row, -1); /* no other is taken in its place */
}

static void test_a_name_that_there_is_not(void **state) {
    (void)state;
    struct attune_choice choice;
    set_rows(4);
    fake.rows[3].op = ATTUNE_OP_BACKWARD;
    assert_int_equal(choose_kernel("secund", &choice), ATTUNE_NOT_FOUND);
    assert_contains(attune_last_error(), "kernel = \"secund\": must be a row for forward");
    assert_contains(attune_last_error(), "the nearest is second");
    assert_contains(attune_last_error(), "first, second, third");
    assert_int_equal(choose_kernel("fourth", &choice), ATTUNE_NOT_FOUND); /* it is for backward */
    fake.row_count = 0;
    assert_int_equal(choose_kernel("first", &choice), ATTUNE_NOT_FOUND);
    assert_contains(attune_last_error(), "no kernel for forward");
}

/* ---- The sentence ---- */

static void test_unsupported_has_a_line_for_each_row(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    struct attune_request request = automatic;
    problem.features = ATTUNE_FEATURE_CAUSAL;
    set_rows(3);
    fake.rows[1].op = ATTUNE_OP_MERGE;
    fake.rows[2].rows_max = 1;
    assert_int_equal(attune_kernel_fail_unsupported(&fake.device, &problem, &request), ATTUNE_UNSUPPORTED);
    assert_string_equal(attune_last_error(),
                        "no kernel of fake:0 computes forward f32, B 2, Sq 128, Sk 128, Hq 4, Hkv 4, D 64, Dv 64; "
                        "causal\n"
                        "  first: cannot do causal\n"
                        "  third: cannot do causal; 128 rows are more than 1");
    request.kernel = "third";
    assert_int_equal(attune_kernel_fail_unsupported(&fake.device, &problem, &request), ATTUNE_UNSUPPORTED);
    assert_contains(attune_last_error(), "\n  third: cannot do causal");
    assert_null(strstr(attune_last_error(), "first"));
    problem.op = ATTUNE_OP_QUANTIZE;
    assert_int_equal(attune_kernel_fail_unsupported(&fake.device, &problem, &automatic), ATTUNE_UNSUPPORTED);
    assert_contains(attune_last_error(), "the backend has none for this operation");
}

static void test_problems_in_words(void **state) {
    (void)state;
    char text[ATTUNE_REASON_MAX];
    attune_problem problem = test_problem();
    problem.op = ATTUNE_OP_APPEND;
    attune_describe_problem(&problem, text, sizeof text);
    assert_string_equal(text, "append f32, B 2, Snew 128, capacity 128, Hkv 4, D 64, Dv 64");
    problem.op = ATTUNE_OP_MERGE;
    problem.parts = 3;
    attune_describe_problem(&problem, text, sizeof text);
    assert_string_equal(text, "merge f32, B 2, S 128, H 4, Dv 64, 3 parts");
    problem.op = ATTUNE_OP_QUANTIZE;
    attune_describe_problem(&problem, text, sizeof text);
    assert_string_equal(text, "quantize f32, B 2, S 128, H 4, D 64");
    assert_string_equal(attune_op_name((attune_op)9), "unknown");
    assert_string_equal(attune_op_name((attune_op)0), "unknown");
}

/* ---- Rows of a backend that was compiled with another struct ---- */

static unsigned char foreign_rows[3 * (sizeof(attune_kernel_row) + 64)];

static const attune_kernel_row *foreign_kernels(int32_t *out_count) {
    *out_count = 3;
    return (const attune_kernel_row *)(const void *)foreign_rows;
}

static void check_foreign(size_t row_size) {
    static const char *const names[] = {"a", "b", "c"};
    memset(foreign_rows, 0xFF, sizeof foreign_rows);
    for (size_t index = 0; index < 3; index++) {
        const attune_kernel_row row = test_row(names[index]);
        memcpy(foreign_rows + index * row_size, &row, row_size < sizeof row ? row_size : sizeof row);
    }
    fake.backend.kernels = foreign_kernels;
    fake.backend.kernel_row_size = row_size;
    for (int32_t index = 0; index < 3; index++) {
        const attune_kernel_row row = attune_kernel_row_get(&fake.backend, index);
        assert_string_equal(row.name, names[index]);
        assert_int_equal(row.head_dim_max, 256);
        assert_null(row.kernel);
    }
}

static void test_rows_of_another_length(void **state) {
    (void)state;
    check_foreign(sizeof(attune_kernel_row));
    check_foreign(sizeof(attune_kernel_row) + 64);
    check_foreign(offsetof(attune_kernel_row, kernel));
}

/* ---- For the application ---- */

static void test_kernels_are_counted_and_described(void **state) {
    (void)state;
    int32_t count = -1;
    attune_kernel_info info;
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    set_rows(2);
    fake.rows[1].flushes_subnormals = true;
    fake.not_runnable[1] = "needs sm_90";
    assert_int_equal(attune_device_count_kernels(&fake.device, &count), ATTUNE_OK);
    assert_int_equal(count, 2);
    assert_int_equal(attune_device_get_kernel(&fake.device, 0, &info), ATTUNE_OK);
    assert_string_equal(info.name, "first");
    assert_true(info.runnable && info.reason[0] == '\0' && !info.flushes_subnormals);
    assert_int_equal(attune_device_get_kernel(&fake.device, 1, &info), ATTUNE_OK);
    assert_true(!info.runnable && info.flushes_subnormals && info.struct_size == sizeof info);
    assert_string_equal(info.reason, "needs sm_90");
    assert_string_equal(info.architecture, "any");
    assert_int_equal(info.op, ATTUNE_OP_FORWARD);
    assert_true(info.dtypes == fake.rows[1].dtypes && info.features == fake.rows[1].features);
    assert_true(info.head_dim_max == 256 && info.head_dim_v_max == 256 && info.head_dim_multiple == 1);
    assert_int_equal(info.p_dtype, ATTUNE_DTYPE_F32);
}

static void test_wrong_arguments(void **state) {
    (void)state;
    int32_t count = -1;
    attune_kernel_info info;
    memset(&info, 0, sizeof info);
    assert_int_equal(attune_device_count_kernels(NULL, &count), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_count_kernels(&fake.device, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_kernel(NULL, 0, &info), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_kernel(&fake.device, 0, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_kernel(&fake.device, 0, &info), ATTUNE_INVALID_ARGUMENT); /* struct_size */
    info.struct_size = sizeof info;
    assert_int_equal(attune_device_get_kernel(&fake.device, -1, &info), ATTUNE_NOT_FOUND);
    assert_int_equal(attune_device_get_kernel(&fake.device, 1, &info), ATTUNE_NOT_FOUND);
    assert_contains(attune_last_error(), "index = 1: must be from 0 to 0");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_row_that_fits),
        TEST(test_dtype),
        TEST(test_head_sizes),
        TEST(test_features_by_the_names_of_options),
        TEST(test_every_feature_has_a_name),
        TEST(test_rows_alignment_and_limits),
        TEST(test_tiles_that_do_not_fit),
        TEST(test_all_cheap_reasons_are_told),
        TEST(test_reasons_are_cut_not_overrun),
        TEST(test_rows_are_tried_in_order),
        TEST(test_refusals_are_counted_past_the_capacity),
        TEST(test_requests_prefer_rows_that_honour_them),
        TEST(test_a_kernel_by_name),
        TEST(test_a_name_that_there_is_not),
        TEST(test_unsupported_has_a_line_for_each_row),
        TEST(test_problems_in_words),
        TEST(test_rows_of_another_length),
        TEST(test_kernels_are_counted_and_described),
        TEST(test_wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
