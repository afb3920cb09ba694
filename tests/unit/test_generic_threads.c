/*
 * The portable kernels wherever they may be called from: children of a fork, several threads, a caller's own parallel
 * region. Right results, and none hangs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* fork, alarm */

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <omp.h>

#include "attune/backend_util.h"
#include "tests/unit/generic_case.h"

static const attune_op passes[] = {ATTUNE_OP_FORWARD, ATTUNE_OP_BACKWARD};
static const attune_operand judged[] = {ATTUNE_OPERAND_O, ATTUNE_OPERAND_DV};
static const struct generic_way way = {16, 32, 1, false, 4};

/* A problem that is worth several threads, and has the output that is judged. */
static struct generic_case draw(int pass) {
    for (unsigned seed = 7000;; seed++) {
        struct generic_case drawn = generic_case_draw(passes[pass], seed);
        const attune_problem *problem = &drawn.test.problem;
        const int64_t pairs = problem->batch * problem->heads_q * problem->rows * problem->keys;
        if (drawn.truth[judged[pass]] != NULL && pairs * problem->head_dim > 8000000) {
            return drawn;
        }
        generic_case_free(&drawn);
    }
}

struct expected {
    void *bytes[2];
    size_t size[2];
};

/* What one thread gives. */
static struct expected expect(void) {
    struct expected expected;
    for (int pass = 0; pass < 2; pass++) {
        struct generic_case drawn = draw(pass);
        struct generic_way alone = way;
        alone.threads = 1;
        generic_case_run(&drawn, &alone);
        generic_case_check(&drawn, &alone);
        const attune_dtype dtype = drawn.test.problem.operand[judged[pass]].dtype;
        expected.size[pass] = (size_t)(drawn.elements[judged[pass]] * attune_element_bytes(dtype));
        expected.bytes[pass] = malloc(expected.size[pass]);
        assert_non_null(expected.bytes[pass]);
        memcpy(expected.bytes[pass], drawn.test.memory[judged[pass]], expected.size[pass]);
        generic_case_free(&drawn);
    }
    return expected;
}

/* How often a run gives anything else. */
static int faults_of(const struct expected *expected, struct generic_case drawn[2]) {
    int faults = 0;
    for (int pass = 0; pass < 2; pass++) {
        generic_case_run(&drawn[pass], &way);
        faults += memcmp(drawn[pass].test.memory[judged[pass]], expected->bytes[pass], expected->size[pass]) != 0;
    }
    return faults;
}

struct caller {
    const struct expected *expected;
    struct generic_case drawn[2];
    int faults;
};

#define CALLERS 8

static void callers_make(const struct expected *expected, struct caller *caller) {
    for (int n = 0; n < CALLERS; n++) {
        caller[n] = (struct caller){expected, {draw(0), draw(1)}, 0};
    }
}

static void callers_end(struct caller *caller) {
    for (int n = 0; n < CALLERS; n++) {
        assert_int_equal(caller[n].faults, 0);
        generic_case_free(&caller[n].drawn[0]);
        generic_case_free(&caller[n].drawn[1]);
    }
}

static struct expected expected;

static int setup(void **state) {
    (void)state;
    expected = expect();
    alarm(250); /* ends what hangs */
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free(expected.bytes[0]);
    free(expected.bytes[1]);
    return 0;
}

static void *call(void *context) {
    struct caller *caller = context;
    for (int n = 0; n < 5; n++) {
        caller->faults += faults_of(caller->expected, caller->drawn);
    }
    return NULL;
}

static void test_from_eight_threads_at_once(void **state) {
    (void)state;
    struct caller caller[CALLERS];
    pthread_t thread[CALLERS];
    callers_make(&expected, caller);
    for (int n = 0; n < CALLERS; n++) {
        assert_int_equal(pthread_create(&thread[n], NULL, call, &caller[n]), 0);
    }
    for (int n = 0; n < CALLERS; n++) {
        assert_int_equal(pthread_join(thread[n], NULL), 0);
    }
    callers_end(caller);
}

static void test_inside_of_a_callers_region(void **state) {
    (void)state;
    struct caller caller[CALLERS];
    callers_make(&expected, caller);
#pragma omp parallel for num_threads(3)
    for (int n = 0; n < CALLERS; n++) {
        (void)call(&caller[n]);
    }
    callers_end(caller);
}

static void test_after_100_forks(void **state) {
    (void)state;
    struct generic_case drawn[2] = {draw(0), draw(1)};
    assert_int_equal(faults_of(&expected, drawn), 0); /* now there are threads that a child does not have */
    for (int n = 0; n < 100; n++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(faults_of(&expected, drawn) == 0 ? 0 : 1);
        }
        int status = -1;
        assert_true(child > 0 && waitpid(child, &status, 0) == child);
        assert_int_equal(status, 0);
    }
    assert_int_equal(faults_of(&expected, drawn), 0);
    generic_case_free(&drawn[0]);
    generic_case_free(&drawn[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_eight_threads_at_once),
        cmocka_unit_test(test_inside_of_a_callers_region),
        cmocka_unit_test(test_after_100_forks),
    };
    return cmocka_run_group_tests_name("generic threads", tests, setup, teardown);
}
