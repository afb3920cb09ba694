/*
 * Sequences, the tiles of rows that a tile of keys walks over, and where each lies in the workspace.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_WALK_H
#define ATTUNE_CUDA_SM90_BWD_WALK_H

#include "backends/cuda/sm90/bwd_row.h"
#include "backends/cuda/sm90/cluster.h"
#include "core/portable/mask.h"

namespace {

INLINE int ceil_div(int value, int divisor) {
    return (value + divisor - 1) / divisor;
}

/* ---- Sequences ---- */

struct sequence {
    int rows, keys;
    int row_begin, key_begin; /* along axis s */
    int batch;                /* along axis b; 0 where sequences are packed */
    int left, right;          /* row i sees the keys i + left to i + right */
    int first_tile;           /* of rows, in the workspace */
};

INLINE int length_at(const attune_cuda_operand &lengths, int index, int absent) {
    return lengths.data == nullptr ? absent : static_cast<const int32_t *>(lengths.data)[index * lengths.stride[0]];
}

/* The end of a window, that 32 bits hold it. What is further away than any key is as good as open. */
INLINE int clamp_side(attune_i64 side) {
    return static_cast<int>(attune_clamp(side, -ATTUNE_SM90_LENGTH_MAX, ATTUNE_SM90_LENGTH_MAX));
}

INLINE sequence find_sequence(const attune_sm90_backward_params &p, int batch) {
    sequence found;
    found.rows = p.rows;
    found.keys = p.keys;
    found.row_begin = found.key_begin = 0;
    found.batch = batch;
    found.left = -ATTUNE_SM90_LENGTH_MAX;
    found.right = p.right;
    found.first_tile = batch * p.row_tiles;
    if constexpr (GENERAL) {
        found.row_begin = length_at(p.cu_seqlens_q, batch, 0);
        found.key_begin = length_at(p.cu_seqlens_k, batch, 0);
        found.rows = length_at(p.cu_seqlens_q, batch + 1, p.rows) - found.row_begin;
        found.keys = length_at(p.cu_seqlens_k, batch + 1, p.keys) - found.key_begin;
        if (p.cu_seqlens_q.data != nullptr) { /* a sequence's last tile of rows reaches into none of the next one's */
            found.first_tile = found.row_begin / TILE_ROWS + batch;
        }
        /* A length that lies is cut to the capacity, which the workspace has tiles for. */
        found.rows = min(length_at(p.seqused_q, batch, found.rows), p.rows);
        found.keys = min(length_at(p.seqused_k, batch, found.keys), p.keys);
        const attune_i64 shift = attune_mask_shift(p.bottom_right != 0, p.diagonal, found.rows, found.keys);
        found.left = p.window_left < 0 ? -ATTUNE_SM90_LENGTH_MAX : clamp_side(shift - p.window_left);
        found.right = p.window_right < 0 ? ATTUNE_SM90_LENGTH_MAX : clamp_side(shift + p.window_right);
    }
    return found;
}

INLINE int place_of(const attune_sm90_backward_params &p, const sequence &in, int tile, int head) {
    return (in.first_tile + tile) * p.heads_q + head;
}

/* ---- Walks ---- */

INLINE int rank_in_cluster() {
    return PAIRED ? cluster_rank() : 0;
}

/* What a work-group owns, and the tiles of rows that it walks over for every query head of the group: those that see a
 * key of its cluster's, which goes through all of them together. */
struct key_tile {
    sequence in;
    int key, head;                        /* key: the first of its own */
    int tile_first, tile_past, tile_step; /* step: 1, or -1 where the last rows come first */

    INLINE bool is_empty() const {
        return tile_first == tile_past;
    }
    INLINE int tiles() const {
        return (tile_past - tile_first) * tile_step;
    }
};

/* Where walks differ in length, the longest first, in a section of heads.
 *
 * If dq is deterministic, a tile of rows takes additions in the order in which key tiles begin. So the shortest walks
 * begin first: they are of the last keys, which get to the first rows that see them before all others, and turns come
 * by themselves. But the last section, whose end no other fills, has the longest walks first, and walks from the last
 * rows on, which all keys see.
 */
INLINE key_tile find_key_tile(const attune_sm90_backward_params &p, int number) {
    const int section = number / (p.section * p.key_tiles);
    const int in_section = number - section * p.section * p.key_tiles;
    const int size = min(p.section, p.heads - section * p.section);
    const int head = section * p.section + in_section % size;
    const bool is_last = (section + 1) * p.section >= p.heads;
    const bool shortest_first = p.added != nullptr && !is_last;
    key_tile at;
    at.in = find_sequence(p, head / p.heads_kv);
    at.key = (shortest_first ? p.key_tiles - 1 - in_section / size : in_section / size) * TILE_KEYS;
    at.head = head % p.heads_kv;
    const int last_key = min(at.key + TILE_KEYS, at.in.keys) - 1;
    const int rows_end = GENERAL ? max(0, min(at.in.rows, last_key - at.in.left + 1)) : at.in.rows;
    const int tiles_end = at.key < at.in.keys ? ceil_div(rows_end, TILE_ROWS) : 0;
    const int tiles_begin = min(tiles_end, max(0, at.key - at.in.right) / TILE_ROWS);
    const bool descends = p.added != nullptr && is_last;
    at.tile_step = descends ? -1 : 1;
    at.tile_first = descends ? tiles_end - 1 : tiles_begin;
    at.tile_past = descends ? tiles_begin - 1 : tiles_end;
    at.key += rank_in_cluster() * OWN_KEYS;
    return at;
}

/* A step of the walk, which all warps go through alike. */
struct walk {
    const attune_sm90_backward_params &p;
    const key_tile &at;
    int member;
    int tile;

    INLINE walk(const attune_sm90_backward_params &params, const key_tile &of)
        : p(params), at(of), member(EMPTY_IS_OVER && of.is_empty() ? params.group : 0), tile(of.tile_first) {
    }
    INLINE bool is_over() const {
        return (!EMPTY_IS_OVER && at.is_empty()) || member == p.group;
    }
    INLINE void next() {
        tile += at.tile_step;
        if (tile == at.tile_past) {
            tile = at.tile_first;
            member++;
        }
    }
    INLINE int head() const {
        return at.head * p.group + member;
    }
    INLINE int place() const {
        return place_of(p, at.in, tile, head());
    }

    /* ---- Turns to add to dq. Source: PTX ISA 9.0, "Memory Consistency Model" ---- */

    /* How many key tiles that see the tile of rows have begun before this one. */
    INLINE int turn() const {
        const int own = at.key / TILE_KEYS;
        if (at.tile_step < 0) {
            return own - max(0, tile * TILE_ROWS + at.in.left) / TILE_KEYS;
        }
        const int seen =
            min(ceil_div(at.in.keys, TILE_KEYS), ceil_div((tile + 1) * TILE_ROWS + at.in.right, TILE_KEYS));
        return seen - 1 - own;
    }
    /* Each work-group of a cluster adds to columns of its own. */
    INLINE int32_t *added() const {
        return p.added + (place() * int64_t{CLUSTER} + rank_in_cluster());
    }
    /* Until they have all added both parts. */
    INLINE void wait_turn() const {
        const int before = CONSUMERS * turn();
        int done;
        do {
            asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(added()) : "memory");
        } while (done != before);
    }
    /* For a part. The release covers what this thread has waited for, and what others had done when they arrived at a
     * barrier that it has waited at. A fence before it would only be waited for, too. */
    INLINE void pass_turn() const {
        asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(added()) : "memory");
    }
};

} // namespace

#endif
