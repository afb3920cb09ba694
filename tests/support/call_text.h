/*
 * Args of a call as one line of text, so that a test case is a line:
 *
 *     q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) causal=1 window.left=-2 k.stride[1]=0
 *
 * A tensor is given as dtype(shape), in C order with data at 4096, or as none; then single fields of it can be changed.
 * Merge has its parts in the arrays: part_o sets all of them, part_o[1] one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_CALL_TEXT_H
#define ATTUNE_TESTS_CALL_TEXT_H

#include "attune/attention.h"
#include "attune/kvcache.h"
#include "attune/plan.h"

struct call_text {
    attune_op op;
    union {
        attune_attention_args attention; /* forward and backward */
        attune_kvcache_append_args append;
        attune_merge_args merge;
        attune_quantize_args quantize;
    } args;
    attune_tensor part_o[ATTUNE_MERGE_PARTS_MAX]; /* args.merge points here */
    attune_tensor part_lse[ATTUNE_MERGE_PARTS_MAX];
};

/* Args that are all default. */
void call_text_init(attune_op op, struct call_text *out_call);

/* Applies the assignments of a line in their order. Aborts on text that it does not understand. */
void call_text_apply(struct call_text *call, const char *text);

/* Where a tensor argument lies in args; NULL if there is none of that name. "part_o[2]" works too. */
attune_tensor *call_text_tensor(struct call_text *call, const char *name);

#endif
