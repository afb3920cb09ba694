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

/* A tile, or a part of one that is cut along its keys: then key_tiles_begin and key_tiles_end are the part's. The full
 * and the causal kernel have the second half in their parameters, or as constants. */
struct tile {
    int row;         /* the first, in its sequence; NO_TILE: there is none left */
    int head, batch; /* head: of q, or of packs of heads */
    int kv_head;
    int key_tiles_end; /* the key tiles that some row sees; one at least */

    int key_tiles_begin;
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

constexpr int TILES_OFFSET = (BARRIERS_END + 15) / 16 * 16;
static_assert(TILES_OFFSET + TILE_SLOTS * sizeof(tile) <= SHARED_BYTES, "control area");

INLINE tile &tile_in_slot(int slot) {
    return reinterpret_cast<tile *>(shared + TILES_OFFSET)[slot];
}

/* The rows of a warpgroup in the Q buffer that goes with a slot. */
INLINE uint32_t q_rows(int slot, int warpgroup) {
    return shared_address(slot % Q_BUFFERS * Q_BYTES + warpgroup * WARPGROUP_ROWS * PANEL_BYTES);
}

/* The number of what a slot's tile leaves, as a part of one. */
constexpr int NO_STATE = -1; /* it is a whole tile */
constexpr int STATES_OFFSET = TILES_OFFSET + TILE_SLOTS * sizeof(tile);
static_assert(STATES_OFFSET + TILE_SLOTS * sizeof(int) <= SHARED_BYTES, "control area");

INLINE int &state_in_slot(int slot) {
    return reinterpret_cast<int *>(shared + STATES_OFFSET)[slot];
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

INLINE int key_tiles_begin_of(const tile &at) {
    return GENERAL || SPLITS ? at.key_tiles_begin : 0;
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
    return WINDOWS ? max(0, place + at.left) : 0;
}

/* The key tiles of which some row of a warpgroup sees a key. One without a row in the sequence goes through one key
 * tile, to no effect. */
INLINE key_tile_range find_seen(const attune_sm90_forward_params &p, const tile &at, int warpgroup) {
    const int first = at.row + warpgroup * WARPGROUP_ROWS;
    const int last = min(rows_end_of(p, at), first + WARPGROUP_ROWS) - 1;
    const int begin = key_tiles_begin_of(at);
    if (last < first) {
        return {begin, begin + 1};
    }
    const int keys = keys_end(p, at, place_of_row(p, last));
    const int end = min(at.key_tiles_end, max(begin + 1, ceil_div(keys, TILE_KEYS)));
    const int seen = WINDOWS ? keys_begin(at, place_of_row(p, first)) / TILE_KEYS : 0;
    return {max(begin, min(end - 1, seen)), end};
}

/* Those of which all rows of a warpgroup see all keys, and whose scores need no change. */
INLINE key_tile_range find_clear(const attune_sm90_forward_params &p, const tile &at, int warpgroup) {
    const int first = at.row + warpgroup * WARPGROUP_ROWS;
    if (!SOFTCAP && p.score_change != ATTUNE_SM90_SCORE_AS_IS) {
        return {0, 0};
    }
    const int begin = WINDOWS ? keys_begin(at, place_of_row(p, first + WARPGROUP_ROWS - 1)) : 0;
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
constexpr int SKEW_MAX = WINDOWS && STAGES > 3 ? STAGES - 3 : 0;

INLINE int turns_before(const tile &at, const key_tile_range &seen) {
    return max(0, at.key_tiles_end - seen.end - SKEW_MAX);
}

/* Of a warpgroup's turns in a tile, those left after its products. */
INLINE int turns_after(const tile &at, const key_tile_range &seen) {
    return WINDOWS ? at.turns - turns_before(at, seen) - (seen.end - seen.begin) : 0;
}

/* ---- The full and the causal kernel: tiles are numbered ---- */

struct numbered_tile {
    int row_tile;
    int head; /* of all batches */
};

/* A step further each round, lest a work-group has a sequence's last tile, which may be short, each time. */
INLINE numbered_tile find_full_tile(const attune_sm90_forward_params &p, int number, unsigned work_groups) {
    const int head = number / p.row_tiles;
    const int row_tile = (number + head * p.row_tiles / work_groups) % p.row_tiles;
    return {row_tile, head};
}

/* The longest first, in a section of heads whose K and V stay in the L2 cache. */
INLINE numbered_tile find_causal_tile(const attune_sm90_forward_params &p, int number) {
    const int heads = p.tiles / p.row_tiles;
    const int section = number / (p.section * p.row_tiles);
    const int in_section = number - section * p.section * p.row_tiles;
    const int size = min(p.section, heads - section * p.section);
    return {p.row_tiles - 1 - in_section / size, section * p.section + in_section % size};
}

INLINE void set_tile(const attune_sm90_forward_params &p, const numbered_tile &found, tile *out_tile) {
    out_tile->row = found.row_tile * TILE_ROWS;
    out_tile->head = found.head % p.heads_q;
    out_tile->batch = found.head / p.heads_q;
    out_tile->kv_head = out_tile->head / p.group;
    const int last_row = min(p.rows, (found.row_tile + 1) * TILE_ROWS) - 1;
    out_tile->key_tiles_end = max(1, ceil_div(keys_end(p, *out_tile, last_row), TILE_KEYS));
}

INLINE void set_numbered_tile(const attune_sm90_forward_params &p, int number, tile *out_tile) {
    if (number >= p.tiles) {
        out_tile->row = NO_TILE;
        return;
    }
    set_tile(p, FULL ? find_full_tile(p, number, gridDim.x) : find_causal_tile(p, number), out_tile);
}

/* ---- Parts of tiles that are cut along their keys ---- */

/* Makes a tile a part of it, if it is cut. number: parts.most times the tile's, plus the part's. */
INLINE void set_part(const attune_sm90_forward_params &p, int number, tile *at, int *out_state) {
    const int key_tiles = at->key_tiles_end;
    at->key_tiles_begin = number % p.parts.most * p.parts.key_tiles;
    at->key_tiles_end = min(key_tiles, at->key_tiles_begin + p.parts.key_tiles);
    *out_state = key_tiles > p.parts.key_tiles ? number - p.parts.first_cut * p.parts.most : NO_STATE;
}

/* With full visibility the tiles that are not cut come first, then the first parts of all others, and so on: the last
 * parts are the shorter ones. */
INLINE void set_numbered_part(const attune_sm90_forward_params &p, int number, tile *out_tile, int *out_state) {
    if (number >= p.parts.units) {
        out_tile->row = NO_TILE;
        return;
    }
    const int cut_tiles = p.tiles - p.parts.first_cut;
    const int part = max(0, number - p.parts.first_cut) / cut_tiles;
    const int in_part = number - part * cut_tiles; /* the tile */
    set_tile(p, find_full_tile(p, in_part, p.parts.work_groups), out_tile);
    if (in_part < p.parts.first_cut) {
        out_tile->key_tiles_begin = 0;
        *out_state = NO_STATE;
    } else {
        set_part(p, in_part * p.parts.most + part, out_tile, out_state);
    }
}

/* Goes through the parts of a sequence's tiles, by their first keys. */
struct part_walk {
    int step, right; /* keys of a part; row i sees the keys up to i + right */
    unsigned places; /* rows of a tile; a division of signed numbers would take a register too many */
    int key = 0;     /* the first one of the part */
    int part = 0;
    int first_row_tile = 0; /* of those that have it: of which a row sees keys past the parts before */

    INLINE part_walk(const attune_sm90_forward_params &p, int right_side)
        : step(p.parts.key_tiles * TILE_KEYS), right(right_side), places(p.tile_places) {
    }

    INLINE void advance() {
        part++;
        key += step;
        if (key > right) {
            first_row_tile = static_cast<int>(static_cast<unsigned>(key - right) / places);
        }
    }
};

/* ---- The general kernel: tiles are counted through the sequences' lengths ---- */

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

/* Where a work-group's producer has got to. All lanes of a warp take part. */
struct tile_search {
    int length_class;
    int batch = 0;        /* the first of LANES sequences that are looked at */
    int tiles_before = 0; /* of the sequences before it, and of the classes before */

    INLINE explicit tile_search(const attune_sm90_forward_params &p)
        : length_class(has_lengths(p) ? 0 : LENGTH_CLASSES - 1) {
    }

    static INLINE bool has_lengths(const attune_sm90_forward_params &p) {
        return p.cu_seqlens_k.data != nullptr || p.seqused_k.data != nullptr;
    }

    /* A length that lies is cut to the capacity, past which nothing may be read or written. */
    static INLINE int rows_at(const attune_sm90_forward_params &p, int batch) {
        const int begin = length_at(p.cu_seqlens_q, batch, 0);
        const int rows = length_at(p.cu_seqlens_q, batch + 1, p.rows) - begin;
        return min(length_at(p.seqused_q, batch, rows), p.rows);
    }

    static INLINE int keys_at(const attune_sm90_forward_params &p, int batch) {
        const int begin = length_at(p.cu_seqlens_k, batch, 0);
        const int keys = length_at(p.cu_seqlens_k, batch + 1, p.keys) - begin;
        return min(length_at(p.seqused_k, batch, keys), p.keys);
    }

    static INLINE int class_at(const attune_sm90_forward_params &p, int batch) {
        const int halvings = __clz(keys_at(p, batch)) - __clz(p.keys);
        return has_lengths(p) ? max(0, min(halvings, LENGTH_CLASSES - 1)) : LENGTH_CLASSES - 1;
    }

    static INLINE attune_i64 shift_of(const attune_sm90_forward_params &p, int rows, int keys) {
        return attune_mask_shift(p.bottom_right != 0, p.diagonal, rows, keys);
    }

    static INLINE int right_side(const attune_sm90_forward_params &p, attune_i64 shift) {
        return p.window_right < 0 ? ATTUNE_SM90_LENGTH_MAX : clamp_side(shift + p.window_right);
    }

    /* Row tiles of one head, or their parts, if the sequence is of the class in hand. */
    INLINE int tiles_at(const attune_sm90_forward_params &p, int batch) const {
        const bool counts = batch < p.batch && class_at(p, batch) == length_class;
        const int row_tiles = counts ? ceil_div(rows_at(p, batch), p.tile_places) : 0;
        return SPLITS && p.parts.most > 1 && row_tiles > 0 ? count_parts(p, batch, row_tiles) : row_tiles;
    }

    static INLINE int count_parts(const attune_sm90_forward_params &p, int batch, int row_tiles) {
        const int rows = rows_at(p, batch);
        const int keys = keys_at(p, batch);
        const int right = right_side(p, shift_of(p, rows, keys));
        const int keys_end = min(keys, rows + right);
        int parts = row_tiles;
        part_walk walk(p, right);
#pragma unroll 1
        for (walk.advance(); walk.key < keys_end; walk.advance()) {
            parts += row_tiles - walk.first_row_tile;
        }
        return parts;
    }

    static INLINE void set_sequence(const attune_sm90_forward_params &p, tile *at) {
        const int rows = rows_at(p, at->batch);
        at->row_begin = length_at(p.cu_seqlens_q, at->batch, 0);
        at->key_begin = length_at(p.cu_seqlens_k, at->batch, 0);
        at->keys = keys_at(p, at->batch);
        at->rows_end = min(rows * p.pack, at->row + p.tile_places * p.pack);
        const attune_i64 shift = shift_of(p, rows, at->keys);
        if constexpr (WINDOWS) {
            at->left = p.window_left < 0 ? -ATTUNE_SM90_LENGTH_MAX : clamp_side(shift - p.window_left);
        }
        at->right = right_side(p, shift);
    }

    static INLINE void set_keys(const attune_sm90_forward_params &p, tile *at) {
        const int first = at->row / p.pack;
        const int last = (at->rows_end - 1) / p.pack;
        at->keys_begin = keys_begin(*at, first);
        at->keys_end = keys_end(p, *at, last);
        at->key_tiles_end = max(1, ceil_div(at->keys_end, TILE_KEYS));
        at->key_tiles_begin = min(at->keys_begin / TILE_KEYS, at->key_tiles_end - 1);
    }

    /* Each lane looks at a warpgroup; the first one writes. */
    static INLINE void set_turns(const attune_sm90_forward_params &p, tile *out_tile) {
        const int lane = threadIdx.x % LANES;
        __syncwarp();
        int warpgroup = min(lane, CONSUMERS - 1);
        asm volatile("" : "+r"(warpgroup)); /* else what follows from it is kept from tile to tile, and may spill */
        const key_tile_range seen = find_seen(p, *out_tile, warpgroup);
        const key_tile_range clear = find_clear(p, *out_tile, warpgroup);
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

    struct place {
        int head, row_tile;
    };

    /* from_end: of the sequence's tiles. */
    static INLINE place find_place(int heads, int from_end) {
        return {heads - 1 - from_end % heads, from_end / heads};
    }

    /* A part of all heads after the other, from the end on: the first part of all tiles comes last, among which the
     * short tiles are. */
    static INLINE place find_part(const attune_sm90_forward_params &p, int batch, int from_end, int *out_number) {
        const int rows = rows_at(p, batch);
        const int row_tiles = ceil_div(rows, p.tile_places);
        part_walk walk(p, right_side(p, shift_of(p, rows, keys_at(p, batch))));
#pragma unroll 1
        while (from_end >= (row_tiles - walk.first_row_tile) * p.parts.packs) {
            from_end -= (row_tiles - walk.first_row_tile) * p.parts.packs;
            walk.advance();
        }
        place found = find_place(p.parts.packs, from_end);
        found.row_tile += walk.first_row_tile;
        const int head = batch * p.parts.packs + found.head;
        if (threadIdx.x % LANES == 0) {
            *out_number = (head * p.parts.cut_row_tiles + found.row_tile) * p.parts.most + walk.part;
        }
        return found;
    }

    static INLINE void set_tile(const attune_sm90_forward_params &p, int batch, const place &of, tile *at) {
        at->batch = batch;
        at->head = of.head;
        at->kv_head = of.head * p.pack / p.group;
        at->row = of.row_tile * p.tile_places * p.pack;
        set_sequence(p, at);
        set_keys(p, at);
    }

    /* The numbered tile, numbers rising from call to call: by class and sequence, in each the last rows of all heads
     * first. out_state: where tiles are cut. */
    INLINE void find(const attune_sm90_forward_params &p, int number, tile *out_tile, int *out_state) {
        const int lane = threadIdx.x % LANES;
        const int heads = SPLITS ? p.parts.packs : p.heads_q / p.pack;
        while (length_class < LENGTH_CLASSES) {
            int through = tiles_at(p, batch + lane) * heads; /* of the sequences up to this lane's */
            for (int step = 1; step < LANES; step *= 2) {
                const int below = __shfl_up_sync(ALL_LANES, through, step);
                through += lane >= step ? below : 0;
            }
            const unsigned past = __ballot_sync(ALL_LANES, tiles_before + through > number);
            if (past != 0) {
                const int found = __ffs(past) - 1;
                const int from_end = tiles_before + __shfl_sync(ALL_LANES, through, found) - 1 - number;
                const place found_place =
                    SPLITS ? find_part(p, batch + found, from_end, out_state) : find_place(heads, from_end);
                tile at;
                set_tile(p, batch + found, found_place, &at);
                if (lane == 0) { /* who releases the slot to the consumers, too */
                    *out_tile = at;
                    if constexpr (SPLITS) {
                        set_part(p, *out_state, out_tile, out_state);
                    }
                }
                set_turns(p, out_tile);
                return;
            }
            tiles_before += __shfl_sync(ALL_LANES, through, LANES - 1);
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

} // namespace

#endif
