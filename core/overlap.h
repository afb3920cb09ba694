/*
 * Whether two strided sets of bytes share one. Pure arithmetic: nothing here knows what a tensor is
 * for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_OVERLAP_H
#define ATTUNE_CORE_OVERLAP_H

#include "attune/backend.h"

/* No tensor reaches further than this from its data, so that sums and differences of a few offsets stay in 64 bits. */
#define ATTUNE_SPAN_BYTES_MAX (INT64_C(1) << 60)

/* Elements at begin + sum(i_k * stride_bytes[k]), each of element_bytes. Extents are 0 or more, strides too; from the
 * first byte to the last it is at most ATTUNE_SPAN_BYTES_MAX. */
struct attune_strided {
    uint64_t begin;
    int64_t element_bytes;
    int64_t shape[ATTUNE_RANK_MAX];
    int64_t stride_bytes[ATTUNE_RANK_MAX];
};

enum attune_overlap {
    ATTUNE_OVERLAP_NO,
    ATTUNE_OVERLAP_YES,
    ATTUNE_OVERLAP_UNDECIDED /* the search was given up: strides that do not nest, and many of them */
};

/* Whether the first byte of a to its last holds a byte that lies between the first and last of b. */
bool attune_strided_spans_meet(const struct attune_strided *a, const struct attune_strided *b);

/* Whether an element of a shares a byte with one of b. */
enum attune_overlap attune_strided_overlap(const struct attune_strided *a, const struct attune_strided *b);

/* Whether two elements of one set, at different indices, share a byte. */
enum attune_overlap attune_strided_overlaps_itself(const struct attune_strided *set);

/* The elements of a layout, the first at 0. None if it is absent. */
struct attune_strided attune_strided_make(const attune_layout *layout);

/* Bytes from the first element's first to the last element's last; 0 if there are no elements. */
int64_t attune_strided_span_bytes(const struct attune_strided *set);

#endif
