/*
 * The sequences of a problem as its lengths in device memory make them: what each has of rows and keys, and where.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_SEQUENCES_H
#define ATTUNE_TOOLS_SEQUENCES_H

#include "attune/attention.h"
#include "core/portable/mask.h"
#include "tensors.h"

struct sequence {
    int64_t batch_q;   /* index along q's first axis; 0 where it is packed, as batch_k */
    int64_t batch_k;   /* along k's and v's */
    int64_t first_row; /* in q; not 0 only where it is packed */
    int64_t first_key; /* in k and v likewise */
    attune_mask mask;  /* rows, keys, left padding, causality and window */
};

struct sequences {
    struct sequence *item; /* from malloc */
    int64_t count;
};

enum tool_exit sequences_read(struct tensors *tensors, const attune_attention_args *args,
                              struct sequences *out_sequences);
void sequences_release(struct sequences *sequences);

#endif
