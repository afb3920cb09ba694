/*
 * What a warp does with a block of keys: S^T = K Q^T, weights, O^T += V^T P^T. Rows of q are few, so they are the
 * narrower side of the products.
 *
 * What scores are taken relative to is a maximum that may lag behind: it is raised, and O with it, only where scores
 * are RISE octaves above it. So most blocks take one vote of the warp, and no reduction.
 * Source: Milakov and Gimelshein, Online normalizer calculation for softmax (arXiv 1805.02867).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_DECODE_BLOCK_H
#define ATTUNE_CUDA_SM90_DECODE_BLOCK_H

#include "backends/cuda/sm80/decode_tile.h"
#include "backends/cuda/sm90/decode_row.h"
#include "backends/cuda/sm90/element.h"
#include "backends/cuda/sm90/warp_mma.h"

namespace {

/* ---- A warp's rows: lane r knows row r of the tile ---- */

/* The first of its group. */
INLINE int first_row_of_warp() {
    return threadIdx.x / LANES / GROUP_WARPS * WARP_ROWS;
}

/* Of the group's rows 8 n + 2 t and that + 1, for each octet n; g + 8 i are columns of v, or keys. */
struct warp_state {
    float o[DEPTHS][OCTETS][4];
    float reference[OCTETS][2]; /* the same in all lanes of a row; -inf: no score yet */
    float sum[OCTETS][2];       /* of the weights of this lane's keys */
};

/* ---- Q ---- */

/* Fragments of 16 columns, two words to an octet: row g, columns 2 t, 2 t + 1, and those + 8. */
struct q_fragments {
    uint32_t word[Q_IS_SHARED ? 1 : DEPTHS][OCTETS][2];
};

INLINE const unsigned char *find_q(const attune_cuda_decode_params &p, const tile &in, int row, int head) {
    const attune_cuda_operand &q = p.forward.q;
    return static_cast<const unsigned char *>(q.data) + 2 * offset(q, in.batch, in.row_begin + row, head);
}

INLINE void load_q_registers(const attune_cuda_decode_params &p, const tile &in, const tile_row &own, q_fragments *q) {
    const int g = threadIdx.x % LANES / 4;
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
        const int r = first_row_of_warp() + 8 * n + g;
        const bool is_there = __shfl_sync(ALL_LANES, own.is_there, r);
        const int row = __shfl_sync(ALL_LANES, own.row, r);
        const int head = __shfl_sync(ALL_LANES, own.head, r);
        const unsigned char *from = find_q(p, in, row, head);
#pragma unroll
        for (int k = 0; k < DEPTHS; k++) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int column = 16 * k + 8 * half + 2 * t;
                q->word[Q_IS_SHARED ? 0 : k][n][half] = is_there && column < p.forward.head_dim
                                                            ? *reinterpret_cast<const uint32_t *>(from + 2 * column)
                                                            : 0;
            }
        }
    }
}

/* To shared memory, by all consumers: panels of rows, whose 16-byte chunk c of row r lies at c ^ r % 8. */
INLINE void load_q_shared(const attune_cuda_decode_params &p, const tile &in) {
    constexpr int CHUNKS = HEAD_DIM / 8;
    for (int i = threadIdx.x; i < TILE_ROWS * CHUNKS; i += CONSUMERS) {
        const int r = i / CHUNKS;
        const int chunk = i % CHUNKS;
        const int row = (in.first_row + r) / p.pack;
        const int head = in.head + (in.first_row + r) % p.pack;
        uint4 loaded = make_uint4(0, 0, 0, 0);
        if (row < in.rows && 8 * chunk < p.forward.head_dim) {
            loaded = *reinterpret_cast<const uint4 *>(find_q(p, in, row, head) + 16 * chunk);
        }
        const int to = (chunk / 8 * TILE_ROWS + r) * PANEL_BYTES + (chunk % 8 ^ r % 8) * 16;
        *reinterpret_cast<uint4 *>(shared + Q_OFFSET + to) = loaded;
    }
}

/* Two neighbouring fragments of an octet. */
INLINE void read_q(int k, int n, uint32_t (&to)[4]) {
    const int lane = threadIdx.x % LANES;
    const int chunk = 2 * k % 8 + lane / 8;
    load_matrices(to, shared_address(Q_OFFSET) +
                          (k / 4 * TILE_ROWS + first_row_of_warp() + 8 * n + lane % 8) * PANEL_BYTES +
                          (chunk ^ lane % 8) * 16);
}

/* ---- Scores ---- */

using scores = float[BLOCK_TILES][OCTETS][4]; /* keys g and g + 8 of sixteen */

/* Where a fragment of 16 keys begins in a panel: of a key the 16-byte chunk c lies at c ^ key % 8, so that 16 columns
 * on is an exclusive or. by_key: the keys of the second matrix of four are the next eight, or those of the third. */
INLINE uint32_t fragment_offset(bool second_by_key) {
    const int lane = threadIdx.x % LANES;
    const int key = lane % 8 + (second_by_key ? lane / 8 % 2 : lane / 16) * 8;
    const int chunk = second_by_key ? lane / 16 : lane / 8 % 2;
    return key * PANEL_BYTES + (chunk ^ lane % 8) * 16;
}

INLINE uint32_t fragment_address(uint32_t block, uint32_t offset_in_panel, int k, int tile) {
    return block + k / 4 * TILE_KEYS * PANEL_BYTES + tile * 16 * PANEL_BYTES + (offset_in_panel ^ k % 4 * 32);
}

/* k: the block's part of a stage's K. */
INLINE void score_block(uint32_t k_block, const q_fragments &q, scores &s) {
    /* Of few chains each is cut in two, which need not wait for each other. */
    constexpr int SUMS = OCTETS * BLOCK_TILES <= 2 ? 2 : 1;
    const uint32_t in_panel = fragment_offset(true);
    float sums[SUMS][BLOCK_TILES][OCTETS][4] = {};
    uint32_t shared_q[OCTETS][4];
#pragma unroll
    for (int k = 0; k < DEPTHS; k++) {
        uint32_t keys[BLOCK_TILES][4];
#pragma unroll
        for (int tile = 0; tile < BLOCK_TILES; tile++) {
            load_matrices(keys[tile], fragment_address(k_block, in_panel, k, tile));
        }
#pragma unroll
        for (int n = 0; n < OCTETS; n++) {
            if (Q_IS_SHARED && k % 2 == 0) {
                read_q(k, n, shared_q[n]);
            }
            const uint32_t first = Q_IS_SHARED ? shared_q[n][k % 2 * 2] : q.word[Q_IS_SHARED ? 0 : k][n][0];
            const uint32_t second = Q_IS_SHARED ? shared_q[n][k % 2 * 2 + 1] : q.word[Q_IS_SHARED ? 0 : k][n][1];
#pragma unroll
            for (int tile = 0; tile < BLOCK_TILES; tile++) {
                multiply(sums[k % SUMS][tile][n], keys[tile], first, second);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < BLOCK_TILES * OCTETS * 4; i++) {
        const int tile = i / (OCTETS * 4);
        const int n = i / 4 % OCTETS;
        s[tile][n][i % 4] = sums[0][tile][n][i % 4] + (SUMS == 2 ? sums[SUMS - 1][tile][n][i % 4] : 0.0f);
    }
}

INLINE void finish_scores(float scale, scores &s) {
#pragma unroll
    for (int tile = 0; tile < BLOCK_TILES; tile++) {
#pragma unroll
        for (int n = 0; n < OCTETS; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[tile][n][i] *= scale;
            }
        }
    }
}

/* The same where some row does not see some key, or a score is more than a product. */
INLINE void finish_any_scores(const attune_cuda_decode_params &p, const tile &in, const tile_row &own, int first,
                              scores &s) {
    const int g = threadIdx.x % LANES / 4;
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int from = first_row_of_warp() + 8 * n + 2 * t + e;
            const int begin = __shfl_sync(ALL_LANES, own.begin, from);
            const int end = __shfl_sync(ALL_LANES, own.end, from);
            const float slope = __shfl_sync(ALL_LANES, own.slope, from);
            const int row = __shfl_sync(ALL_LANES, own.row, from);
#pragma unroll
            for (int i = 0; i < 2 * BLOCK_TILES; i++) {
                const int key = first + 8 * i + g;
                float *score = &s[i / 2][n][i % 2 * 2 + e];
                *score = key >= begin && key < end ? finish_score(p, in, row, slope, key, *score) : -ATTUNE_INFINITY;
            }
        }
    }
}

/* ---- Weights ---- */

/* As attune_softmax_weight, times 2^octaves; what it flushes is nothing beside a sum of 1 and more. */
INLINE float weight_of(float score, float base, float octaves) {
    return exp2_fast(fmaf(score - base, ATTUNE_LOG2_E, octaves));
}

/* Of a row, over the eight lanes that share it. */
INLINE float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 4));
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 8));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 16));
}

INLINE float row_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 4);
    x += __shfl_xor_sync(ALL_LANES, x, 8);
    return x + __shfl_xor_sync(ALL_LANES, x, 16);
}

/* largest: of this lane's scores. */
INLINE void raise(const float (&largest)[OCTETS][2], warp_state *state) {
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float raised = fmaxf(state->reference[n][e], row_max(largest[n][e]));
            const float factor = weight_of(state->reference[n][e], attune_softmax_base(raised), 0.0f);
            state->reference[n][e] = raised;
            state->sum[n][e] *= factor;
#pragma unroll
            for (int j = 0; j < DEPTHS; j++) {
                state->o[j][n][e] *= factor;
                state->o[j][n][e + 2] *= factor;
            }
        }
    }
}

/* Turns scores to weights. */
INLINE void weigh(scores &s, warp_state *state) {
    float largest[OCTETS][2];
    bool rises = false;
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            largest[n][e] = fmaxf(s[0][n][e], s[0][n][e + 2]);
#pragma unroll
            for (int tile = 1; tile < BLOCK_TILES; tile++) {
                largest[n][e] = fmaxf(largest[n][e], fmaxf(s[tile][n][e], s[tile][n][e + 2]));
            }
            /* -inf - -inf is no rise. */
            rises |= largest[n][e] - state->reference[n][e] > RISE / ATTUNE_LOG2_E;
        }
    }
    if (__any_sync(ALL_LANES, rises)) {
        raise(largest, state);
    }
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float base = attune_softmax_base(state->reference[n][e]);
#pragma unroll
            for (int tile = 0; tile < BLOCK_TILES; tile++) {
                s[tile][n][e] = weight_of(s[tile][n][e], base, HEADROOM);
                s[tile][n][e + 2] = weight_of(s[tile][n][e + 2], base, HEADROOM);
                state->sum[n][e] += s[tile][n][e] + s[tile][n][e + 2];
            }
        }
    }
}

/* ---- Values ---- */

/* Which of two keys lie in the split, as the halves of a word. */
INLINE uint32_t pair_in(const tile &in, int key) {
    const uint32_t lower = key >= in.begin && key < in.end ? 0xFFFFu : 0u;
    const uint32_t upper = key + 1 >= in.begin && key + 1 < in.end ? 0xFFFF0000u : 0u;
    return lower | upper;
}

/* v_block: the block's part of a stage's V, of which some keys may be others', or no one's: not even 0 times that. */
template <bool IS_WHOLE>
INLINE void add_values(uint32_t v_block, const tile &in, int first, const scores &s, warp_state *state) {
    const uint32_t in_panel = fragment_offset(false);
#pragma unroll
    for (int tile = 0; tile < BLOCK_TILES; tile++) {
        uint32_t weights[OCTETS][2];
#pragma unroll
        for (int n = 0; n < OCTETS; n++) {
            weights[n][0] = transpose(pack_elements(s[tile][n][0], s[tile][n][1]));
            weights[n][1] = transpose(pack_elements(s[tile][n][2], s[tile][n][3]));
        }
        const int key = first + 16 * tile + 2 * static_cast<int>(threadIdx.x % 4);
        const uint32_t upper_in = IS_WHOLE ? 0 : pair_in(in, key);
        const uint32_t lower_in = IS_WHOLE ? 0 : pair_in(in, key + 8);
#pragma unroll
        for (int j = 0; j < DEPTHS; j++) {
            uint32_t values[4];
            load_matrices_transposed(values, fragment_address(v_block, in_panel, j, tile));
            if (!IS_WHOLE) {
                values[0] &= upper_in;
                values[1] &= upper_in;
                values[2] &= lower_in;
                values[3] &= lower_in;
            }
#pragma unroll
            for (int n = 0; n < OCTETS; n++) {
                multiply(state->o[j][n], values, weights[n][0], weights[n][1]);
            }
        }
    }
}

} // namespace

#endif
