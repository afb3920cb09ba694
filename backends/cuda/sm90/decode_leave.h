/*
 * The end of a tile: the warps' states become one, always in the same order, and leave as o and lse, or as the split's
 * partial state.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_DECODE_LEAVE_H
#define ATTUNE_CUDA_SM90_DECODE_LEAVE_H

#include "backends/cuda/sm90/decode_block.h"

namespace {

constexpr int CONSUMER_BARRIER = 1;
constexpr int ROW_THREADS = CONSUMERS / TILE_ROWS; /* each with four columns at a time */

INLINE void sync_consumers() {
    named_barrier_sync(CONSUMER_BARRIER, CONSUMERS);
}

INLINE attune_softmax *states_of(int warp) {
    return reinterpret_cast<attune_softmax *>(shared + STATES_OFFSET) + warp * WARP_ROWS;
}

constexpr float UNDO_HEADROOM = 1.0f / (1 << HEADROOM);

INLINE void share_states(const warp_state &state) {
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const float sum = row_sum(state.sum[n][e]) * UNDO_HEADROOM;
            if (lane < 4) {
                states_of(threadIdx.x / LANES)[8 * n + 2 * lane + e] = {state.reference[n][e], sum};
            }
        }
    }
}

/* Floats into the lent stage. Rows are two, four and six octets of columns apart from where they would be, so that a
 * warp writes to all banks. */
INLINE int o_index(int warp, int row, int column) {
    return (warp * WARP_ROWS + row) * O_COLUMNS + (column ^ (row / 2 % 4) * 8);
}

template <int CHUNK> INLINE void share_o(const warp_state &state, float *all) {
    const int g = threadIdx.x % LANES / 4;
    const int t = threadIdx.x % 4;
    const int warp = threadIdx.x / LANES;
#pragma unroll
    for (int j = 0; j < O_COLUMNS / 16; j++) {
#pragma unroll
        for (int n = 0; n < OCTETS; n++) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                all[o_index(warp, 8 * n + 2 * t + i % 2, 16 * j + 8 * (i / 2) + g)] =
                    state.o[CHUNK * (O_COLUMNS / 16) + j][n][i] * UNDO_HEADROOM;
            }
        }
    }
}

/* What a thread has to do with the row that it writes. */
struct leaving_row {
    int first_warp, in_group; /* of the row's group, and the row in that */
    int row, head;
    bool is_there;
    float factor[GROUP_WARPS]; /* of each warp's o */
    attune_softmax whole;
    attune_softmax_result result; /* without splits */
};

INLINE leaving_row find_leaving_row(const tile_row &own) {
    const int r = threadIdx.x / ROW_THREADS;
    leaving_row found;
    found.first_warp = r / WARP_ROWS * GROUP_WARPS;
    found.in_group = r % WARP_ROWS;
    found.row = __shfl_sync(ALL_LANES, own.row, r);
    found.head = __shfl_sync(ALL_LANES, own.head, r);
    found.is_there = __shfl_sync(ALL_LANES, own.is_there, r);
    return found;
}

INLINE void weigh_states(const attune_cuda_decode_params &p, leaving_row *row) {
    row->whole = attune_softmax_empty();
#pragma unroll
    for (int warp = 0; warp < GROUP_WARPS; warp++) {
        row->whole.max = fmaxf(row->whole.max, states_of(row->first_warp + warp)[row->in_group].max);
    }
#pragma unroll
    for (int warp = 0; warp < GROUP_WARPS; warp++) {
        const attune_softmax part = states_of(row->first_warp + warp)[row->in_group];
        row->factor[warp] = attune_softmax_weight(part.max, attune_softmax_base(row->whole.max));
        row->whole.sum += part.sum * row->factor[warp];
    }
    if (p.splits == 1) {
        row->result = attune_softmax_finish(row->whole);
    }
}

/* Four of them, from all warps'. */
INLINE float4 add_parts(const leaving_row &row, int column, const float *all) {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int warp = 0; warp < GROUP_WARPS; warp++) {
        const int from = o_index(row.first_warp + warp, row.in_group, column);
        const float4 part = *reinterpret_cast<const float4 *>(&all[from]);
        sum.x = fmaf(part.x, row.factor[warp], sum.x);
        sum.y = fmaf(part.y, row.factor[warp], sum.y);
        sum.z = fmaf(part.z, row.factor[warp], sum.z);
        sum.w = fmaf(part.w, row.factor[warp], sum.w);
    }
    return sum;
}

INLINE void write_columns(const attune_cuda_decode_params &p, const tile &in, const leaving_row &row, int column,
                          const float4 &sum) {
    if (p.splits > 1) {
        const int64_t to = partial_row(p, in, row.row, row.head) * p.forward.head_dim_v + column;
        *reinterpret_cast<float4 *>(&p.partial_o[to]) = sum;
        return;
    }
    const attune_cuda_operand &o = p.forward.o;
    const int64_t to = offset(o, in.batch, in.row_begin + row.row, row.head, column);
    const float columns_of_o[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        store_as(o.data, to + i, p.forward.o_dtype, columns_of_o[i] * row.result.inverse);
    }
}

/* O_COLUMNS from the first on. */
INLINE void write_chunk(const attune_cuda_decode_params &p, const tile &in, const leaving_row &row, int first,
                        const float *all) {
#pragma unroll
    for (int column = threadIdx.x % ROW_THREADS * 4; column < O_COLUMNS; column += 4 * ROW_THREADS) {
        if (row.is_there && first + column < p.forward.head_dim_v) {
            write_columns(p, in, row, first + column, add_parts(row, column, all));
        }
    }
}

INLINE void write_state(const attune_cuda_decode_params &p, const tile &in, const leaving_row &row) {
    if (!row.is_there || threadIdx.x % ROW_THREADS != 0) {
        return;
    }
    if (p.splits > 1) {
        const int64_t to = partial_row(p, in, row.row, row.head);
        p.partial_max[to] = row.whole.max;
        p.partial_sum[to] = row.whole.sum;
    } else {
        write_lse(p, in, row.row, row.head, row.result.lse);
    }
}

/* Chunk by chunk of the columns. */
template <int CHUNK>
INLINE void leave_chunks(const attune_cuda_decode_params &p, const tile &in, const warp_state &state, leaving_row *row,
                         float *all) {
    if constexpr (CHUNK < HEAD_DIM / O_COLUMNS) {
        share_o<CHUNK>(state, all);
        sync_consumers();
        if (CHUNK == 0) {
            weigh_states(p, row);
            write_state(p, in, *row);
        }
        write_chunk(p, in, *row, CHUNK * O_COLUMNS, all);
        if (CHUNK + 1 == HEAD_DIM / O_COLUMNS) {
            async_proxy_fence(); /* the copy engine writes to the stage next */
        }
        sync_consumers();
        leave_chunks<CHUNK + 1>(p, in, state, row, all);
    }
}

INLINE void leave_tile(const attune_cuda_decode_params &p, const tile &in, const tile_row &own, const warp_state &state,
                       unsigned char *stage) {
    leaving_row row = find_leaving_row(own);
    share_states(state);
    leave_chunks<0>(p, in, state, &row, reinterpret_cast<float *>(stage));
}

} // namespace

#endif
