/*
 * What runs before and after the main kernel of the backward, a work-group to a tile of rows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_BESIDE_H
#define ATTUNE_CUDA_SM90_BWD_BESIDE_H

#include "backends/cuda/sm90/bwd_range.h"
#include "backends/cuda/sm90/bwd_walk.h"
#include "backends/cuda/sm90/copy.h"
#include "backends/cuda/sm90/element.h"

namespace {

constexpr int BESIDE_THREADS = ATTUNE_SM90_BESIDE_THREADS;
constexpr int DQ_ROW_BYTES = DQ_WIDTH * 2; /* as elements */

INLINE int64_t element_offset(const attune_cuda_operand &operand, int64_t i0, int64_t i1, int64_t i2) {
    return i0 * operand.stride[0] + i1 * operand.stride[1] + i2 * operand.stride[2];
}

/* A tile of rows of one head. */
struct row_tile {
    sequence in;
    int row, head;
    int place; /* in the workspace */
    bool exists;
};

INLINE row_tile find_row_tile(const attune_sm90_backward_params &p) {
    row_tile at;
    const int tile = blockIdx.x % p.row_tiles;
    const int head = blockIdx.x / p.row_tiles; /* of all batches */
    at.in = find_sequence(p, head / p.heads_q);
    at.row = tile * TILE_ROWS;
    at.head = head % p.heads_q;
    at.place = place_of(p, at.in, tile, at.head);
    at.exists = at.row < at.in.rows;
    return at;
}

INLINE int64_t offset_of_row(const attune_cuda_operand &operand, const row_tile &at, int row) {
    return element_offset(operand, at.in.batch, at.in.row_begin + row, at.head);
}

/* lse and its kind have heads before rows. */
INLINE float row_value(const attune_cuda_operand &operand, const row_tile &at, int row) {
    return static_cast<const float *>(
        operand.data)[element_offset(operand, at.in.batch, at.head, at.in.row_begin + row)];
}

/* ---- Before ---- */

constexpr int CHUNK = 8; /* elements that a thread reads at once */

INLINE constexpr int lanes_for(int chunks) {
    return chunks <= 8 ? 8 : chunks <= 16 ? 16 : 32;
}

INLINE float dot_of_pairs(uint32_t a, uint32_t b, float sum) {
    return fmaf(low_of(a), low_of(b), fmaf(high_of(a), high_of(b), sum));
}

INLINE float dot_of_chunks(const uint4 &a, const uint4 &b) {
    return dot_of_pairs(a.x, b.x, dot_of_pairs(a.y, b.y, dot_of_pairs(a.z, b.z, dot_of_pairs(a.w, b.w, 0.0f))));
}

INLINE const uint4 &chunk_of(const attune_cuda_operand &operand, const row_tile &at, int row, int column) {
    return *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(operand.data) +
                                            offset_of_row(operand, at, row) + column);
}

template <int SPAN> INLINE float sum_lanes(float value) {
#pragma unroll
    for (int step = SPAN / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, step);
    }
    return value;
}

/* What is not finite makes dS not finite, whatever its factor is: the range is that of the rest. */
INLINE float larger_finite(float largest, float value) {
    return value > largest && value < ATTUNE_INFINITY ? value : largest;
}

INLINE void note_largest_of_warp(const attune_sm90_backward_params &p, int which, float value) {
#pragma unroll
    for (int step = LANES / 2; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, step));
    }
    if (threadIdx.x % LANES == 0) {
        note_largest(p, which, value);
    }
}

/* lse in units of log2, so that weights get their power of two. A row that is not there or sees no key gets inf, so
 * that all its weights are 0. */
INLINE float find_row_lse(const attune_sm90_backward_params &p, const row_tile &at, int row) {
    const float lse = row < at.in.rows ? row_value(p.lse, at, row) : -ATTUNE_INFINITY;
    return lse == -ATTUNE_INFINITY ? ATTUNE_INFINITY : lse * ATTUNE_LOG2_E - WEIGHT_SHIFT;
}

/* Whether this lane's columns of a row of q are all finite. Asked where lse does not tell: softcap makes an ordinary
 * score of an infinite one, and beside a sink a row with only scores of -inf is an ordinary row. */
INLINE bool is_q_finite(const attune_sm90_backward_params &p, const row_tile &at, int row, int column, int step) {
    bool finite = true;
    for (; column < p.head_dim; column += step) {
        const uint4 q = chunk_of(p.direct_q, at, row, column);
        finite =
            finite && finite_of(q.x) == q.x && finite_of(q.y) == q.y && finite_of(q.z) == q.z && finite_of(q.w) == q.w;
    }
    return finite;
}

/* The row sums of dO O, less dlse, and lse. */
INLINE void sum_rows(const attune_sm90_backward_params &p, const row_tile &at) {
    constexpr int lanes = lanes_for(HEAD_DIM_V / CHUNK);
    constexpr int rows_at_once = BESIDE_THREADS / lanes;
    const int column = threadIdx.x % lanes * CHUNK;
    const bool asks_q = (GENERAL && p.is_capped != 0) || p.sink.data != nullptr;
    bool is_marked = false; /* something is not finite, or a row sees no key */
    float largest_dout = 0.0f, largest_sum = 0.0f;
#pragma unroll 4
    for (int i = threadIdx.x / lanes; i < TILE_ROWS; i += rows_at_once) {
        const int row = at.row + i;
        const float lse = find_row_lse(p, at, row);
        float sum = 0.0f, square = 0.0f;
        if (row < at.in.rows && column < p.head_dim_v) {
            const uint4 dout = chunk_of(p.direct_dout, at, row, column);
            sum = dot_of_chunks(chunk_of(p.o, at, row, column), dout);
            square = IS_F16 ? dot_of_chunks(dout, dout) : 0.0f;
        }
        sum = sum_lanes<lanes>(sum);
        is_marked = is_marked || !is_finite(sum) || lse != lse || (lse == ATTUNE_INFINITY && row < at.in.rows);
        if (asks_q && row < at.in.rows) {
            is_marked = is_marked || !is_q_finite(p, at, row, column, lanes * CHUNK);
        }
        if (lse == ATTUNE_INFINITY) { /* whatever its dO is */
            sum = square = 0.0f;
        }
        if (threadIdx.x % lanes == 0) {
            if (p.dlse.data != nullptr && lse != ATTUNE_INFINITY) {
                sum -= row_value(p.dlse, at, row);
            }
            p.row_lse[int64_t{at.place} * ROW_VALUES + i] = lse;
            p.row_sum[int64_t{at.place} * ROW_VALUES + i] = sum;
        }
        if constexpr (IS_F16) {
            largest_dout = larger_finite(largest_dout, sum_lanes<lanes>(square));
            largest_sum = larger_finite(largest_sum, fabsf(sum));
        }
    }
    if constexpr (IS_F16) {
        note_largest_of_warp(p, LARGEST_DOUT, largest_dout);
        note_largest_of_warp(p, LARGEST_SUM, largest_sum);
    }
    is_marked = __syncthreads_or(is_marked);
    if (threadIdx.x < ROW_VALUES - TILE_ROWS) {
        p.row_lse[int64_t{at.place} * ROW_VALUES + TILE_ROWS + threadIdx.x] = is_marked ? 1.0f : 0.0f;
        p.row_sum[int64_t{at.place} * ROW_VALUES + TILE_ROWS + threadIdx.x] = 0.0f;
    }
}

/* ---- The largest rows of V ---- */

INLINE void measure_keys(const attune_sm90_backward_params &p, int number) {
    constexpr int lanes = lanes_for(HEAD_DIM_V / CHUNK);
    constexpr int rows_at_once = BESIDE_THREADS / lanes;
    const int first = number % p.key_tiles * TILE_KEYS;
    const int head = number / p.key_tiles; /* of all batches */
    const sequence in = find_sequence(p, head / p.heads_kv);
    const int column = threadIdx.x % lanes * CHUNK;
    float largest = 0.0f;
    for (int i = threadIdx.x / lanes; i < TILE_KEYS; i += rows_at_once) {
        float square = 0.0f;
        if (first + i < in.keys && column < p.head_dim_v) {
            const int64_t offset =
                element_offset(p.direct_v, in.batch, in.key_begin + first + i, head % p.heads_kv) + column;
            const uint4 v = *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(p.direct_v.data) + offset);
            square = dot_of_chunks(v, v);
        }
        largest = larger_finite(largest, sum_lanes<lanes>(square));
    }
    note_largest_of_warp(p, LARGEST_V, largest);
}

INLINE void clear_dq(const attune_sm90_backward_params &p, const row_tile &at) {
    float4 *to = reinterpret_cast<float4 *>(p.dq_sum + int64_t{at.place} * DQ_TILE);
#pragma unroll 8
    for (int i = threadIdx.x; i < DQ_TILE / 4; i += BESIDE_THREADS) {
        to[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

/* ---- The gradient of a head's sink ---- */

/* Over the rows of all batches, by one work-group in a fixed order. */
INLINE void sum_sink(const attune_sm90_backward_params &p, int head) {
    __shared__ float sums[BESIDE_THREADS];
    const float sink = static_cast<const float *>(p.sink.data)[head * p.sink.stride[0]] * ATTUNE_LOG2_E;
    float sum = 0.0f;
    for (int batch = 0; batch < p.batch; batch++) {
        const sequence in = find_sequence(p, batch);
        for (int row = threadIdx.x; row < in.rows && sink != -ATTUNE_INFINITY; row += BESIDE_THREADS) {
            const int64_t at = int64_t{place_of(p, in, row / TILE_ROWS, head)} * ROW_VALUES + row % TILE_ROWS;
            sum -= exp2_fast(sink - WEIGHT_SHIFT - p.row_lse[at]) * p.row_sum[at];
        }
    }
    sums[threadIdx.x] = sum;
    for (int half = BESIDE_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) {
        static_cast<float *>(p.dsink.data)[head * p.dsink.stride[0]] = sums[0];
    }
}

/* ---- After ---- */

/* Lane q of four has v[j] of column group j; afterwards it has v[q] of each lane in turn. */
INLINE void transpose_quad(uint32_t (&v)[4]) {
    const bool odd = threadIdx.x & 1;
    const bool upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t received = __shfl_xor_sync(ALL_LANES, odd ? v[i] : v[i + 1], 1);
        v[i] = odd ? received : v[i];
        v[i + 1] = odd ? v[i + 1] : received;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t received = __shfl_xor_sync(ALL_LANES, upper ? v[i] : v[i + 2], 2);
        v[i] = upper ? received : v[i];
        v[i + 2] = upper ? v[i + 2] : received;
    }
}

/* A part of dq as the accumulators hold it: four values of a thread are two columns each of rows r and r + 8. */
template <int PART> INLINE void convert_part(const attune_sm90_backward_params &p, const row_tile &at, float factor) {
    const int thread = threadIdx.x % WARPGROUP;
    const int lane = thread % LANES;
    const float4 *from =
        reinterpret_cast<const float4 *>(p.dq_sum + int64_t{at.place} * DQ_TILE + PART * DQ_SECOND_PART);
    const int row = at.row + (DQ_BY_ROWS ? PART * WARPGROUP_ROWS : 0) + thread / LANES * 16 + lane / 4;
#pragma unroll
    for (int group = 0; group < dq_columns(PART) / 32; group++) {
        uint32_t values[2][4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float4 four = from[(4 * group + i) * WARPGROUP + thread];
            values[0][i] = pack_elements(four.x * factor, four.y * factor);
            values[1][i] = pack_elements(four.z * factor, four.w * factor);
        }
        const int column = (DQ_BY_ROWS ? 0 : PART * dq_columns(0)) + group * 32 + lane % 4 * 8;
#pragma unroll
        for (int which = 0; which < 2; which++) {
            transpose_quad(values[which]);
            if (row + 8 * which < at.in.rows && column < p.head_dim) {
                uint16_t *to = static_cast<uint16_t *>(p.dq.data) + offset_of_row(p.dq, at, row + 8 * which) + column;
                *reinterpret_cast<uint4 *>(to) =
                    make_uint4(values[which][0], values[which][1], values[which][2], values[which][3]);
            }
        }
    }
}

/* A part of which four values of a thread are a pair of rows each of columns c and c + 8, as elements to shared memory:
 * chunk c of row r at c ^ r % 8. */
INLINE void stage_columns(const attune_sm90_backward_params &p, const row_tile &at, float factor, int part,
                          uint32_t to) {
    const int thread = threadIdx.x % WARPGROUP;
    const int lane = thread % LANES;
    const int chunk = (part * PANEL + thread / LANES * 16) / CHUNK + lane / 8 % 2;
    const float4 *from =
        reinterpret_cast<const float4 *>(p.dq_sum + int64_t{at.place} * DQ_TILE + part * DQ_SECOND_PART) + thread;
#pragma unroll
    for (int group = 0; group < TILE_ROWS / 8; group += 2) {
        const float4 upper = from[group * WARPGROUP];
        const float4 lower = from[(group + 1) * WARPGROUP];
        store_matrices_transposed(
            to + (group * 8 + lane / 16 * 8 + lane % 8) * DQ_ROW_BYTES + (chunk ^ lane % 8) * 16,
            pack_elements(upper.x * factor, upper.y * factor), pack_elements(upper.z * factor, upper.w * factor),
            pack_elements(lower.x * factor, lower.y * factor), pack_elements(lower.z * factor, lower.w * factor));
    }
}

/* Parts that have columns as rows. */
INLINE void convert_transposed(const attune_sm90_backward_params &p, const row_tile &at, float factor) {
    __shared__ __align__(16) unsigned char tile[TILE_ROWS * DQ_ROW_BYTES];
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
    for (int part = threadIdx.x / WARPGROUP; part < CLUSTER * CONSUMERS; part += CONSUMERS) {
        stage_columns(p, at, factor, part, to);
    }
    __syncthreads();
    const int column = threadIdx.x % LANES * CHUNK;
#pragma unroll 4
    for (int row = threadIdx.x / LANES; row < TILE_ROWS; row += BESIDE_THREADS / LANES) {
        if (at.row + row < at.in.rows && column < p.head_dim) {
            uint16_t *to_row = static_cast<uint16_t *>(p.dq.data) + offset_of_row(p.dq, at, at.row + row) + column;
            *reinterpret_cast<uint4 *>(to_row) = *reinterpret_cast<const uint4 *>(
                tile + row * DQ_ROW_BYTES + (threadIdx.x % LANES ^ row % 8) * sizeof(uint4));
        }
    }
}

INLINE void convert_dq(const attune_sm90_backward_params &p, const row_tile &at) {
    static_assert(BESIDE_THREADS == CONSUMERS * WARPGROUP, "a thread for each of the consumers'");
    const float factor = p.scale / dscore_factor(p);
    if constexpr (PAIRED) {
        convert_transposed(p, at, factor);
        return;
    }
    if (threadIdx.x < WARPGROUP) {
        convert_part<0>(p, at, factor);
    } else {
        convert_part<1>(p, at, factor);
    }
}

} // namespace

#endif
