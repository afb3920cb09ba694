/*
 * The general forward: any head size, every option, f32 arithmetic on plain cores. A row of the table that a faster
 * kernel refuses ends here.
 *
 * A work-group of four warps has a tile of ROWS rows of one head, four to a warp; K and V pass through one shared tile
 * of KEYS keys, a key to a lane. Source: arXiv 2307.08691, algorithm 1.
 *
 * Compiled once per dtype of q, k and v: ATTUNE_STORAGE is f32, f16, bf16 or e4m3, ATTUNE_SYMBOL the kernel's name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/score.h"
#include "backends/cuda/sm80/warp.h"
#include "core/portable/softmax.h"

namespace {

constexpr int WARPS = 4;
constexpr int ROWS_OF_WARP = 4;
constexpr int ROWS = ATTUNE_CUDA_FORWARD_ROWS;
constexpr int KEYS = ATTUNE_CUDA_FORWARD_KEYS;
static_assert(ROWS == WARPS * ROWS_OF_WARP && KEYS == LANES, "four warps, a key to a lane");
constexpr int COLUMNS_MAX = 512 / LANES; /* of o, to a lane */

/* ---- Tiles ---- */

/* Rows first to first + ROWS - 1 of q, as f32; zeros past the sequence. */
template <typename T>
__device__ void load_q(const attune_cuda_forward_params &p, const place &at, int64_t first, float *tile) {
    const T *q = static_cast<const T *>(p.q.data);
    for (int index = threadIdx.x; index < ROWS * p.head_dim; index += blockDim.x) {
        const int64_t row = first + index / p.head_dim;
        float x = 0.0f;
        if (row < at.mask.rows) {
            x = value(q[offset(p.q, at.batch, at.row_begin + row, at.head, index % p.head_dim)]) *
                descale_of(p.descale_q, at, row);
        }
        tile[index] = x;
    }
}

/* Keys first to first + KEYS - 1 of K or V, as f32, rows of width elements at a stride of width + 1; zeros outside of
 * seen, so that no byte there reaches a result. */
template <typename T>
__device__ void load_kv(const attune_cuda_forward_params &p, const attune_cuda_operand &kv,
                        const attune_cuda_operand &descale, const place &at, int64_t first, attune_interval seen,
                        int width, float *tile) {
    const T *data = static_cast<const T *>(kv.data);
    for (int index = threadIdx.x; index < KEYS * width; index += blockDim.x) {
        const int slot = index / width;
        const int64_t key = first + slot;
        float x = 0.0f;
        if (key >= seen.begin && key < seen.end) {
            x = value(data[kv_offset(p, kv, at, key) + index % width]) * descale_of(descale, at, key);
        }
        tile[slot * (width + 1) + index % width] = x;
    }
}

/* S = Q K^T of this lane's key and the warp's rows, and the mask. */
__device__ void score_tile(const attune_cuda_forward_params &p, const place &at, const float *q_tile,
                           const float *k_tile, int64_t first_row, int64_t key, float score[ROWS_OF_WARP]) {
    const int lane = threadIdx.x % LANES;
    const float *k = k_tile + lane * (p.head_dim + 1);
    float dot[ROWS_OF_WARP] = {};
    for (int d = 0; d < p.head_dim; d++) {
        const float element = k[d];
#pragma unroll
        for (int r = 0; r < ROWS_OF_WARP; r++) {
            dot[r] = fmaf(q_tile[r * p.head_dim + d], element, dot[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        const int64_t row = first_row + r;
        score[r] = is_visible(p, at, row, key) ? finish_score(p, at, row, key, dot[r]) : -ATTUNE_INFINITY;
    }
}

/* Softmax update of one row: raises its maximum, adds to its sum, and gives this lane's weight. factor is what o is
 * multiplied by. */
__device__ float update_row(attune_softmax *state, float score, float *factor) {
    *factor = attune_softmax_raise(state, warp_max(score));
    const float weight = attune_softmax_weight(score, attune_softmax_base(state->max));
    state->sum += warp_sum(weight);
    return weight;
}

/* O += P V of the warp's rows; a lane has every 32nd column. weights: the warp's own, key by key. A tile's keys are
 * summed before they join o: one long sum of 2^16 keys would be off by several 1e-6. */
__device__ void add_values(const attune_cuda_forward_params &p, const float *v_tile, const float weight[ROWS_OF_WARP],
                           float4 *weights, float o[ROWS_OF_WARP][COLUMNS_MAX]) {
    const int lane = threadIdx.x % LANES;
    static_assert(ROWS_OF_WARP == 4, "a float4 holds a key's weights");
    __syncwarp();
    weights[lane] = make_float4(weight[0], weight[1], weight[2], weight[3]);
    __syncwarp();
#pragma unroll
    for (int c = 0; c < COLUMNS_MAX; c++) {
        const int column = c * LANES + lane;
        if (column < p.head_dim_v) {
            float4 part = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            for (int key = 0; key < KEYS; key++) {
                const float element = v_tile[key * (p.head_dim_v + 1) + column];
                const float4 w = weights[key];
                part.x = fmaf(w.x, element, part.x);
                part.y = fmaf(w.y, element, part.y);
                part.z = fmaf(w.z, element, part.z);
                part.w = fmaf(w.w, element, part.w);
            }
            o[0][c] += part.x;
            o[1][c] += part.y;
            o[2][c] += part.z;
            o[3][c] += part.w;
        }
    }
}

/* Writes p / l, which takes a second look at all scores. */
template <typename T>
__device__ void write_probs(const attune_cuda_forward_params &p, const place &at, const float *q_tile, float *kv_tile,
                            int64_t first_row, attune_interval seen, const attune_softmax state[ROWS_OF_WARP]) {
    for (int64_t first_key = 0; first_key < at.mask.keys; first_key += KEYS) {
        __syncthreads();
        load_kv<T>(p, p.k, p.descale_k, at, first_key, seen, p.head_dim, kv_tile);
        __syncthreads();
        const int64_t key = first_key + threadIdx.x % LANES;
        float score[ROWS_OF_WARP];
        score_tile(p, at, q_tile, kv_tile, first_row, key, score);
#pragma unroll
        for (int r = 0; r < ROWS_OF_WARP; r++) {
            const int64_t row = first_row + r;
            if (row < at.mask.rows && key < at.mask.keys) {
                /* What is not seen has no weight in a row of NaN either, which makes NaN of all it meets. */
                const float inverse = attune_softmax_finish(state[r]).inverse;
                static_cast<float *>(p.probs.data)[offset(p.probs, at.batch, at.head, row, key)] =
                    score[r] == -ATTUNE_INFINITY
                        ? 0.0f
                        : attune_softmax_weight(score[r], attune_softmax_base(state[r].max)) * inverse;
            }
        }
    }
}

/* Epilogue: O / l and LSE. */
__device__ void write_rows(const attune_cuda_forward_params &p, const place &at, int64_t first_row,
                           const attune_softmax state[ROWS_OF_WARP], const float o[ROWS_OF_WARP][COLUMNS_MAX]) {
    const int lane = threadIdx.x % LANES;
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        const int64_t row = first_row + r;
        if (row >= at.mask.rows) {
            return;
        }
        const attune_softmax_result result = attune_softmax_finish(state[r]);
#pragma unroll
        for (int c = 0; c < COLUMNS_MAX; c++) {
            const int column = c * LANES + lane;
            if (column < p.head_dim_v) {
                store_as(p.o.data, offset(p.o, at.batch, at.row_begin + row, at.head, column), p.o_dtype,
                         o[r][c] * result.inverse);
            }
        }
        if (p.lse.data != nullptr && lane == 0) {
            static_cast<float *>(p.lse.data)[offset(p.lse, at.batch, at.head, at.row_begin + row)] = result.lse;
        }
    }
}

template <typename T>
__device__ void forward_tile(const attune_cuda_forward_params &p, const place &at, int64_t tile_row, float4 *weights,
                             float *q_tile, float *kv_tile) {
    const int warp = threadIdx.x / LANES;
    const int64_t first_row = tile_row + warp * ROWS_OF_WARP;
    const float *q_of_warp = q_tile + warp * ROWS_OF_WARP * p.head_dim;
    const attune_dropout dropout = make_dropout(p);
    attune_softmax state[ROWS_OF_WARP];
    float o[ROWS_OF_WARP][COLUMNS_MAX] = {};

    load_q<T>(p, at, tile_row, q_tile);
#pragma unroll
    for (int r = 0; r < ROWS_OF_WARP; r++) {
        state[r] = p.sink.data == nullptr
                       ? attune_softmax_empty()
                       : attune_softmax_from_logit(static_cast<const float *>(p.sink.data)[at.head * p.sink.stride[0]]);
    }
    const int64_t count = at.mask.rows - tile_row < ROWS ? at.mask.rows - tile_row : ROWS;
    const attune_interval seen = attune_mask_keys(at.mask, tile_row, count);
    for (int64_t first_key = seen.begin / KEYS * KEYS; first_key < seen.end; first_key += KEYS) {
        const int64_t key = first_key + threadIdx.x % LANES;
        float score[ROWS_OF_WARP];
        __syncthreads();
        load_kv<T>(p, p.k, p.descale_k, at, first_key, seen, p.head_dim, kv_tile);
        __syncthreads();
        score_tile(p, at, q_of_warp, kv_tile, first_row, key, score);
#pragma unroll
        for (int r = 0; r < ROWS_OF_WARP; r++) {
            float factor;
            score[r] = update_row(&state[r], score[r], &factor);
#pragma unroll
            for (int c = 0; c < COLUMNS_MAX; c++) {
                o[r][c] *= factor;
            }
            if (p.dropout_threshold != 0) {
                const bool keeps = attune_dropout_keeps(dropout, at.batch, at.head, first_row + r, key);
                score[r] = keeps ? score[r] * p.dropout_rescale : 0.0f;
            }
        }
        __syncthreads();
        load_kv<T>(p, p.v, p.descale_v, at, first_key, seen, p.head_dim_v, kv_tile);
        __syncthreads();
        add_values(p, kv_tile, score, weights + warp * KEYS, o);
    }
    if (p.probs.data != nullptr) {
        write_probs<T>(p, at, q_of_warp, kv_tile, first_row, seen, state);
    }
    write_rows(p, at, first_row, state, o);
}

} // namespace

/* Work-groups go round, so that any number of tiles fits a launch. Shared memory: ROWS x KEYS weights, ROWS x D of q,
 * then KEYS x (max(D, Dv) + 1) of K or V. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_forward_params p) {
    extern __shared__ float4 weights[];
    float *q_tile = reinterpret_cast<float *>(weights + WARPS * KEYS);
    const int64_t tiles = p.batch * p.heads_q * p.row_tiles;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const place at = find_place(p, tile / p.row_tiles);
        const int64_t tile_row = tile % p.row_tiles * ROWS;
        if (tile_row < at.mask.rows) {
            forward_tile<ATTUNE_STORAGE>(p, at, tile_row, weights, q_tile, q_tile + ROWS * p.head_dim);
        }
        __syncthreads();
    }
}
