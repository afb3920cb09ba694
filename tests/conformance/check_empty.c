/*
 * Problems of no size, and the stream after them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "check.h"

void conform_check_empty(struct conform_context *context) {
    struct conform_options ordinary = conform_options_make(context->test->options.op, context->test->options.dtype);
    struct conform_solved empty;
    struct conform_solved after = {0};
    if (conform_solve(context, &context->test->options, &empty)) {
        (void)conform_solve(context, &ordinary, &after);
    }
    conform_solved_free(&after);
    conform_solved_free(&empty);
}
