/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "failing_calls.h"

static struct quiet_function *find_quiet(const struct failing_calls *calls, const char *name) {
    for (size_t index = 0; index < calls->quiet_count; index++) {
        if (strcmp(calls->quiet[index].name, name) == 0) {
            return &calls->quiet[index];
        }
    }
    return NULL;
}

static void assert_quiet_only_at_times(const struct failing_calls *calls) {
    for (size_t index = 0; index < calls->quiet_count; index++) {
        struct quiet_function *quiet = &calls->quiet[index];
        if (quiet->was_told != quiet->is_heard_of) {
            fail_msg("%s: its failures are %s", quiet->name, quiet->was_told ? "told" : "never told");
        }
        quiet->was_told = false;
    }
}

void failing_calls_walk(const struct failing_calls *calls) {
    attune_status status = ATTUNE_OK;
    const char *function;
    for (int64_t call = 1; (function = calls->run(call, &status)) != NULL; call++) {
        struct quiet_function *quiet = find_quiet(calls, function);
        if (status != ATTUNE_OK && quiet != NULL) {
            quiet->was_told = true;
        }
        if (status != ATTUNE_OK || quiet == NULL) {
            calls->assert_told(function, status);
        }
        calls->assert_cleaned_up(function, status);
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_quiet_only_at_times(calls);
}
