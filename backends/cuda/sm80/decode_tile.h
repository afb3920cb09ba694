/*
 * The tiles of decode kernels: a few rows of a kv head, the query heads of a group packed, and a split of the keys.
 *
 * A tile has to be found before anything is copied, in a chain of instructions that nothing hides. So all is in 32
 * bits, as decode.c sees to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_DECODE_TILE_H
#define ATTUNE_CUDA_SM80_DECODE_TILE_H

#include "backends/cuda/sm80/decode.h"
#include "backends/cuda/sm80/element.h"
#include "core/portable/target.h"
#include "core/portable/work.h"

namespace {

struct tile {
    int batch, head, kv_head; /* head: the pack's first */
    int row_begin, key_begin; /* along axis s */
    int rows, keys, leftpad;  /* of the sequence */
    int first_row;            /* of the pack's rows */
    int split;
    int begin, end;         /* this split's keys */
    int all_begin, all_end; /* those of them that all rows see */
    bool is_plain;          /* a score is scale * dot */
};

struct tile_row {
    bool is_there;
    int row, head;
    int begin, end; /* the keys of this split that it sees */
    float slope;
};

/* begin to end - 1. */
struct key_range {
    int begin, end;
};

__device__ __forceinline__ int least(int a, int b) {
    return a < b ? a : b;
}
__device__ __forceinline__ int most(int a, int b) {
    return a > b ? a : b;
}

/* Which keys are seen from one row's left side on up to another's right side. Source: core/portable/mask.h, in 64 bits.
 */
__device__ __forceinline__ key_range seen_keys(const attune_cuda_decode_params &p, const tile &in, int left_of,
                                               int right_of) {
    const int shift = p.forward.bottom_right != 0 ? in.keys - in.rows : 0;
    key_range seen;
    seen.begin = least(most(left_of + shift + p.seen_from, in.leftpad), in.keys);
    seen.end = most(least(right_of + shift + p.seen_to, in.keys), seen.begin);
    return seen;
}

__device__ __forceinline__ tile_row find_row(const attune_cuda_decode_params &p, const tile &in, int r) {
    const unsigned packed = in.first_row + r;
    tile_row found;
    found.row = packed / p.pack;
    found.head = in.head + packed % p.pack;
    found.is_there = found.row < in.rows;
    const key_range seen = seen_keys(p, in, found.row, found.row);
    found.begin = most(seen.begin, in.begin);
    found.end = least(seen.end, in.end);
    const attune_cuda_operand &slopes = p.forward.alibi_slopes;
    found.slope = slopes.data == nullptr || !found.is_there
                      ? 0.0f
                      : static_cast<const float *>(slopes.data)[offset(slopes, in.batch, found.head)];
    return found;
}

/* Its split's share of the keys that any row of it sees: neighbours, in whole steps of the work-group, as evenly shared
 * as can be. */
template <int ROWS, int KEYS>
__device__ __forceinline__ void set_keys(const attune_cuda_decode_params &p, int first_row, int last_row, tile *in) {
    const key_range seen = seen_keys(p, *in, first_row, last_row);
    const key_range common = seen_keys(p, *in, last_row, first_row);
    const unsigned first_step = seen.begin / KEYS;
    const unsigned steps = seen.end > seen.begin ? (seen.end + KEYS - 1) / KEYS - first_step : 0;
    const unsigned share = steps / p.splits;
    const unsigned longer = steps % p.splits; /* so many splits, the first ones, have one more */
    const unsigned split = in->split;
    const unsigned before = split * share + (split < longer ? split : longer);
    in->begin = most((first_step + before) * KEYS, seen.begin);
    in->end = least((first_step + before + share + (split < longer ? 1 : 0)) * KEYS, seen.end);
    in->all_begin = most(common.begin, in->begin);
    in->all_end = least(common.end, in->end);
}

/* What device memory says of a sequence, cut to the capacity, past which nothing may be read. */
__device__ __forceinline__ void set_lengths(const attune_cuda_forward_params &f, tile *in) {
    const int64_t row_begin = length_at(f.cu_seqlens_q, in->batch, 0);
    const int64_t key_begin = length_at(f.cu_seqlens_k, in->batch, 0);
    const int64_t rows = length_at(f.cu_seqlens_q, in->batch + 1, f.rows) - row_begin;
    const int64_t keys = length_at(f.cu_seqlens_k, in->batch + 1, f.keys) - key_begin;
    in->row_begin = static_cast<int>(row_begin);
    in->key_begin = static_cast<int>(key_begin);
    in->rows = static_cast<int>(attune_clamp(length_at(f.seqused_q, in->batch, rows), 0, f.rows));
    in->keys = static_cast<int>(attune_clamp(length_at(f.seqused_k, in->batch, keys), 0, f.keys));
    in->leftpad = static_cast<int>(attune_clamp(length_at(f.leftpad_k, in->batch, 0), 0, in->keys));
}

/* A tile by its number: those of the same keys are neighbours. False if it has no row. */
template <int ROWS, int KEYS>
__device__ __forceinline__ bool find_tile(const attune_cuda_decode_params &p, unsigned number, tile *out_tile) {
    const attune_cuda_forward_params &f = p.forward;
    const unsigned row_tiles = static_cast<unsigned>(f.row_tiles);
    const unsigned heads = static_cast<unsigned>(f.heads_q);
    const unsigned of_rows = number / row_tiles;
    const unsigned batch_head = of_rows % p.packs * p.pack;
    out_tile->first_row = static_cast<int>(number % row_tiles) * ROWS;
    out_tile->split = static_cast<int>(of_rows / p.packs);
    out_tile->batch = static_cast<int>(batch_head / heads);
    out_tile->head = static_cast<int>(batch_head % heads);
    out_tile->kv_head = static_cast<int>(batch_head % heads / p.group);
    set_lengths(f, out_tile);
    const int first_row = static_cast<int>(out_tile->first_row / p.pack);
    if (first_row >= out_tile->rows) {
        return false;
    }
    const int last_row = static_cast<int>((out_tile->first_row + ROWS - 1) / p.pack);
    set_keys<ROWS, KEYS>(p, first_row, least(last_row, out_tile->rows - 1), out_tile);
    out_tile->is_plain = f.softcap == 0.0f && f.alibi_slopes.data == nullptr;
    return true;
}

/* Of a key that is seen. */
__device__ __forceinline__ float finish_score(const attune_cuda_decode_params &p, const tile &in, int row, float slope,
                                              int key, float dot) {
    const attune_cuda_forward_params &f = p.forward;
    float score = f.scale * dot;
    if (f.softcap > 0.0f) {
        score = f.softcap * tanhf(score / f.softcap);
    }
    if (f.alibi_slopes.data != nullptr) {
        const int64_t shift = f.bottom_right != 0 ? in.keys - in.rows : f.diagonal;
        const int64_t distance = row + shift - key;
        score -= slope * static_cast<float>(distance < 0 ? -distance : distance);
    }
    return score;
}

/* Where a split leaves its state of a row. */
__device__ __forceinline__ int64_t partial_row(const attune_cuda_decode_params &p, const tile &in, int row, int head) {
    const attune_cuda_forward_params &f = p.forward;
    return attune_partial_row(f.batch, f.heads_q, f.rows, in.split, in.batch, head, row);
}

__device__ __forceinline__ void write_lse(const attune_cuda_decode_params &p, const tile &in, int row, int head,
                                          float lse) {
    const attune_cuda_operand &to = p.forward.lse;
    if (to.data != nullptr) {
        static_cast<float *>(to.data)[offset(to, in.batch, head, in.row_begin + row)] = lse;
    }
}

} // namespace

#endif
