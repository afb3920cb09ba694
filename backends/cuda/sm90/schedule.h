/*
 * Which tile of rows a work-group takes next, and the keys that it sees. The producer asks; consumers find the answer
 * beside the tile's Q in shared memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_SCHEDULE_H
#define ATTUNE_CUDA_SM90_SCHEDULE_H

#include "backends/cuda/sm90/places.h"
#include "core/portable/mask.h"

namespace {

struct key_tile_range {
    int begin, end;
};

/* A tile, or a part of one that is cut along its keys. The full and the causal kernel have the last third in their
 * parameters, or as constants. */
struct tile {
    int row;         /* the first, in its sequence; NO_TILE: there is none left */
    int head, batch; /* head: of q, or of packs of heads */
    int kv_head;
    int key_tiles_begin, key_tiles_end; /* that some row sees; one at least */

    int state; /* the number of what it leaves, as a part of a tile; NO_STATE: it is the whole tile */

    int keys_begin, keys_end; /* the keys that some row sees */
    int rows_end;             /* of the sequence or the tile, whichever is less; rows count pack times */
    int keys;                 /* of the sequence */
    int left;                 /* row i sees the keys i + left to i + right */
    int right;
    int row_begin, key_begin; /* of the sequence along axis s */
    int turns;                /* of each warpgroup */
    struct {
        key_tile_range seen, clear;
    } of[CONSUMERS];
};

constexpr int NO_TILE = -1;
constexpr int NO_STATE = -1;

constexpr int TILES_OFFSET = (BARRIERS_END + 15) / 16 * 16;
static_assert(TILES_OFFSET + TILE_SLOTS * sizeof(tile) <= SHARED_BYTES, "control area");

INLINE tile &tile_in_slot(int slot) {
    return reinterpret_cast<tile *>(shared + TILES_OFFSET)[slot];
}

INLINE int ceil_div(int value, int divisor) {
    return (value + divisor - 1) / divisor;
}

/* ---- What a consumer knows of its tile ---- */

INLINE int rows_end_of(const attune_sm90_forward_params &p, const tile &at) {
    return GENERAL ? at.rows_end : p.rows;
}

INLINE int keys_of(const attune_sm90_forward_params &p, const tile &at) {
    return GENERAL ? at.keys : p.keys;
}

INLINE int right_of(const attune_sm90_forward_params &p, const tile &at) {
    return GENERAL ? at.right : p.right;
}

/* The row of the sequence that a tile's row is. */
INLINE int place_of_row(const attune_sm90_forward_params &p, int row) {
    return GENERAL && p.pack > 1 ? row / p.pack : row;
}

/* The keys that the row at a place sees: begin to end - 1. */
INLINE int keys_end(const attune_sm90_forward_params &p, const tile &at, int place) {
    return FULL ? keys_of(p, at) : min(keys_of(p, at), place + right_of(p, at) + 1);
}

INLINE int keys_begin(const tile &at, int place) {
    return GENERAL ? max(0, place + at.left) : 0;
}

/* The key tiles of which some row of a warpgroup sees a key. One without a row in the sequence goes through one key
 * tile, to no effect. */
INLINE key_tile_range find_seen(const attune_sm90_forward_params &p, const tile &at, int warpgroup) {
    const int first = at.row + warpgroup * WARPGROUP_ROWS;
    const int last = min(rows_end_of(p, at), first + WARPGROUP_ROWS) - 1;
    const int begin = at.key_tiles_begin;
    if (last < first) {
        return {begin, begin + 1};
    }
    const int keys = keys_end(p, at, place_of_row(p, last));
    const int end = min(at.key_tiles_end, max(begin + 1, ceil_div(keys, TILE_KEYS)));
    const int seen = GENERAL ? keys_begin(at, place_of_row(p, first)) / TILE_KEYS : 0;
    return {max(begin, min(end - 1, seen)), end};
}

/* Those of which all rows of a warpgroup see all keys, and whose scores need no change. */
INLINE key_tile_range find_clear(const attune_sm90_forward_params &p, const tile &at, int warpgroup) {
    const int first = at.row + warpgroup * WARPGROUP_ROWS;
    if (!SOFTCAP && p.score_change != ATTUNE_SM90_SCORE_AS_IS) {
        return {0, 0};
    }
    const int begin = GENERAL ? keys_begin(at, place_of_row(p, first + WARPGROUP_ROWS - 1)) : 0;
    return {ceil_div(begin, TILE_KEYS), max(0, keys_end(p, at, place_of_row(p, first))) / TILE_KEYS};
}

/* Whether O of a warpgroup is more than the copy engine may write, or of another type. */
INLINE bool is_stored_directly(const attune_sm90_forward_params &p, const tile &at, int warpgroup) {
    const int end = at.row + (warpgroup + 1) * WARPGROUP_ROWS;
    return GENERAL && (p.pack > 1 || p.o_is_f32 != 0 || end > rows_end_of(p, at));
}

/* ---- Turns ---- */

/* Where warpgroups see different key tiles, as under a window, each may be as many of them ahead of another in a turn
 * as the rings hold with one more to load. One whose key tiles begin later than that waits turn by turn. */
constexpr int SKEW_MAX = GENERAL && STAGES > 3 ? STAGES - 3 : 0;

INLINE int turns_before(const tile &at, const key_tile_range &seen) {
    return max(0, at.key_tiles_end - seen.end - SKEW_MAX);
}

/* Of a warpgroup's turns in a tile, those left after its products. */
INLINE int turns_after(const tile &at, const key_tile_range &seen) {
    return GENERAL ? at.turns - turns_before(at, seen) - (seen.end - seen.begin) : 0;
}

/* ---- Parts ---- */

/* A tile, or a part of one that is cut. */
struct unit {
    int row_tile;
    int head; /* of those that are numbered together */
    int part;
    int cut_tile; /* negative: the tile is not cut */
};

/* The first of a sequence's row tiles that have a numbered part: of which a row sees keys past the parts before.
 * places: rows of the sequence to a tile. right: as in tile. */
INLINE int first_row_tile(const attune_sm90_forward_params &p, int part, int places, int right) {
    return part == 0 ? 0 : max(0, part * p.parts.key_tiles * TILE_KEYS - right) / places;
}

/* A unit of some heads of as many row tiles, the longest first. Tiles end with a part that is shorter than the others,
 * so the last part of all tiles comes first and the first one last, among which the short tiles are. */
INLINE unit find_unit(const attune_sm90_forward_params &p, int number, int heads, int row_tiles, int places, int right,
                      int most) {
    int part = most - 1;
#pragma unroll 1
    for (; part > 0; part--) {
        const int of_part = (row_tiles - first_row_tile(p, part, places, right)) * heads;
        if (number < of_part) {
            break;
        }
        number -= of_part;
    }
    return {row_tiles - 1 - number / heads, number % heads, part, number};
}

/* The key tiles of a part, of so many. */
INLINE void set_part(const attune_sm90_forward_params &p, int key_tiles, const unit &of, tile *out_tile) {
    const int of_part = of.cut_tile < 0 ? key_tiles : p.parts.key_tiles;
    out_tile->key_tiles_begin = of.part * of_part;
    out_tile->key_tiles_end = min(key_tiles, (of.part + 1) * of_part);
    out_tile->state = key_tiles > of_part ? of.cut_tile * p.parts.most + of.part : NO_STATE;
}

/* ---- The full and the causal kernel: tiles, or their parts, are numbered ---- */

/* A step further each round, lest a work-group has a sequence's last tile, which may be short, each time. */
INLINE unit full_unit(const attune_sm90_forward_params &p, int tile, int part, int cut_tile) {
    const int head = tile / p.row_tiles;
    return {(tile + head * p.row_tiles / p.work_groups) % p.row_tiles, head, part, cut_tile};
}

/* First the tiles that are not cut, then the first parts of all others, and so on: the last parts are the shorter ones.
 */
INLINE unit find_full_unit(const attune_sm90_forward_params &p, int number) {
    const int past_whole = number - p.parts.whole_tiles;
    if (past_whole < 0) {
        return full_unit(p, number, 0, -1);
    }
    const int cut_tiles = p.tiles - p.parts.whole_tiles;
    const int part = past_whole / cut_tiles;
    const int cut_tile = past_whole - part * cut_tiles;
    return full_unit(p, p.parts.whole_tiles + cut_tile, part, cut_tile);
}

/* In sections of heads whose K and V stay in the L2 cache; one, if tiles are cut. */
INLINE unit find_causal_unit(const attune_sm90_forward_params &p, int number) {
    const int heads = p.tiles / p.row_tiles;
    const int section = number / (p.section * p.parts.head_units);
    const int size = min(p.section, heads - section * p.section);
    unit found = find_unit(p, number - section * p.section * p.parts.head_units, size, p.row_tiles, TILE_ROWS, p.right,
                           p.parts.most);
    found.head += section * p.section;
    return found;
}

/* Returns the key tiles of all parts. */
INLINE int set_unit(const attune_sm90_forward_params &p, const unit &at, tile *out_tile) {
    out_tile->row = at.row_tile * TILE_ROWS;
    out_tile->head = at.head % p.heads_q;
    out_tile->batch = at.head / p.heads_q;
    out_tile->kv_head = out_tile->head / p.group;
    const int last_row = min(p.rows, (at.row_tile + 1) * TILE_ROWS) - 1;
    const int key_tiles = max(1, ceil_div(keys_end(p, *out_tile, last_row), TILE_KEYS));
    set_part(p, key_tiles, at, out_tile);
    return key_tiles;
}

INLINE void set_numbered_tile(const attune_sm90_forward_params &p, int number, tile *out_tile) {
    if (number >= p.parts.units) {
        out_tile->row = NO_TILE;
        return;
    }
    set_unit(p, FULL ? find_full_unit(p, number) : find_causal_unit(p, number), out_tile);
}

/* ---- The general kernel: tiles, or their parts, are counted through the sequences' lengths ---- */

INLINE int length_at(const attune_sm90_operand &lengths, int index, int absent) {
    return lengths.data == nullptr ? absent : static_cast<const int32_t *>(lengths.data)[index * lengths.stride[0]];
}

/* The end of a window, that 32 bits hold it. What is further away than any key is as good as open. */
INLINE int clamp_side(attune_i64 side) {
    return static_cast<int>(attune_clamp(side, -ATTUNE_SM90_LENGTH_MAX, ATTUNE_SM90_LENGTH_MAX));
}

/* Sequences are taken by classes of their numbers of keys, each up to half of the one before, so that the last tiles of
 * a launch are short ones. */
constexpr int LENGTH_CLASSES = 4;

/* Registers are few here, so that only one division at a time fits: none that depends on these begins before. */
INLINE void finish_division(int *a, int *b) {
    asm volatile("" : "+r"(*a), "+r"(*b));
}

/* Where a work-group's producer has got to. All lanes of a warp take part. */
struct tile_search {
    int length_class;
    int batch = 0;        /* the first of LANES sequences that are looked at */
    int units_before = 0; /* of the sequences before it, and of the classes before */

    INLINE explicit tile_search(const attune_sm90_forward_params &p)
        : length_class(has_lengths(p) ? 0 : LENGTH_CLASSES - 1) {
    }

    static INLINE bool has_lengths(const attune_sm90_forward_params &p) {
        return p.cu_seqlens_k.data != nullptr || p.seqused_k.data != nullptr;
    }

    static INLINE int rows_at(const attune_sm90_forward_params &p, int batch) {
        const int begin = length_at(p.cu_seqlens_q, batch, 0);
        const int rows = length_at(p.cu_seqlens_q, batch + 1, p.rows) - begin;
        return length_at(p.seqused_q, batch, rows);
    }

    static INLINE int keys_at(const attune_sm90_forward_params &p, int batch) {
        const int begin = length_at(p.cu_seqlens_k, batch, 0);
        const int keys = length_at(p.cu_seqlens_k, batch + 1, p.keys) - begin;
        return length_at(p.seqused_k, batch, keys);
    }

    static INLINE int class_at(const attune_sm90_forward_params &p, int batch) {
        const int halvings = __clz(keys_at(p, batch)) - __clz(p.keys);
        return has_lengths(p) ? max(0, min(halvings, LENGTH_CLASSES - 1)) : LENGTH_CLASSES - 1;
    }

    static INLINE int right_at(const attune_sm90_forward_params &p, int rows, int keys) {
        const attune_i64 shift = attune_mask_shift(p.bottom_right != 0, p.diagonal, rows, keys);
        return p.window_right < 0 ? ATTUNE_SM90_LENGTH_MAX : clamp_side(shift + p.window_right);
    }

    /* A head of a sequence, as its units are numbered. */
    struct numbering {
        int row_tiles, right;
        int most; /* parts of a tile */
    };

    /* Without units, if the sequence is not of the class in hand. */
    INLINE numbering numbering_at(const attune_sm90_forward_params &p, int batch) const {
        if (batch >= p.batch || class_at(p, batch) != length_class) {
            return {0, 0, 0};
        }
        const int rows = rows_at(p, batch);
        int row_tiles = ceil_div(rows, p.tile_places);
        if (!CAN_CUT || p.parts.most == 1) {
            return {row_tiles, 0, 1};
        }
        const int keys = keys_at(p, batch);
        const int right = right_at(p, rows, keys);
        int key_tiles = max(1, ceil_div(min(keys, rows + right), TILE_KEYS));
        finish_division(&row_tiles, &key_tiles);
        return {row_tiles, right, ceil_div(key_tiles, p.parts.key_tiles)};
    }

    static INLINE int count_units(const attune_sm90_forward_params &p, const numbering &of) {
        int units = of.row_tiles;
#pragma unroll 1
        for (int part = 1; part < of.most; part++) {
            units += of.row_tiles - first_row_tile(p, part, p.tile_places, of.right);
        }
        return units;
    }

    static INLINE void set_sequence(const attune_sm90_forward_params &p, tile *at) {
        const int rows = rows_at(p, at->batch);
        at->row_begin = length_at(p.cu_seqlens_q, at->batch, 0);
        at->key_begin = length_at(p.cu_seqlens_k, at->batch, 0);
        at->keys = keys_at(p, at->batch);
        at->rows_end = min(rows * p.pack, at->row + p.tile_places * p.pack);
        const attune_i64 shift = attune_mask_shift(p.bottom_right != 0, p.diagonal, rows, at->keys);
        at->left = p.window_left < 0 ? -ATTUNE_SM90_LENGTH_MAX : clamp_side(shift - p.window_left);
        at->right = right_at(p, rows, at->keys);
    }

    static INLINE void set_keys(const attune_sm90_forward_params &p, tile *at) {
        const int first = at->row / p.pack;
        const int last = (at->rows_end - 1) / p.pack;
        at->keys_begin = keys_begin(*at, first);
        at->keys_end = keys_end(p, *at, last);
        at->key_tiles_end = max(1, ceil_div(at->keys_end, TILE_KEYS));
        at->key_tiles_begin = min(at->keys_begin / TILE_KEYS, at->key_tiles_end - 1);
    }

    /* As a whole. */
    static INLINE void set_tile(const attune_sm90_forward_params &p, int batch, const unit &of, tile *at) {
        at->batch = batch;
        at->head = of.head;
        at->kv_head = of.head * p.pack / p.group;
        at->row = of.row_tile * p.tile_places * p.pack;
        finish_division(&at->kv_head, &at->row);
        at->state = NO_STATE;
        set_sequence(p, at);
        set_keys(p, at);
    }

    /* Where tiles are cut there is no window to the left. */
    static INLINE void take_part(const attune_sm90_forward_params &p, int part, tile *at) {
        const int row_tile = at->row / p.pack / p.tile_places;
        const int cut_tile = (at->batch * p.packs + at->head) * p.row_tiles + row_tile;
        set_part(p, at->key_tiles_end, {row_tile, at->head, part, cut_tile}, at);
    }

    /* Each lane looks at a warpgroup; the first one writes. */
    static INLINE void set_turns(const attune_sm90_forward_params &p, tile *out_tile) {
        const int lane = threadIdx.x % LANES;
        __syncwarp();
        const key_tile_range seen = find_seen(p, *out_tile, min(lane, CONSUMERS - 1));
        const key_tile_range clear = find_clear(p, *out_tile, min(lane, CONSUMERS - 1));
        const int turns = __reduce_max_sync(ALL_LANES, turns_before(*out_tile, seen) + seen.end - seen.begin);
#pragma unroll 1
        for (int i = 0; i < CONSUMERS; i++) {
            const key_tile_range seen_there = {__shfl_sync(ALL_LANES, seen.begin, i),
                                               __shfl_sync(ALL_LANES, seen.end, i)};
            const key_tile_range clear_there = {__shfl_sync(ALL_LANES, clear.begin, i),
                                                __shfl_sync(ALL_LANES, clear.end, i)};
            if (lane == 0) {
                out_tile->of[i] = {seen_there, clear_there};
            }
        }
        if (lane == 0) {
            out_tile->turns = turns;
        }
    }

    /* The numbered tile, numbers rising from call to call: by class and sequence, in each the last rows of all heads
     * first. */
    INLINE void find(const attune_sm90_forward_params &p, int number, tile *out_tile) {
        const int lane = threadIdx.x % LANES;
        while (length_class < LENGTH_CLASSES) {
            numbering of = numbering_at(p, batch + lane);
            const int own = count_units(p, of) * p.packs;
            int through = own; /* of the sequences up to this lane's */
            for (int step = 1; step < LANES; step *= 2) {
                const int below = __shfl_up_sync(ALL_LANES, through, step);
                through += lane >= step ? below : 0;
            }
            const unsigned past = __ballot_sync(ALL_LANES, units_before + through > number);
            if (past != 0) {
                const int found = __ffs(past) - 1;
                const int first = units_before + __shfl_sync(ALL_LANES, through - own, found);
                of = {__shfl_sync(ALL_LANES, of.row_tiles, found), __shfl_sync(ALL_LANES, of.right, found),
                      __shfl_sync(ALL_LANES, of.most, found)};
                const unit unit_found =
                    find_unit(p, number - first, p.packs, of.row_tiles, p.tile_places, of.right, of.most);
                tile at;
                set_tile(p, batch + found, unit_found, &at);
                if (lane == 0) { /* who releases the slot to the consumers, too */
                    *out_tile = at;
                    if (CAN_CUT && p.parts.most > 1) {
                        take_part(p, unit_found.part, out_tile);
                    }
                }
                set_turns(p, out_tile);
                return;
            }
            units_before += __shfl_sync(ALL_LANES, through, LANES - 1);
            batch += LANES;
            if (batch >= p.batch) {
                batch = 0;
                length_class++;
            }
        }
        if (lane == 0) {
            out_tile->row = NO_TILE;
        }
    }
};

/* ---- Once parts are there ---- */

/* A tile by its number among those that may be cut. Returns the number of its parts; less than 2: it is not, or there
 * is none of this number. */
INLINE int find_cut_tile(const attune_sm90_forward_params &p, int number, tile *out_tile) {
    int key_tiles;
    if constexpr (GENERAL) {
        const int batch = number / p.row_tiles / p.packs;
        const unit of = {number % p.row_tiles, number / p.row_tiles % p.packs, 0, number};
        if (of.row_tile >= ceil_div(tile_search::rows_at(p, batch), p.tile_places)) {
            return 0;
        }
        tile_search::set_tile(p, batch, of, out_tile);
        key_tiles = out_tile->key_tiles_end;
    } else if constexpr (FULL) {
        key_tiles = set_unit(p, full_unit(p, p.parts.whole_tiles + number, 0, number), out_tile);
    } else {
        const int heads = p.tiles / p.row_tiles;
        key_tiles = set_unit(p, {p.row_tiles - 1 - number / heads, number % heads, 0, number}, out_tile);
    }
    return ceil_div(key_tiles, p.parts.key_tiles);
}

} // namespace

#endif
