/*
 * Tiles: how large they are, how many of them a row tile walks, and how much of the score matrix is visible at all.
 * Pure functions: no device, no memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_TILE_H
#define ATTUNE_CORE_TILE_H

#include "attune/backend_util.h"
#include "core/portable/mask.h"

/* What a side may be where somebody asks for a tile: in the args, by ATTUNE_TILE, or kept by attune_tile_keep. */
#define ATTUNE_TILE_SIDE_MIN 16
#define ATTUNE_TILE_SIDE_MAX 128

/* Br x Bc of the papers. */
struct attune_tile {
    int32_t rows;
    int32_t keys;
};

/* What a tile is chosen by. */
struct attune_tile_need {
    const attune_problem *problem;
    int64_t packed_rows;  /* rows of a sequence times the query heads that share a tile */
    int64_t memory_bytes; /* on-chip memory there is; 0: unknown, taken as enough */
    bool may_exceed;      /* a cache and not a limit: the least tile is taken where none fits */
    struct attune_tile request;
};

/* Chooses a tile: the one asked for where it fits (0 on a side is automatic), else the one that computes most per byte
 * loaded among those that fit. Sides are powers of two up to 128, no longer than the problem has use for, and below 16
 * only where memory leaves no choice. False if none fits.
 *
 * Source: Dao et al., FlashAttention (arXiv 2205.14135), algorithm 1, line 1, which sets four equal blocks. */
bool attune_tile_choose(const struct attune_tile_need *need, struct attune_tile *out_tile);

/* The longest side that an extent, of rows or keys, has use for: 16 to 128. */
int32_t attune_tile_side_limit(int64_t extent);

/* The least memory that a tile takes. */
int64_t attune_tile_bytes_least(const attune_problem *problem);

/* Most key tiles that any row tile walks, over the longest sequence. rows: rows of a tile, each with its pack. */
int64_t attune_key_tiles_max(const attune_problem *problem, int64_t rows, int64_t tile_keys);

/* The longest sequence that a problem allows. */
attune_mask attune_mask_longest(const attune_problem *problem);

/* (row, key) pairs of one sequence and head that length, left padding, causality and window leave visible. Exact up to
 * 2^53, then rounded; takes no time that grows with the lengths. */
double attune_mask_pairs(const attune_mask *mask);

#endif
