/*
 * What a row is told to do: tile, pack, splits, grid, and the map of the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/schedule.h"

#include "tests/support/cmocka_all.h"
#include "tests/support/problems.h"

static attune_device_limits limits_of(int32_t processors, int64_t shared_memory_bytes) {
    attune_device_limits limits;
    memset(&limits, 0, sizeof limits);
    limits.processors = processors;
    limits.shared_memory_bytes = shared_memory_bytes;
    return limits;
}

static attune_kernel_row able_row(void) {
    attune_kernel_row row = test_row("able");
    row.features |= ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK | ATTUNE_FEATURE_GQA;
    return row;
}

static attune_schedule make(const attune_device_limits *limits, const attune_problem *problem,
                            const attune_kernel_row *row, const struct attune_request *request) {
    char reason[ATTUNE_REASON_MAX] = "";
    attune_schedule schedule;
    assert_true(attune_schedule_make(limits, problem, row, request, &schedule, reason));
    return schedule;
}

/* ---- Schedules ---- */

static void test_row_without_tiles(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 1024);
    const struct attune_request request = {NULL, 64, 64, 8, false};
    attune_problem problem = test_problem();
    attune_kernel_row row = able_row();
    row.features = ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK;
    const attune_schedule schedule = make(&limits, &problem, &row, &request);
    assert_int_equal(schedule.tile_rows, 0);
    assert_int_equal(schedule.tile_keys, 0);
    assert_int_equal(schedule.splits, 1);
    assert_int_equal(schedule.pack, 1);
    assert_true(schedule.grid[0] == 128 && schedule.grid[1] == 1 && schedule.grid[2] == 8);
}

static void test_row_with_its_own_tile(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 1024);
    const struct attune_request request = {NULL, 64, 64, 0, false};
    attune_problem problem = test_problem();
    attune_kernel_row row = test_row("fixed");
    row.features = 0;
    row.tile_rows = 48;
    row.tile_keys = 96;
    const attune_schedule schedule = make(&limits, &problem, &row, &request);
    assert_int_equal(schedule.tile_rows, 48);
    assert_int_equal(schedule.tile_keys, 96);
    assert_true(schedule.grid[0] == 3 && schedule.grid[1] == 1 && schedule.grid[2] == 8);
}

static void test_decode_packs_and_splits(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 227 * 1024);
    const struct attune_request request = {NULL, 0, 0, 0, false};
    attune_problem problem = test_problem();
    problem.batch = 1;
    problem.rows = 1;
    problem.keys = 65536;
    problem.heads_q = 32;
    problem.heads_kv = 8;
    attune_kernel_row row = able_row();
    attune_schedule schedule = make(&limits, &problem, &row, &request);
    assert_int_equal(schedule.pack, 4);
    assert_int_equal(schedule.tile_rows, 16);
    assert_true(schedule.splits > 8);
    assert_true(schedule.grid[0] == 1 && schedule.grid[1] == schedule.splits && schedule.grid[2] == 8);
    row.features &= ~ATTUNE_FEATURE_PACK;
    schedule = make(&limits, &problem, &row, &request);
    assert_int_equal(schedule.pack, 1);
    assert_int_equal(schedule.grid[2], 32);
    row.features &= ~ATTUNE_FEATURE_SPLITS;
    assert_int_equal(make(&limits, &problem, &row, &request).splits, 1);
}

/* The same problem on devices of every size, and every request: empty splits included. */
static void test_split_requests(void **state) {
    static const int32_t processors[] = {1, 2, 76, 132, 304};
    (void)state;
    attune_problem problem = test_problem();
    const attune_kernel_row row = able_row();
    problem.rows = 1;
    for (size_t p = 0; p < sizeof processors / sizeof processors[0]; p++) {
        const attune_device_limits limits = limits_of(processors[p], 48 * 1024);
        for (int32_t splits = 0; splits <= 130; splits++) {
            const struct attune_request request = {NULL, 0, 16, splits, false};
            const attune_schedule schedule = make(&limits, &problem, &row, &request);
            assert_in_range(schedule.splits, 1, ATTUNE_MERGE_PARTS_MAX);
            assert_true(splits == 0 || splits > ATTUNE_MERGE_PARTS_MAX || schedule.splits == splits);
            assert_true(splits > 0 || schedule.splits <= 8); /* never more than key tiles by itself */
            assert_int_equal(schedule.grid[1], schedule.splits);
        }
    }
}

static void test_probs_and_backward_are_not_split(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 0);
    const struct attune_request request = {NULL, 0, 0, 4, false};
    const attune_kernel_row row = able_row();
    attune_problem problem = test_problem();
    problem.features = ATTUNE_FEATURE_PROBS;
    assert_int_equal(make(&limits, &problem, &row, &request).splits, 1);
    problem.features = 0;
    assert_int_equal(make(&limits, &problem, &row, &request).splits, 4);
    problem.op = ATTUNE_OP_BACKWARD;
    problem.rows = 1;
    problem.heads_kv = 1;
    assert_int_equal(make(&limits, &problem, &row, &request).splits, 1);
    assert_int_equal(make(&limits, &problem, &row, &request).pack, 1);
}

static void test_other_operations_have_a_grid_too(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 0);
    const struct attune_request request = {NULL, 0, 0, 0, false};
    const attune_kernel_row row = able_row();
    attune_problem problem = test_problem();
    problem.op = ATTUNE_OP_APPEND;
    problem.heads_q = 0;
    problem.heads_kv = 3;
    attune_schedule schedule = make(&limits, &problem, &row, &request);
    assert_true(schedule.grid[0] == 128 && schedule.grid[2] == 6);
    problem.op = ATTUNE_OP_MERGE;
    problem.heads_q = 5;
    problem.heads_kv = 0;
    schedule = make(&limits, &problem, &row, &request);
    assert_true(schedule.grid[0] == 128 && schedule.grid[2] == 10 && schedule.tile_rows == 0);
}

static void test_memory_that_no_tile_fits(void **state) {
    (void)state;
    attune_device_limits limits = limits_of(132, 1024);
    const struct attune_request request = {NULL, 0, 0, 0, false};
    const attune_problem problem = test_problem();
    const attune_kernel_row row = able_row();
    char reason[ATTUNE_REASON_MAX] = "";
    attune_schedule schedule;
    assert_false(attune_schedule_make(&limits, &problem, &row, &request, &schedule, reason));
    assert_contains(reason, "3136 bytes of on-chip memory, the device has 1024");
    limits.is_cpu = true; /* a cache is no limit */
    assert_true(attune_schedule_make(&limits, &problem, &row, &request, &schedule, reason));
}

static void test_grids_that_no_integer_holds(void **state) {
    (void)state;
    const attune_device_limits limits = limits_of(132, 0);
    const struct attune_request request = {NULL, 0, 0, 0, false};
    attune_problem problem = test_problem();
    const attune_kernel_row row = able_row();
    char reason[ATTUNE_REASON_MAX] = "";
    attune_schedule schedule;
    problem.batch = INT64_C(1) << 40;
    problem.heads_q = INT64_C(1) << 40;
    problem.rows = 0;
    assert_false(attune_schedule_make(&limits, &problem, &row, &request, &schedule, reason));
    assert_contains(reason, "2^63");
}

/* ---- The workspace ---- */

static attune_schedule splits_of(int32_t splits) {
    attune_schedule schedule;
    memset(&schedule, 0, sizeof schedule);
    schedule.splits = splits;
    return schedule;
}

static void test_workspace_is_often_empty(void **state) {
    (void)state;
    const attune_problem problem = test_problem();
    const attune_schedule schedule = splits_of(1);
    attune_workspace_map map;
    assert_int_equal(attune_workspace_map_make(&problem, &schedule, 0, &map), ATTUNE_OK);
    assert_true(map.size_bytes == 0 && map.partial_o.size_bytes == 0 && map.own.size_bytes == 0);
}

static void test_workspace_regions(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.rows = 3;
    problem.head_dim_v = 5;
    const attune_schedule schedule = splits_of(7);
    attune_workspace_map map;
    assert_int_equal(attune_workspace_map_make(&problem, &schedule, 1, &map), ATTUNE_OK);
    assert_int_equal(map.partial_o.offset, 0);
    assert_int_equal(map.partial_o.size_bytes, 4 * 7 * 2 * 4 * 3 * 5);
    assert_int_equal(map.partial_lse.offset, 3584); /* 3,360 rounded up to 256 */
    assert_int_equal(map.partial_lse.size_bytes, 4 * 7 * 2 * 4 * 3);
    assert_int_equal(map.own.offset, 4352);
    assert_int_equal(map.own.size_bytes, 1);
    assert_int_equal(map.size_bytes, 4608);
}

/* 400 sequences, 4 heads, 10,496 rows, Dv 128: more than 2^31 elements, where 32-bit sizes wrapped elsewhere. */
static void test_workspace_past_two_to_the_31(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.batch = 400;
    problem.rows = 10496;
    problem.head_dim_v = 128;
    const attune_schedule schedule = splits_of(2);
    attune_workspace_map map;
    const uint64_t rows = UINT64_C(2) * 400 * 4 * 10496;
    assert_int_equal(attune_workspace_map_make(&problem, &schedule, UINT64_C(1) << 33, &map), ATTUNE_OK);
    assert_true(map.partial_o.size_bytes == rows * 128 * 4 && rows * 128 > UINT64_C(1) << 31);
    assert_true(map.partial_lse.offset == rows * 128 * 4);
    assert_true(map.own.offset == rows * 129 * 4);
    assert_true(map.size_bytes == rows * 129 * 4 + (UINT64_C(1) << 33));
}

static void test_workspace_that_no_integer_holds(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    attune_schedule schedule = splits_of(1);
    attune_workspace_map map;
    assert_int_equal(attune_workspace_map_make(&problem, &schedule, UINT64_MAX, &map), ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(map.size_bytes, 0);
    problem.rows = INT64_C(1) << 52;
    schedule.splits = 128;
    assert_int_equal(attune_workspace_map_make(&problem, &schedule, 0, &map), ATTUNE_OUT_OF_MEMORY);
    assert_contains(attune_last_error(), "128 splits");
}

/* A plan made for the longest lengths serves all shorter ones. */
static void test_workspace_grows_with_every_length(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    const attune_schedule schedule = splits_of(3);
    uint64_t last = 0;
    for (problem.rows = 0; problem.rows < 300; problem.rows++) {
        attune_workspace_map map;
        assert_int_equal(attune_workspace_map_make(&problem, &schedule, 0, &map), ATTUNE_OK);
        assert_true(map.size_bytes >= last && map.size_bytes % ATTUNE_WORKSPACE_ALIGNMENT == 0);
        last = map.size_bytes;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_without_tiles),
        cmocka_unit_test(test_row_with_its_own_tile),
        cmocka_unit_test(test_decode_packs_and_splits),
        cmocka_unit_test(test_split_requests),
        cmocka_unit_test(test_probs_and_backward_are_not_split),
        cmocka_unit_test(test_other_operations_have_a_grid_too),
        cmocka_unit_test(test_memory_that_no_tile_fits),
        cmocka_unit_test(test_grids_that_no_integer_holds),
        cmocka_unit_test(test_workspace_is_often_empty),
        cmocka_unit_test(test_workspace_regions),
        cmocka_unit_test(test_workspace_past_two_to_the_31),
        cmocka_unit_test(test_workspace_that_no_integer_holds),
        cmocka_unit_test(test_workspace_grows_with_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
