/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/problem.h"

#include <string.h>

#include "core/problem_internal.h"
#include "core/status_internal.h"

attune_status attune_call_make(attune_op op, const void *args, struct attune_call *out_call) {
    memset(out_call, 0, sizeof *out_call); /* padding too: problems are compared as bytes */
    switch (op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        return attune_call_make_attention(op, args, out_call);
    case ATTUNE_OP_APPEND:
        return attune_call_make_append(args, out_call);
    case ATTUNE_OP_MERGE:
        return attune_call_make_merge(args, out_call);
    case ATTUNE_OP_QUANTIZE:
        return attune_call_make_quantize(args, out_call);
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "op = %d: must be one of attune_op", (int)op);
}
