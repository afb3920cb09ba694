/*
 * The vectors that one operand holds for one sequence and head: those of q, k, v, o or of a gradient, by position.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_VECTORS_H
#define ATTUNE_REFERENCE_VECTORS_H

#include "backends/cpu/reference/sequence.h"

struct reference_vectors {
    char *first; /* of position 0, or of page 0 */
    attune_dtype dtype;
    int64_t length; /* D or Dv */
    int64_t stride_bytes;

    const char *table; /* this sequence's line of the block table; NULL: not paged */
    int64_t table_stride_bytes;
    int64_t page_size;
    int64_t page_stride_bytes;

    const char *descale; /* f32; NULL: 1 */
    int64_t descale_stride_bytes;
};

/* operand: Q, K, V, O, DOUT, DQ, DK or DV, and K_NEW, V_NEW or Q_OUT of an append. head: of the operand's own. */
struct reference_vectors attune_reference_vectors(const struct attune_cpu_run *run,
                                                  const struct reference_sequence *sequence, attune_operand operand,
                                                  int64_t head);

/* Where the vector at a position lies. */
char *attune_reference_vector_address(const struct reference_vectors *vectors, int64_t position);

/* What the stored values at a position are multiplied by. docs/semantics.md, "FP8". */
double attune_reference_descale(const struct reference_vectors *vectors, int64_t position);

/* The vector at a position, times its descale. */
void attune_reference_vector_load(const struct reference_vectors *vectors, int64_t position, double *out);

/* Stores a vector as it is: gradients have no descale. */
void attune_reference_vector_store(const struct reference_vectors *vectors, int64_t position, const double *values);

#endif
