/*
 * What a kernel works on: its place in the grid, its rows, its share of the keys, where its partial result goes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_WORK_H
#define ATTUNE_PORTABLE_WORK_H

#include "core/portable/mask.h"

/* ---- The grid ---- */

/* A work-group's index along each axis of attune_schedule.grid. */
typedef struct attune_work {
    attune_i64 row_tile;
    attune_i64 split;
    attune_i64 batch_head; /* batch * (Hq / pack) + (first head of the pack) / pack */
} attune_work;

/* Undoes attune_grid_fold. index: of the work-group in the folded grid, x fastest: (z * size_y + y) * size_x + x; it is
 * idle if that is not below row_tiles * splits * batch_heads. */
ATTUNE_FN attune_work attune_work_unfold(attune_i64 index, attune_i64 row_tiles, attune_i64 splits) {
    attune_work work;
    work.row_tile = index % row_tiles;
    work.split = index / row_tiles % splits;
    work.batch_head = index / row_tiles / splits;
    return work;
}

/* ---- Rows ---- */

/* A row of a tile that pack query heads of a group share. */
typedef struct attune_packed {
    attune_i64 row;
    attune_i64 head; /* counted from the first head of the pack */
} attune_packed;

/* The head runs fastest, so that the rows of a tile stay neighbours and see nearly the same keys. */
ATTUNE_FN attune_packed attune_packed_row(attune_i64 packed_row, attune_i64 pack) {
    attune_packed packed;
    packed.row = packed_row / pack;
    packed.head = packed_row % pack;
    return packed;
}

/* ---- Keys ---- */

/* The keys that every row of a tile sees, rows first_row to first_row + count - 1, all of them in the sequence: a tile
 * of keys inside needs no test of single elements. */
ATTUNE_FN attune_interval attune_mask_common_keys(attune_mask mask, attune_i64 first_row, attune_i64 count) {
    const attune_i64 first = attune_add_saturated(first_row, mask.shift);
    const attune_i64 last = attune_add_saturated(first, count - 1);
    const attune_i64 from = mask.left < 0 ? 0 : attune_add_saturated(last, -mask.left);
    const attune_i64 to = mask.right < 0 ? mask.keys : attune_add_saturated(attune_add_saturated(first, mask.right), 1);
    return attune_interval_cut(from, to, mask.leftpad, mask.keys);
}

/* The tiles of size keys that an interval touches; none if it is empty. */
ATTUNE_FN attune_interval attune_interval_tiles(attune_interval keys, attune_i64 size) {
    attune_interval tiles;
    tiles.begin = keys.begin / size;
    tiles.end = keys.begin < keys.end ? (keys.end - 1) / size + 1 : tiles.begin;
    return tiles;
}

/* The tiles that one split processes: neighbours, as evenly shared as can be. The splits past the last tile are empty;
 * merged in index order the parts are in the keys' order. */
ATTUNE_FN attune_interval attune_split_tiles(attune_interval tiles, attune_i64 splits, attune_i64 split) {
    const attune_i64 count = tiles.end - tiles.begin;
    const attune_i64 share = count / splits;
    const attune_i64 longer = count % splits; /* so many splits, the first ones, have one more */
    attune_interval part;
    part.begin = tiles.begin + split * share + (split < longer ? split : longer);
    part.end = part.begin + share + (split < longer ? 1 : 0);
    return part;
}

/* ---- Partial results ---- */

/* Rows before this one in attune_workspace_map.partial_lse, whose elements they are; in partial_o each has Dv. batches,
 * heads, rows: those of the problem. */
ATTUNE_FN attune_i64 attune_partial_row(attune_i64 batches, attune_i64 heads, attune_i64 rows, attune_i64 split,
                                        attune_i64 batch, attune_i64 head, attune_i64 row) {
    return ((split * batches + batch) * heads + head) * rows + row;
}

#endif
