/*
 * backends/driver_open.h, on the C library's mathematics for a driver.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE 1 /* fork */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/driver_open.h"
#include "tests/support/cmocka_all.h"

struct math_table {
    struct attune_driver_table driver;
    double (*floor)(double x);
    double (*newer)(double x);
};

static const char *configured = "";
static char sentence[512];
static int started;
static attune_status start_status;

static const char *config_get(const char *name) {
    return strcmp(name, "ATTUNE_MATH_LIBRARY") == 0 ? configured : "another variable";
}

static attune_status fail(attune_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

static void *alloc(size_t bytes) {
    return calloc(1, bytes);
}

static const attune_host_services host = {
    .struct_size = sizeof host, .fail = fail, .alloc = alloc, .free = free, .config_get = config_get};

static attune_status start(struct attune_driver_table *table) {
    started++;
    assert_non_null(((struct math_table *)table)->floor);
    return start_status;
}

static const struct attune_driver_function functions[] = {
    {"floor", offsetof(struct math_table, floor), false},
    {"attune_no_such_function", offsetof(struct math_table, newer), true},
};
static const struct attune_driver_function missing[] = {
    {"attune_no_such_function", offsetof(struct math_table, newer), false}};

static struct attune_driver driver;
static _Atomic(struct attune_driver_table *) opened;

static int begin(void **state) {
    (void)state;
    driver = (struct attune_driver){
        .variable = "ATTUNE_MATH_LIBRARY",
        .libraries = "libattune_none.so.9 libm.so.6 libattune_none.so.5",
        .functions = functions,
        .function_count = sizeof functions / sizeof functions[0],
        .table_bytes = sizeof(struct math_table),
        .start = start,
        .older = "it is old",
        .opened = "done sums",
    };
    configured = "";
    started = 0;
    start_status = ATTUNE_OK;
    return 0;
}

static int end(void **state) {
    (void)state;
    free(atomic_exchange(&opened, NULL));
    return 0;
}

static attune_status open_driver(const struct attune_driver_table **out_table) {
    return attune_driver_open(&driver, &host, &opened, out_table);
}

static void the_first_that_opens_is_taken(void **state) {
    (void)state;
    const struct attune_driver_table *table = NULL;
    assert_int_equal(open_driver(&table), ATTUNE_OK);
    assert_string_equal(table->path, "libm.so.6");
    const struct math_table *math = (const struct math_table *)table;
    assert_true(math->floor(2.5) == 2.0);
    assert_null(math->newer);
    const struct attune_driver_table *again = NULL;
    assert_int_equal(open_driver(&again), ATTUNE_OK);
    assert_ptr_equal(again, table);
    assert_int_equal(started, 1);
}

static void the_variable_goes_before(void **state) {
    (void)state;
    const struct attune_driver_table *table = NULL;
    configured = "/no/such/libm.so"; /* and nothing else is tried */
    assert_int_equal(open_driver(&table), ATTUNE_UNAVAILABLE);
    assert_non_null(strstr(sentence, "/no/such/libm.so"));
    configured = "libm.so.6";
    driver.libraries = "libattune_none.so.9";
    assert_int_equal(open_driver(&table), ATTUNE_OK);
    assert_string_equal(table->path, "libm.so.6");
}

static void what_is_missing_is_named(void **state) {
    (void)state;
    const struct attune_driver_table *table = NULL;
    driver.libraries = "libattune_none.so.9 libattune_none.so.5";
    assert_int_equal(open_driver(&table), ATTUNE_UNAVAILABLE);
    assert_contains(sentence, "libattune_none.so.9 libattune_none.so.5: libattune_none.so.5: cannot open");
    driver.libraries = "libm.so.6";
    driver.functions = missing;
    driver.function_count = 1;
    assert_int_equal(open_driver(&table), ATTUNE_UNAVAILABLE);
    assert_string_equal(sentence, "libm.so.6 has no attune_no_such_function: it is old");
    assert_null(table);
}

static void a_failed_start_is_tried_again(void **state) {
    (void)state;
    const struct attune_driver_table *table = NULL;
    start_status = ATTUNE_UNAVAILABLE;
    assert_int_equal(open_driver(&table), ATTUNE_UNAVAILABLE);
    assert_null(table);
    start_status = ATTUNE_OK;
    assert_int_equal(open_driver(&table), ATTUNE_OK);
    assert_int_equal(started, 2);
}

static void a_fork_has_no_driver(void **state) {
    (void)state;
    const struct attune_driver_table *table = NULL;
    assert_int_equal(open_driver(&table), ATTUNE_OK);
    const pid_t child = fork();
    if (child == 0) {
        const bool is_refused = attune_driver_is_forked(table) && open_driver(&table) == ATTUNE_UNAVAILABLE &&
                                strcmp(sentence, "this process is a fork of one that had done sums") == 0;
        _exit(is_refused ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_false(attune_driver_is_forked(table));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_first_that_opens_is_taken), TEST(the_variable_goes_before), TEST(what_is_missing_is_named),
        TEST(a_failed_start_is_tried_again), TEST(a_fork_has_no_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
