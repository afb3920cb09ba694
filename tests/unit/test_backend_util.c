/*
 * What drivers share with core: checked arithmetic, places of elements, the folded grid.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"

#include "core/portable/work.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/problems.h"

/* ---- Arithmetic ---- */

static void test_ceil_div(void **state) {
    (void)state;
    for (int64_t value = 0; value <= 40; value++) {
        for (int64_t divisor = 1; divisor <= 9; divisor++) {
            const int64_t quotient = attune_ceil_div(value, divisor);
            assert_true(quotient * divisor >= value && (quotient - 1) * divisor < value);
        }
    }
    assert_int_equal(attune_ceil_div(INT64_MAX, 2), INT64_C(1) << 62);
}

static void test_checked_sums_and_products(void **state) {
    (void)state;
    uint64_t out = 7;
    assert_true(attune_add_checked(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    out = 7;
    assert_false(attune_add_checked(UINT64_MAX, 1, &out));
    assert_false(attune_multiply_checked(UINT64_C(1) << 32, UINT64_C(1) << 32, &out));
    assert_true(out == 7);
    assert_true(attune_multiply_checked(UINT64_C(1) << 32, UINT32_MAX, &out));
    assert_true(out == UINT64_C(0xFFFFFFFF00000000));
    assert_true(attune_multiply_checked(UINT64_MAX, 0, &out));
    assert_true(out == 0);
    assert_true(attune_multiply_checked(0, UINT64_MAX, &out));
    assert_true(out == 0);
}

static void test_rounding_up(void **state) {
    (void)state;
    uint64_t out = 0;
    assert_true(attune_round_up_checked(0, 256, &out));
    assert_true(out == 0);
    assert_true(attune_round_up_checked(1, 256, &out));
    assert_true(out == 256);
    assert_true(attune_round_up_checked(256, 256, &out));
    assert_true(out == 256);
    assert_true(attune_round_up_checked(UINT64_MAX - 255, 256, &out));
    assert_true(out == UINT64_MAX - 255);
    assert_false(attune_round_up_checked(UINT64_MAX - 254, 256, &out));
}

/* ---- Operands ---- */

static void test_element_bytes_are_those_of_the_library(void **state) {
    (void)state;
    for (int dtype = 0; dtype <= ATTUNE_DTYPE_F64 + 1; dtype++) {
        assert_int_equal(attune_element_bytes((attune_dtype)dtype), attune_dtype_size_bytes((attune_dtype)dtype));
    }
}

static void test_elements_are_found_by_stride(void **state) {
    (void)state;
    float memory[64];
    attune_problem problem = test_problem();
    attune_bindings bindings;
    memset(&bindings, 0, sizeof bindings);
    problem.operand[ATTUNE_OPERAND_K] = test_layout(ATTUNE_DTYPE_F32, 2, 3, 2, 4);
    bindings.operand[ATTUNE_OPERAND_K].data = memory;
    bindings.operand[ATTUNE_OPERAND_K].byte_offset = 2 * sizeof(float);
    assert_int_equal(attune_layout_elements(&problem.operand[ATTUNE_OPERAND_K]), 48);
    assert_true(attune_problem_has(&problem, ATTUNE_OPERAND_K));
    assert_false(attune_problem_has(&problem, ATTUNE_OPERAND_LSE));
    assert_int_equal(attune_layout_elements(&problem.operand[ATTUNE_OPERAND_LSE]), 0);
    assert_ptr_equal(attune_element(&problem, &bindings, ATTUNE_OPERAND_K, 1, 2, 1, 3), &memory[2 + 24 + 16 + 4 + 3]);
    problem.operand[ATTUNE_OPERAND_K].stride[2] = 0; /* broadcast over heads */
    assert_ptr_equal(attune_element(&problem, &bindings, ATTUNE_OPERAND_K, 1, 2, 9, 3), &memory[2 + 24 + 16 + 3]);
}

/* Past 2^31 and 2^32 elements: pages at the end of a pool, a batch stride of 2^30. */
static void test_offsets_are_wide(void **state) {
    (void)state;
    attune_layout layout = test_layout(ATTUNE_DTYPE_F16, 1 << 20, 64, 8, 128);
    assert_int_equal(attune_layout_offset(&layout, (1 << 20) - 1, 63, 7, 127), (INT64_C(1) << 36) - 1);
    layout.stride[0] = INT64_C(1) << 30;
    assert_int_equal(attune_layout_offset(&layout, 4, 0, 0, 0), INT64_C(1) << 32);
}

/* ---- Tiles ---- */

static void test_tile_bytes(void **state) {
    (void)state;
    attune_problem problem = test_problem();
    problem.head_dim = 100;
    problem.head_dim_v = 60;
    assert_int_equal(attune_tile_bytes(&problem, 16, 32), 4 * (16 * 100 + 32 * 160) + 4 * 16 * 32);
    problem.dtype = ATTUNE_DTYPE_E4M3;
    assert_int_equal(attune_tile_bytes(&problem, 16, 32), 16 * 100 + 32 * 160 + 4 * 16 * 32);
    problem.op = ATTUNE_OP_BACKWARD;
    problem.dtype = ATTUNE_DTYPE_BF16;
    assert_int_equal(attune_tile_bytes(&problem, 16, 32), 2 * (16 * 160 + 32 * 160) + 8 * 16 * 32);
}

/* ---- The grid ---- */

/* Folds, and counts for each work item the work-groups that have it. */
static void check_fold(const int64_t grid[3], const int64_t max[3]) {
    static uint8_t seen[4096];
    int64_t folded[3];
    const int64_t total = grid[0] * grid[1] * grid[2];
    assert_true(total < (int64_t)sizeof seen);
    memset(seen, 0, sizeof seen);
    if (!attune_grid_fold(grid, max, folded)) {
        assert_true(total > max[0] * max[1] * max[2]);
        return;
    }
    const int64_t groups = folded[0] * folded[1] * folded[2];
    for (int axis = 0; axis < 3; axis++) {
        assert_true(folded[axis] <= max[axis]);
    }
    assert_true(groups >= total && groups - total < folded[1] * folded[2] + folded[2] + 1);
    for (int64_t index = 0; index < total; index++) {
        const attune_work work = attune_work_unfold(index, grid[0], grid[1]);
        assert_in_range(work.row_tile, 0, grid[0] - 1);
        assert_in_range(work.split, 0, grid[1] - 1);
        assert_in_range(work.batch_head, 0, grid[2] - 1);
        seen[(work.batch_head * grid[1] + work.split) * grid[0] + work.row_tile]++;
    }
    for (int64_t item = 0; item < total; item++) {
        assert_int_equal(seen[item], 1);
    }
}

static void test_every_work_item_is_had_once(void **state) {
    (void)state;
    for (int64_t x = 0; x <= 9; x += 3) {
        for (int64_t y = 1; y <= 7; y += 2) {
            for (int64_t z = 0; z <= 40; z += 4) {
                for (int64_t limit = 1; limit <= 12; limit++) {
                    const int64_t grid[3] = {x, y, z};
                    const int64_t cube[3] = {limit, limit, limit};
                    const int64_t flat[3] = {4096, limit, 2};
                    check_fold(grid, cube);
                    check_fold(grid, flat);
                }
            }
        }
    }
}

static void test_a_grid_that_fits_is_kept(void **state) {
    (void)state;
    const int64_t max[3] = {INT32_MAX, 65535, 65535};
    const int64_t grid[3] = {7, 3, 65535};
    int64_t folded[3];
    assert_true(attune_grid_fold(grid, max, folded));
    assert_memory_equal(folded, grid, sizeof grid);
    const int64_t empty[3] = {7, 1, 0};
    assert_true(attune_grid_fold(empty, max, folded));
    assert_true(folded[0] == 0 && folded[1] == 0 && folded[2] == 0);
}

/* batch x heads at the limit of a launch, and past it. */
static void test_grids_past_65535(void **state) {
    static const int64_t batch_heads[] = {65535, 65536, 65537, 70000, INT64_C(1) << 33};
    const int64_t max[3] = {INT32_MAX, 65535, 65535};
    (void)state;
    for (size_t i = 0; i < sizeof batch_heads / sizeof batch_heads[0]; i++) {
        const int64_t grid[3] = {2, 3, batch_heads[i]};
        int64_t folded[3] = {0, 0, 0};
        assert_true(attune_grid_fold(grid, max, folded));
        assert_true(folded[0] <= max[0] && folded[1] <= max[1] && folded[2] <= max[2]);
        assert_true(folded[0] * folded[1] * folded[2] >= 6 * batch_heads[i]);
        const attune_work last = attune_work_unfold(6 * batch_heads[i] - 1, grid[0], grid[1]);
        assert_true(last.row_tile == 1 && last.split == 2 && last.batch_head == batch_heads[i] - 1);
    }
    const int64_t too_large[3] = {INT64_C(1) << 30, 1 << 15, 1 << 16};
    const int64_t small[3] = {1 << 16, 1 << 10, 1 << 10};
    int64_t folded[3];
    assert_false(attune_grid_fold(too_large, small, folded));
}

/* ---- Names ---- */

static void test_beginnings_in_any_case(void **state) {
    (void)state;
    assert_true(attune_begins("KiB", "kib") && attune_begins("kib,", "KIB") && attune_begins("", ""));
    assert_true(attune_begins("anything", ""));
    assert_false(attune_begins("ki", "kib"));
    assert_false(attune_begins("kxb", "kib"));
    assert_false(attune_begins("", "k"));
    /* What differs from a letter's case by the same bit is no letter. */
    assert_false(attune_begins("@", "`") || attune_begins("[", "{") || attune_begins("\xC0", "\xE0"));
}

static void test_names_of_a_list(void **state) {
    (void)state;
    char name[8] = "as was";
    assert_true(attune_name_at("one two three", 0, name, sizeof name));
    assert_string_equal(name, "one");
    assert_true(attune_name_at("one two three", 2, name, sizeof name));
    assert_string_equal(name, "three");
    assert_false(attune_name_at("one two three", 3, name, sizeof name));
    assert_false(attune_name_at("", 0, name, sizeof name));
    assert_true(attune_name_at("1234567 2", 0, name, sizeof name));
    assert_string_equal(name, "1234567");
    assert_false(attune_name_at("12345678 2", 0, name, sizeof name)); /* its end does not fit */
    assert_true(attune_name_at("12345678 2", 1, name, sizeof name));
    assert_string_equal(name, "2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ceil_div),
        cmocka_unit_test(test_checked_sums_and_products),
        cmocka_unit_test(test_rounding_up),
        cmocka_unit_test(test_element_bytes_are_those_of_the_library),
        cmocka_unit_test(test_elements_are_found_by_stride),
        cmocka_unit_test(test_offsets_are_wide),
        cmocka_unit_test(test_tile_bytes),
        cmocka_unit_test(test_every_work_item_is_had_once),
        cmocka_unit_test(test_a_grid_that_fits_is_kept),
        cmocka_unit_test(test_grids_past_65535),
        cmocka_unit_test(test_beginnings_in_any_case),
        cmocka_unit_test(test_names_of_a_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
