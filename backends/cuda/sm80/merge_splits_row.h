/*
 * The merge of what splits of the keys leave: always in the same order, and in as few waits for memory as there can be,
 * since nothing else runs meanwhile.
 *
 * A row of one head has one warp, or where splits are many, all of a work-group. Each weighs all splits, a lane every
 * 32nd of them; it adds up every row_warps-th one, a lane four columns of every 128. Source: Dao, Flash-Decoding
 * (2023).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_MERGE_SPLITS_ROW_H
#define ATTUNE_CUDA_SM80_MERGE_SPLITS_ROW_H

#include "backends/cuda/sm80/dependent.h"
#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/merge_splits.h"
#include "backends/cuda/sm80/warp.h"
#include "core/portable/softmax.h"

namespace {

constexpr int SPLIT_WARPS = ATTUNE_CUDA_MERGE_SPLITS_WARPS;
constexpr int SPLITS_OF_LANE = ATTUNE_MERGE_PARTS_MAX / LANES;
constexpr int SPLITS_AT_ONCE = 4; /* that a warp asks memory for before it knows their weights */
constexpr int FOURS_OF_LANE = ATTUNE_CUDA_MERGE_SPLITS_COLUMNS / (4 * LANES);
static_assert(SPLITS_OF_LANE * LANES == ATTUNE_MERGE_PARTS_MAX, "a lane weighs as many as any other");

/* Of a warp: the weight of each split, and what it has added up. */
struct warp_splits {
    float weight[ATTUNE_MERGE_PARTS_MAX];
    float sum[ATTUNE_CUDA_MERGE_SPLITS_COLUMNS];
};
static_assert(SPLIT_WARPS * sizeof(warp_splits) == ATTUNE_CUDA_MERGE_SPLITS_SHARED, "as the host gives it");

/* Of a warp: o of some of its splits. */
struct splits_o {
    float4 of[SPLITS_AT_ONCE][FOURS_OF_LANE];
};

__device__ __forceinline__ void load_splits(const attune_cuda_merge_splits_params &p, int64_t row, int first,
                                            splits_o *to) {
    const int64_t states = static_cast<int64_t>(p.batch) * p.heads * p.rows;
#pragma unroll
    for (int n = 0; n < SPLITS_AT_ONCE; n++) {
        const int split = first + n * p.row_warps;
#pragma unroll
        for (int i = 0; i < FOURS_OF_LANE; i++) {
            const int column = 4 * static_cast<int>(threadIdx.x % LANES + i * LANES);
            if (split < p.splits && column < p.head_dim_v) {
                to->of[n][i] =
                    *reinterpret_cast<const float4 *>(p.partial_o + (split * states + row) * p.head_dim_v + column);
            } else {
                to->of[n][i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
    }
}

/* Weights of all splits, relative to the state that is returned; of a split that is not there, 0. */
__device__ __forceinline__ attune_softmax weigh_splits(const attune_cuda_merge_splits_params &p, int64_t row,
                                                       float *out_weights) {
    const int64_t states = static_cast<int64_t>(p.batch) * p.heads * p.rows;
    attune_softmax state[SPLITS_OF_LANE];
    attune_softmax whole = attune_softmax_empty();
#pragma unroll
    for (int k = 0; k < SPLITS_OF_LANE; k++) {
        const int split = k * LANES + static_cast<int>(threadIdx.x % LANES);
        state[k] = attune_softmax_empty();
        if (split < p.splits) {
            state[k].max = p.partial_max[split * states + row];
            state[k].sum = p.partial_sum[split * states + row];
        }
    }
#pragma unroll
    for (int k = 0; k < SPLITS_OF_LANE; k++) {
        whole.max = fmaxf(whole.max, state[k].max);
    }
    whole.max = warp_max(whole.max);
#pragma unroll
    for (int k = 0; k < SPLITS_OF_LANE; k++) {
        if (k * LANES >= p.splits) {
            break;
        }
        const float weight = attune_softmax_weight(state[k].max, attune_softmax_base(whole.max));
        whole.sum += state[k].sum * weight;
        out_weights[k * LANES + threadIdx.x % LANES] = weight;
    }
    whole.sum = warp_sum(whole.sum);
    return whole;
}

__device__ __forceinline__ void add_splits(const attune_cuda_merge_splits_params &p, int first, const splits_o &o,
                                           const float *weight, float4 (&sum)[FOURS_OF_LANE]) {
#pragma unroll
    for (int n = 0; n < SPLITS_AT_ONCE; n++) {
        const int split = first + n * p.row_warps;
        if (split >= p.splits) {
            break;
        }
        const float of_split = weight[split];
#pragma unroll
        for (int i = 0; i < FOURS_OF_LANE; i++) {
            sum[i].x = fmaf(of_split, o.of[n][i].x, sum[i].x);
            sum[i].y = fmaf(of_split, o.of[n][i].y, sum[i].y);
            sum[i].z = fmaf(of_split, o.of[n][i].z, sum[i].z);
            sum[i].w = fmaf(of_split, o.of[n][i].w, sum[i].w);
        }
    }
}

/* A row of (batch, head, row), and where o and lse have it. */
struct merged_row {
    unsigned number, batch, head;
    int64_t out_row;
    bool is_there;
};

__device__ __forceinline__ merged_row find_merged_row(const attune_cuda_merge_splits_params &p, unsigned number) {
    const unsigned in_sequence = number % p.rows;
    merged_row found;
    found.number = number;
    found.head = number / p.rows % p.heads;
    found.batch = number / p.rows / p.heads;
    found.is_there = found.batch < p.batch;
    if (found.is_there) {
        const int64_t begin = length_at(p.cu_seqlens_q, found.batch, 0);
        const int64_t rows = length_at(p.cu_seqlens_q, found.batch + 1, p.rows) - begin;
        found.out_row = begin + in_sequence;
        found.is_there = in_sequence < length_at(p.seqused_q, found.batch, rows);
    }
    return found;
}

/* What a warp has of its row. */
__device__ __forceinline__ attune_softmax_result add_own_splits(const attune_cuda_merge_splits_params &p, unsigned row,
                                                                int own, warp_splits *to) {
    splits_o o;
    load_splits(p, row, own, &o);
    const attune_softmax_result result = attune_softmax_finish(weigh_splits(p, row, to->weight));
    __syncwarp();
    float4 sum[FOURS_OF_LANE] = {};
    for (int first = own; first < p.splits; first += SPLITS_AT_ONCE * p.row_warps) {
        if (first != own) {
            load_splits(p, row, first, &o);
        }
        add_splits(p, first, o, to->weight, sum);
    }
#pragma unroll
    for (int i = 0; i < FOURS_OF_LANE; i++) {
        *reinterpret_cast<float4 *>(&to->sum[4 * (threadIdx.x % LANES + i * LANES)]) = sum[i];
    }
    return result;
}

/* What does not depend on the splits comes before the wait for them. */
__device__ __forceinline__ void merge_splits_rows(const attune_cuda_merge_splits_params &p, warp_splits *shared) {
    const int warp = threadIdx.x / LANES;
    const int own = warp % p.row_warps;
    const merged_row row = find_merged_row(p, (blockIdx.x * SPLIT_WARPS + warp) / p.row_warps);
    wait_for_last_launch();
    attune_softmax_result result = {};
    if (row.is_there) {
        result = add_own_splits(p, row.number, own, &shared[warp]);
    }
    __syncthreads();
    if (!row.is_there) {
        return;
    }
    const int threads = p.row_warps * LANES;
    for (int column = threadIdx.x % threads; column < p.head_dim_v; column += threads) {
        float whole = 0.0f;
        for (int other = 0; other < p.row_warps; other++) {
            whole += shared[warp - own + other].sum[column];
        }
        store_as(p.o.data, offset(p.o, row.batch, row.out_row, row.head, column), p.o_dtype,
                 result.inverse == 0.0f ? 0.0f : whole * result.inverse);
    }
    if (p.lse.data != nullptr && threadIdx.x % threads == 0) {
        static_cast<float *>(p.lse.data)[offset(p.lse, row.batch, row.head, row.out_row)] = result.lse;
    }
}

} // namespace

#endif
