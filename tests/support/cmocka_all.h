/*
 * cmocka, with the headers that it wants to see first.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_CMOCKA_ALL_H
#define ATTUNE_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* cmocka's macro of this name takes host->fail away. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                                                  \
    do {                                                                                                               \
        print_error(__VA_ARGS__);                                                                                      \
        print_error("\n");                                                                                             \
        _fail(__FILE__, __LINE__);                                                                                     \
    } while (0)

#define assert_contains(text, part)                                                                                    \
    do {                                                                                                               \
        if (strstr((text), (part)) == NULL) {                                                                          \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));                                                \
        }                                                                                                              \
    } while (0)

/* Of calls of attune, for tests that include its headers. */
#define assert_ok(call) assert_int_equal((call), ATTUNE_OK)
#define assert_fails(call, status, part)                                                                               \
    do {                                                                                                               \
        assert_int_equal((call), (status));                                                                            \
        assert_contains(attune_last_error(), (part));                                                                  \
    } while (0)

#endif
