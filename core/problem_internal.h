/*
 * One function for each operation of attune_call_make; out_call is zero on entry.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PROBLEM_INTERNAL_H
#define ATTUNE_CORE_PROBLEM_INTERNAL_H

#include "core/call.h"

/* Forward and backward. */
ATTUNE_MUST_CHECK attune_status attune_call_make_attention(attune_op op, const void *args,
                                                           struct attune_call *out_call);
ATTUNE_MUST_CHECK attune_status attune_call_make_append(const void *args, struct attune_call *out_call);
ATTUNE_MUST_CHECK attune_status attune_call_make_merge(const void *args, struct attune_call *out_call);
ATTUNE_MUST_CHECK attune_status attune_call_make_quantize(const void *args, struct attune_call *out_call);

#endif
