/*
 * Structs of callers that were compiled against an older or a newer attune.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include "attune/status.h"
#include "core/args.h"

struct known {
    size_t struct_size;
    int64_t first;
    int64_t second;
};

struct longer {
    struct known known;
    int64_t unknown;
};

static void same_size_is_copied(void **state) {
    (void)state;
    struct known args = {sizeof args, 1, 2};
    struct known read = {0, 9, 9};
    assert_int_equal(attune_args_import("known", &args, sizeof read, &read), ATTUNE_OK);
    assert_memory_equal(&read, &args, sizeof read);
}

static void smaller_is_extended_by_zeros(void **state) {
    (void)state;
    struct known args = {offsetof(struct known, second), 1, 2};
    struct known read = {0, 9, 9};
    assert_int_equal(attune_args_import("known", &args, sizeof read, &read), ATTUNE_OK);
    assert_int_equal(read.struct_size, sizeof read);
    assert_int_equal(read.first, 1);
    assert_int_equal(read.second, 0);
}

static void larger_needs_zeros_behind(void **state) {
    (void)state;
    struct longer args = {{sizeof args, 1, 2}, 0};
    struct known read = {0, 9, 9};
    assert_int_equal(attune_args_import("known", &args, sizeof read, &read), ATTUNE_OK);
    assert_int_equal(read.second, 2);

    args.unknown = INT64_C(1) << 40;
    struct known untouched = {0, 9, 9};
    assert_int_equal(attune_args_import("known", &args, sizeof untouched, &untouched), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "known has byte 29 of 32 set");
    assert_int_equal(untouched.first, 9);
}

static void absurd_sizes_are_refused(void **state) {
    (void)state;
    const size_t sizes[] = {0, 1, sizeof(size_t) - 1, ATTUNE_ARGS_SIZE_MAX + 1, SIZE_MAX};
    for (size_t index = 0; index < sizeof sizes / sizeof sizes[0]; index++) {
        struct known args = {sizes[index], 1, 2};
        struct known out = {0, 9, 9};
        assert_int_equal(attune_args_import("known", &args, sizeof out, &out), ATTUNE_INVALID_ARGUMENT);
        assert_contains(attune_last_error(), "known.struct_size = ");
        assert_int_equal(attune_args_export("known", &out, sizeof out, &args), ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(args.first, 1);
    }
    struct known out;
    assert_int_equal(attune_args_import("known", NULL, sizeof out, &out), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_args_export("known", &out, sizeof out, NULL), ATTUNE_INVALID_ARGUMENT);
}

static void export_writes_no_further_than_struct_size(void **state) {
    (void)state;
    const struct longer value = {{sizeof value, 1, 2}, 3};
    struct longer caller = {{offsetof(struct known, second), 9, 9}, 9};
    assert_int_equal(attune_args_export("known", &value, sizeof value, &caller), ATTUNE_OK);
    assert_int_equal(caller.known.struct_size, offsetof(struct known, second));
    assert_int_equal(caller.known.first, 1);
    assert_int_equal(caller.known.second, 9);
}

static void export_zeroes_what_the_library_does_not_know(void **state) {
    (void)state;
    const struct known value = {sizeof value, 1, 2};
    struct longer caller = {{sizeof caller, 9, 9}, 9};
    assert_int_equal(attune_args_export("known", &value, sizeof value, &caller), ATTUNE_OK);
    assert_int_equal(caller.known.struct_size, sizeof caller);
    assert_int_equal(caller.known.second, 2);
    assert_int_equal(caller.unknown, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_size_is_copied),
        cmocka_unit_test(smaller_is_extended_by_zeros),
        cmocka_unit_test(larger_needs_zeros_behind),
        cmocka_unit_test(absurd_sizes_are_refused),
        cmocka_unit_test(export_writes_no_further_than_struct_size),
        cmocka_unit_test(export_zeroes_what_the_library_does_not_know),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
