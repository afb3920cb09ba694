/*
 * The portable kernels against the reference: random problems of every option in both passes, every tile and split, any
 * number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/backward.h"
#include "tests/unit/generic_case.h"

static void check_random(attune_op op, unsigned first_seed, unsigned count) {
    for (unsigned seed = first_seed; seed < first_seed + count; seed++) {
        struct generic_case drawn = generic_case_draw(op, seed);
        for (int n = 0; n < 3; n++) {
            const struct generic_way way = generic_case_draw_way(&drawn);
            generic_case_run(&drawn, &way);
            generic_case_check(&drawn, &way);
        }
        generic_case_free(&drawn);
    }
}

static void test_random_forward(void **state) {
    (void)state;
    check_random(ATTUNE_OP_FORWARD, 1000, 300);
}

static void test_random_backward(void **state) {
    (void)state;
    check_random(ATTUNE_OP_BACKWARD, 2000, 250);
}

/* ---- Every tile and split ---- */

static const int32_t sides[] = {16, 32, 48, 64, 128};
#define SIDES ((int)(sizeof sides / sizeof sides[0]))

static void check_tiles(attune_op op, unsigned seed) {
    struct generic_case drawn = generic_case_draw(op, seed);
    for (int n = 0; n < SIDES * SIDES; n++) {
        const struct generic_way way = {sides[n / SIDES], sides[n % SIDES], 1, n % 2 == 0, 1 + n % 3};
        generic_case_run(&drawn, &way);
        generic_case_check(&drawn, &way);
    }
    generic_case_free(&drawn);
}

static void test_tiles(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 12; seed++) {
        check_tiles(ATTUNE_OP_FORWARD, 3000 + seed);
        check_tiles(ATTUNE_OP_BACKWARD, 3100 + seed);
    }
}

static void check_splits(unsigned seed) {
    static const int32_t splits[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 40};
    struct generic_case drawn = generic_case_draw(ATTUNE_OP_FORWARD, seed);
    const bool has_probs = drawn.test.problem.operand[ATTUNE_OPERAND_PROBS].dtype != ATTUNE_DTYPE_NONE;
    for (int n = 0; n < 10 * SIDES && !has_probs; n++) {
        const struct generic_way way = {sides[n % SIDES], sides[(n + 2) % SIDES], splits[n / SIDES], n % 2 == 0,
                                        1 + n % 3};
        generic_case_run(&drawn, &way);
        generic_case_check(&drawn, &way);
    }
    generic_case_free(&drawn);
}

static void test_splits(void **state) {
    (void)state;
    for (unsigned seed = 4000; seed < 4016; seed++) {
        check_splits(seed);
    }
}

/* ---- The same bits ---- */

static const attune_operand results[] = {
    ATTUNE_OPERAND_O,  ATTUNE_OPERAND_LSE, ATTUNE_OPERAND_PROBS, ATTUNE_OPERAND_DQ,
    ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV,  ATTUNE_OPERAND_DBIAS, ATTUNE_OPERAND_DSINK,
};
#define RESULTS ((int)(sizeof results / sizeof results[0]))

static size_t bytes_of(const struct generic_case *drawn, attune_operand operand) {
    const attune_dtype dtype = drawn->test.problem.operand[operand].dtype;
    return drawn->truth[operand] == NULL ? 0 : (size_t)(drawn->elements[operand] * attune_element_bytes(dtype));
}

/* Two runs, each in its own way, differ in no bit. */
static void check_same_bits(struct generic_case *drawn, const struct generic_way *one,
                            const struct generic_way *other) {
    char *kept[RESULTS];
    generic_case_run(drawn, one);
    for (int n = 0; n < RESULTS; n++) {
        kept[n] = malloc(bytes_of(drawn, results[n]) + 1);
        assert_non_null(kept[n]);
        if (bytes_of(drawn, results[n]) > 0) {
            memcpy(kept[n], drawn->test.memory[results[n]], bytes_of(drawn, results[n]));
        }
    }
    generic_case_run(drawn, other);
    for (int n = 0; n < RESULTS; n++) {
        if (bytes_of(drawn, results[n]) > 0) {
            assert_memory_equal(kept[n], drawn->test.memory[results[n]], bytes_of(drawn, results[n]));
        }
        free(kept[n]);
    }
}

/* Whether dQ comes with dK and dV. */
static bool sums_dq(const struct generic_case *drawn, const struct generic_way *way) {
    const attune_schedule schedule = {.tile_rows = way->tile_rows};
    return drawn->test.problem.op == ATTUNE_OP_BACKWARD &&
           attune_generic_dkv_sums_dq(&drawn->test.problem, &schedule, way->threads);
}

static void test_threads_change_no_bit(void **state) {
    (void)state;
    int differing = 0; /* in how dQ is found */
    for (unsigned seed = 5000; seed < 5030; seed++) {
        struct generic_case drawn = generic_case_draw(seed % 2 == 0 ? ATTUNE_OP_FORWARD : ATTUNE_OP_BACKWARD, seed);
        struct generic_way one = generic_case_draw_way(&drawn);
        struct generic_way other = one;
        one.threads = 1;
        for (other.threads = 2; other.threads <= 3; other.threads++) {
            check_same_bits(&drawn, &one, &other);
            differing += sums_dq(&drawn, &one) != sums_dq(&drawn, &other);
        }
        generic_case_free(&drawn);
    }
    assert_true(differing > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_forward),
        cmocka_unit_test(test_random_backward),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_threads_change_no_bit),
    };
    return cmocka_run_group_tests_name("generic", tests, NULL, NULL);
}
