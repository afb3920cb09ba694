/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include <stdarg.h>
#include <stdio.h>

bool conform_outcome_fail(struct conform_outcome *outcome, const char *format, ...) {
    if (outcome->status != CONFORM_FAILED) {
        va_list list;
        va_start(list, format);
        vsnprintf(outcome->reason, sizeof outcome->reason, format, list);
        va_end(list);
        outcome->status = CONFORM_FAILED;
    }
    return false;
}

bool conform_outcome_skip(struct conform_outcome *outcome, const char *format, ...) {
    if (outcome->status == CONFORM_PASSED) {
        va_list list;
        va_start(list, format);
        vsnprintf(outcome->reason, sizeof outcome->reason, format, list);
        va_end(list);
        outcome->status = CONFORM_SKIPPED;
    }
    return false;
}

bool conform_outcome_expect_ok(struct conform_outcome *outcome, const char *call, attune_status status) {
    if (status == ATTUNE_OK) {
        return true;
    }
    return conform_outcome_fail(outcome, "%s returned %s: %s", call, attune_status_name(status), attune_last_error());
}

bool conform_outcome_expect(struct conform_outcome *outcome, const char *call, attune_status status,
                            attune_status expected) {
    if (status == expected) {
        return true;
    }
    return conform_outcome_fail(outcome, "%s returned %s in place of %s%s%s", call, attune_status_name(status),
                                attune_status_name(expected), status == ATTUNE_OK ? "" : ": ",
                                status == ATTUNE_OK ? "" : attune_last_error());
}
