/*
 * The rules for arguments: turns the args of a public call into a canonical problem, or says what is wrong with them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PROBLEM_H
#define ATTUNE_CORE_PROBLEM_H

#include "core/call.h"

/* Validates all that can be said without a device. Sets out_call whole; problem.alignment_bytes is 16 and
 * ATTUNE_FEATURE_O_IS_Q clear until attune_call_check_memory has looked at the pointers. args is the struct that op
 * names. */
attune_status attune_call_make(attune_op op, const void *args, struct attune_call *out_call);

#endif
