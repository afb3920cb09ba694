/*
 * A session with a driver in which each call fails in turn.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_FAILING_CALLS_H
#define ATTUNE_TESTS_FAILING_CALLS_H

#include "tests/support/cmocka_all.h"

#include <stdbool.h>
#include <stddef.h>

#include "attune/status.h"

/* A function whose failure the caller need not hear of: one that gives back, whatever it says, or one on a path where
 * others go on without it. */
struct quiet_function {
    const char *name;
    bool is_heard_of; /* on some other path */
    bool was_told;
};

struct failing_calls {
    struct quiet_function *quiet;
    size_t quiet_count;
    /* Runs a session whose so manieth call fails. Returns the name of the function, NULL if there were fewer calls. */
    const char *(*run)(int64_t call, attune_status *out_status);
    /* The session's status and sentence are what the failure has to give. */
    void (*assert_told)(const char *function, attune_status status);
    /* Nothing that the session made is left. */
    void (*assert_cleaned_up)(const char *function, attune_status status);
};

/* Fails each call, until a session comes to its end without one. Of the quiet functions just those are told that are
 * heard of. */
void failing_calls_walk(const struct failing_calls *calls);

#endif
