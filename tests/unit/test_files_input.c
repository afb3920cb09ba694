/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes below the formats: bounds, and a file that changes while it is read. */
#define _XOPEN_SOURCE 700

#include "files/input.h"
#include "files_scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char message[FILES_MESSAGE_BYTES];
static const struct files_report report = {"input", message, sizeof message};

static void check_bounds(const struct input *input) {
    char bytes[8] = "........";
    assert_int_equal(input_read(input, 2, 3, &report, bytes), FILES_OK);
    assert_memory_equal(bytes, "cde...", 6);
    assert_int_equal(input_read(input, 6, 0, &report, bytes), FILES_OK);
    assert_int_equal(input_read(input, 2, 5, &report, bytes), FILES_INVALID);
    assert_told(message, "ends after 6 bytes; 5 bytes at offset 2 are needed");
    assert_int_equal(input_read(input, 7, 0, &report, bytes), FILES_INVALID);
    assert_int_equal(input_read(input, 0, INT64_MAX, &report, bytes), FILES_INVALID);
    assert_int_equal(input_read(input, INT64_MAX, INT64_MAX, &report, bytes), FILES_INVALID);
    assert_memory_equal(bytes, "cde...", 6);
}

static void bounds_of_memory(void **state) {
    (void)state;
    const struct input input = input_from_memory("abcdef", 6);
    check_bounds(&input);
    const struct input empty = input_from_memory(NULL, 0);
    assert_int_equal(input_read(&empty, 0, 0, &report, NULL), FILES_OK);
}

static void bounds_of_a_file(void **state) {
    (void)state;
    struct input input;
    assert_int_equal(input_open(scratch_file("a", "abcdef", 6), &report, &input), FILES_OK);
    assert_int_equal(input.size_bytes, 6);
    check_bounds(&input);
    input_close(&input);
    input_close(&input);
}

static void a_file_that_shrinks(void **state) {
    (void)state;
    const char *path = scratch_file("a", "abcdef", 6);
    struct input input;
    char bytes[6];
    assert_int_equal(input_open(path, &report, &input), FILES_OK);
    assert_int_equal(truncate(path, 4), 0);
    assert_int_equal(input_read(&input, 1, 5, &report, bytes), FILES_IO_ERROR);
    assert_told(message, "shrank to 4 bytes while it was read");
    input_close(&input);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_of_memory),
        cmocka_unit_test(bounds_of_a_file),
        cmocka_unit_test(a_file_that_shrinks),
    };
    scratch_open();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close();
    return failed;
}
