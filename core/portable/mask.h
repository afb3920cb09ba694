/*
 * Who sees whom, as far as lengths, left padding, causality and window decide it. A kernel ANDs its mask tensor and its
 * list of blocks with this. Source: docs/semantics.md, "Who sees whom".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_MASK_H
#define ATTUNE_PORTABLE_MASK_H

#include "core/portable/target.h"

/* One sequence. rows, keys, leftpad and positions lie within 0 to 2^61, shift within +-2^61, a side within 2^62. */
typedef struct attune_mask {
    attune_i64 rows;    /* Sq of this sequence */
    attune_i64 keys;    /* Sk of this sequence */
    attune_i64 leftpad; /* the first so many keys are outside of it */
    attune_i64 shift;   /* the diagonal passes through key i + shift */
    attune_i64 left;    /* of the window; -1: open */
    attune_i64 right;   /* -1: open; causal is 0 */
} attune_mask;

/* begin to end - 1; empty where begin equals end. */
typedef struct attune_interval {
    attune_i64 begin;
    attune_i64 end;
} attune_interval;

/* diagonal: 0 for top-left, else the caller's own; not read for bottom-right. */
ATTUNE_FN attune_i64 attune_mask_shift(bool bottom_right, attune_i64 diagonal, attune_i64 rows, attune_i64 keys) {
    return bottom_right ? keys - rows : diagonal;
}

/* row: 0 to rows - 1. key: any. */
ATTUNE_FN bool attune_mask_visible(attune_mask mask, attune_i64 row, attune_i64 key) {
    const attune_i64 past_diagonal = key - row - mask.shift;
    return key >= mask.leftpad && key < mask.keys && (mask.left < 0 || past_diagonal >= -mask.left) &&
           (mask.right < 0 || past_diagonal <= mask.right);
}

/* a + b, or the end of the range that it would run past. */
ATTUNE_FN attune_i64 attune_add_saturated(attune_i64 a, attune_i64 b) {
    const attune_i64 largest = (attune_i64)(~(attune_u64)0 >> 1);
    if (b > 0 && a > largest - b) {
        return largest;
    }
    if (b < 0 && a < -largest - b) {
        return -largest;
    }
    return a + b;
}

ATTUNE_FN attune_i64 attune_clamp(attune_i64 x, attune_i64 low, attune_i64 high) {
    return x < low ? low : (x > high ? high : x);
}

/* The interval that lies in from..to and in begin..end, moved into the latter if it is empty. */
ATTUNE_FN attune_interval attune_interval_cut(attune_i64 from, attune_i64 to, attune_i64 begin, attune_i64 end) {
    attune_interval cut;
    if (end < begin) {
        end = begin;
    }
    cut.begin = attune_clamp(from, begin, end);
    cut.end = attune_clamp(to, cut.begin, end);
    return cut;
}

/* The keys that some row of a tile may see: rows first_row to first_row + count - 1, count 1 or more, all of them in
 * the sequence. No key in it is outside of what every row sees, so a page without one need not be read. */
ATTUNE_FN attune_interval attune_mask_keys(attune_mask mask, attune_i64 first_row, attune_i64 count) {
    const attune_i64 first = attune_add_saturated(first_row, mask.shift);
    const attune_i64 last = attune_add_saturated(first, count - 1);
    const attune_i64 from = mask.left < 0 ? 0 : attune_add_saturated(first, -mask.left);
    const attune_i64 to = mask.right < 0 ? mask.keys : attune_add_saturated(attune_add_saturated(last, mask.right), 1);
    return attune_interval_cut(from, to, mask.leftpad, mask.keys);
}

/* The rows that may see some key of a tile: keys first_key to first_key + count - 1, count 1 or more, all of them at or
 * past leftpad and in the sequence. */
ATTUNE_FN attune_interval attune_mask_rows(attune_mask mask, attune_i64 first_key, attune_i64 count) {
    const attune_i64 first = attune_add_saturated(first_key, -mask.shift);
    const attune_i64 last = attune_add_saturated(first, count - 1);
    const attune_i64 from = mask.right < 0 ? 0 : attune_add_saturated(first, -mask.right);
    const attune_i64 to = mask.left < 0 ? mask.rows : attune_add_saturated(attune_add_saturated(last, mask.left), 1);
    return attune_interval_cut(from, to, 0, mask.rows);
}

#endif
