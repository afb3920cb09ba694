/*
 * docs/semantics.md, "The score", "Who sees whom" and "Dropout" for one sequence and one query head.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_HEAD_H
#define ATTUNE_REFERENCE_HEAD_H

#include "backends/cpu/reference/sequence.h"
#include "core/portable/philox.h"

/* A plane over (i, j) of a tensor that is broadcastable to (B, Hq, Sq, Sk). */
struct reference_plane {
    const char *first; /* NULL: absent */
    attune_dtype dtype;
    int64_t stride_row_bytes;
    int64_t stride_key_bytes;
};

struct reference_head {
    const struct attune_cpu_run *run;
    struct reference_sequence sequence;
    int64_t head;    /* h */
    int64_t head_kv; /* h / (Hq / Hkv) */
    double slope;    /* ALiBi; 0: none */
    double sink;     /* -inf: none */
    struct reference_plane bias;
    struct reference_plane mask;
    attune_dropout dropout;
};

struct reference_head attune_reference_head(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                                            int64_t head);

/* raw of a dot product. */
double attune_reference_raw(const struct reference_head *head, double dot);

/* s of row i and key j from their dot product; -inf if the row does not see the key. */
double attune_reference_score(const struct reference_head *head, int64_t i, int64_t j, double dot);

/* ds / draw, what softcap lets through: 1 - tanh^2(raw / softcap). */
double attune_reference_score_slope(const struct reference_head *head, double dot);

/* Z: what dropout multiplies p by. */
double attune_reference_dropout_factor(const struct reference_head *head, int64_t i, int64_t j);

#endif
