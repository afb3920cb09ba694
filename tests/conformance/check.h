/*
 * Checks that are more than one problem against the oracle.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_CHECK_H
#define CONFORM_CHECK_H

#include "case.h"

/* check_stale.c: bytes outside of sequences are 0, then NaN, then large; results keep their bits. variant: enum
 * conform_stale. */
void conform_check_stale(struct conform_context *context);

/* check_same.c: two ways to write one problem give the same bits where the same kernel, tiles and splits ran, and are
 * right in any case. */
void conform_check_extra_rows(struct conform_context *context);    /* variant: rows behind the last sequence */
void conform_check_layouts(struct conform_context *context);       /* variant: CONFORM_TRANSPOSED_* */
void conform_check_page_size(struct conform_context *context);     /* variant: the page size */
void conform_check_dropped_rows(struct conform_context *context);  /* lse does not see dropout */
void conform_check_descale_twice(struct conform_context *context); /* variant: 0 v's, 1 k's */

/* check_repeat.c: deterministic runs are equal in their bits, whatever happens besides. */
void conform_check_repeat(struct conform_context *context);

/* check_gradient.c: gradients against finite differences of the oracle's forward. */
void conform_check_differences(struct conform_context *context);

/* check_effect.c: an option changes the result. variant: index into conform_features. */
void conform_check_effect(struct conform_context *context);

/* check_refusal.c: what the API does not allow is refused with INVALID_ARGUMENT, and nothing is written. */
extern const int64_t conform_refusal_count;
const char *conform_refusal_name(int64_t variant);
void conform_check_refusal(struct conform_context *context);

/* check_table.c: block tables and lengths that lie are found with check. variant: which lie. */
extern const int64_t conform_table_lie_count;
const char *conform_table_lie_name(int64_t variant);
void conform_check_table_lie(struct conform_context *context);

/* check_wide.c: elements past 2^31. variant: which one. */
extern const int64_t conform_wide_count;
const char *conform_wide_name(int64_t variant);
void conform_check_wide(struct conform_context *context);

/* check_empty.c: each of B, Sq, Sk zero, and the stream is usable afterwards. */
void conform_check_empty(struct conform_context *context);

/* check_split.c: keys split by hand and merged are the whole. variant: parts. */
void conform_check_split_by_hand(struct conform_context *context);

/* check_workspace.c: the exact workspace is enough, one byte less is refused. variant: splits. */
void conform_check_workspace(struct conform_context *context);
void conform_check_shorter(struct conform_context *context); /* a plan for capacities serves shorter lengths */

/* check_together.c: several streams, several threads. */
void conform_check_streams(struct conform_context *context);
void conform_check_threads(struct conform_context *context);

#endif
