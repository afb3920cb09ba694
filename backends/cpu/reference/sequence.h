/*
 * docs/semantics.md, "Who sees whom": which rows and keys one entry of the batch has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_SEQUENCE_H
#define ATTUNE_REFERENCE_SEQUENCE_H

#include "backends/cpu/kernel.h"
#include "core/portable/mask.h"

struct reference_sequence {
    int64_t batch;     /* b */
    int64_t first_row; /* where it begins in a packed batch; 0 in one that is not packed */
    int64_t first_key;
    attune_mask mask; /* Sq and Sk of this sequence, its left padding, diagonal and window */
};

struct reference_sequence attune_reference_sequence(const struct attune_cpu_run *run, int64_t batch);

/* Of append: whether there is such a position, whatever seqused_k holds: nothing outside of the tensors is read or
 * written. */
bool attune_reference_has_position(const struct attune_cpu_run *run, int64_t position, int64_t capacity);

/* Element (i0, i1) of a list of lengths, offsets or pages. */
int64_t attune_reference_integer(const struct attune_cpu_run *run, attune_operand operand, int64_t i0, int64_t i1);

#endif
