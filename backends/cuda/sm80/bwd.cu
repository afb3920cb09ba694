/*
 * The general backward: any head size up to 256, every option, f32 arithmetic on plain cores. A row of the table that a
 * faster kernel refuses ends here.
 *
 * A launch is for one stage of the gradients, an item to a warp. Whatever is summed is summed by one warp in one order,
 * so every gradient is deterministic. Scores are computed anew in each stage. Source: docs/semantics.md, "Backward".
 *
 * Compiled once per dtype of q, k and v: ATTUNE_STORAGE is f32, f16, bf16 or e4m3, ATTUNE_SYMBOL the kernel's name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/bwd.h"
#include "backends/cuda/sm80/score.h"
#include "backends/cuda/sm80/warp.h"

namespace {

constexpr int WARPS = ATTUNE_CUDA_BACKWARD_WARPS;
constexpr int COLUMNS_MAX = 256 / LANES; /* of a gradient, to a lane */

/* A warp's own shared memory: two vectors, then for each lane's pair of row and key its weights, and whether it is
 * seen. */
struct scratch {
    float *a, *b;
    float *weight, *dscore, *seen;
};

__device__ scratch find_scratch(const attune_cuda_forward_params &p, float *shared) {
    const int floats = p.head_dim + p.head_dim_v + 3 * LANES;
    scratch own;
    own.a = shared + threadIdx.x / LANES * floats;
    own.b = own.a + p.head_dim;
    own.weight = own.b + p.head_dim_v;
    own.dscore = own.weight + LANES;
    own.seen = own.dscore + LANES;
    return own;
}

/* ---- Elements ---- */

template <typename T>
__device__ float q_at(const attune_cuda_forward_params &p, const place &at, int64_t row, int64_t column) {
    const T *q = static_cast<const T *>(p.q.data);
    return value(q[offset(p.q, at.batch, at.row_begin + row, at.head, column)]) * descale_of(p.descale_q, at, row);
}

template <typename T>
__device__ float kv_at(const attune_cuda_forward_params &p, const attune_cuda_operand &kv,
                       const attune_cuda_operand &descale, const place &at, int64_t key, int64_t column) {
    return value(static_cast<const T *>(kv.data)[kv_offset(p, kv, at, key) + column]) * descale_of(descale, at, key);
}

__device__ float dout_at(const attune_cuda_backward_params &p, const place &at, int64_t row, int64_t column) {
    return load_as(p.dout.data, offset(p.dout, at.batch, at.row_begin + row, at.head, column), p.dout_dtype);
}

__device__ float *row_sum_at(const attune_cuda_backward_params &p, const place &at, int64_t row) {
    const int64_t batch = p.is_packed != 0 ? 0 : at.batch;
    return p.row_sums + (batch * p.forward.heads_q + at.head) * p.row_sums_length + at.row_begin + row;
}

__device__ float lse_at(const attune_cuda_forward_params &p, const place &at, int64_t row) {
    return static_cast<const float *>(p.lse.data)[offset(p.lse, at.batch, at.head, at.row_begin + row)];
}

/* ---- A pair of row and key ---- */

struct pair {
    bool is_seen; /* if not, the others are 0 and not to be multiplied with: 0 times what is not finite is NaN */
    float weight; /* P after dropout: of dO in dV */
    float dlogit; /* dA: dbias */
    float dscore; /* dS: of K in dQ, of Q in dK, but for the scale */
};

/* Of a visible pair. A score of -inf hides it. */
__device__ pair differentiate(const attune_cuda_backward_params &p, const place &at, int64_t row, int64_t key,
                              float dot, float dot_v) {
    const attune_cuda_forward_params &forward = p.forward;
    const float lse = lse_at(forward, at, row);
    const float score = finish_score(forward, at, row, key, dot);
    pair found = {};
    if (score == -ATTUNE_INFINITY || lse == -ATTUNE_INFINITY) {
        return found;
    }
    const float weight = attune_softmax_weight(score, lse);
    float kept = 1.0f;
    if (forward.dropout_threshold != 0) {
        kept =
            attune_dropout_keeps(make_dropout(forward), at.batch, at.head, row, key) ? forward.dropout_rescale : 0.0f;
    }
    float slope = 1.0f;
    if (forward.softcap > 0.0f) {
        const float capped = tanhf(forward.scale * dot / forward.softcap);
        slope = 1.0f - capped * capped;
    }
    found.is_seen = true;
    found.weight = weight * kept;
    found.dlogit = weight * (kept * dot_v - *row_sum_at(p, at, row));
    found.dscore = found.dlogit * slope;
    return found;
}

/* A pair whose row or key lies as a vector in the warp's shared memory; the lane's other half is in memory. */
template <typename T>
__device__ void note_pair_of_row(const attune_cuda_backward_params &p, const place &at, const scratch &own, int64_t row,
                                 int64_t key, bool exists) {
    const int lane = threadIdx.x % LANES;
    const attune_cuda_forward_params &forward = p.forward;
    own.seen[lane] = 0.0f;
    if (exists && is_visible(forward, at, row, key)) {
        float dot = 0.0f, dot_v = 0.0f;
        for (int d = 0; d < forward.head_dim; d++) {
            dot = fmaf(own.a[d], kv_at<T>(forward, forward.k, forward.descale_k, at, key, d), dot);
        }
        for (int d = 0; d < forward.head_dim_v; d++) {
            dot_v = fmaf(own.b[d], kv_at<T>(forward, forward.v, forward.descale_v, at, key, d), dot_v);
        }
        const pair found = differentiate(p, at, row, key, dot, dot_v);
        own.dscore[lane] = found.dscore;
        own.seen[lane] = found.is_seen ? 1.0f : 0.0f;
    }
    __syncwarp();
}

template <typename T>
__device__ void note_pair_of_key(const attune_cuda_backward_params &p, const place &at, const scratch &own, int64_t row,
                                 int64_t key, bool exists) {
    const int lane = threadIdx.x % LANES;
    const attune_cuda_forward_params &forward = p.forward;
    own.seen[lane] = 0.0f;
    if (exists && is_visible(forward, at, row, key)) {
        float dot = 0.0f, dot_v = 0.0f;
        for (int d = 0; d < forward.head_dim; d++) {
            dot = fmaf(q_at<T>(forward, at, row, d), own.a[d], dot);
        }
        for (int d = 0; d < forward.head_dim_v; d++) {
            dot_v = fmaf(dout_at(p, at, row, d), own.b[d], dot_v);
        }
        const pair found = differentiate(p, at, row, key, dot, dot_v);
        own.weight[lane] = found.weight;
        own.dscore[lane] = found.dscore;
        own.seen[lane] = found.is_seen ? 1.0f : 0.0f;
    }
    __syncwarp();
}

/* ---- The stages ---- */

__device__ void sum_row(const attune_cuda_backward_params &p, const place &at, int64_t row) {
    const attune_cuda_forward_params &forward = p.forward;
    float sum = 0.0f;
    for (int d = threadIdx.x % LANES; d < forward.head_dim_v; d += LANES) {
        const int64_t o = offset(forward.o, at.batch, at.row_begin + row, at.head, d);
        sum = fmaf(dout_at(p, at, row, d), load_as(forward.o.data, o, forward.o_dtype), sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % LANES == 0) {
        if (p.dlse.data != nullptr) {
            sum -= static_cast<const float *>(p.dlse.data)[offset(p.dlse, at.batch, at.head, at.row_begin + row)];
        }
        *row_sum_at(p, at, row) = sum;
    }
}

template <typename T>
__device__ void dq_of_row(const attune_cuda_backward_params &p, const place &at, const scratch &own, int64_t row) {
    const int lane = threadIdx.x % LANES;
    const attune_cuda_forward_params &forward = p.forward;
    float dq[COLUMNS_MAX] = {};
    __syncwarp();
    for (int d = lane; d < forward.head_dim; d += LANES) {
        own.a[d] = q_at<T>(forward, at, row, d);
    }
    for (int d = lane; d < forward.head_dim_v; d += LANES) {
        own.b[d] = dout_at(p, at, row, d);
    }
    __syncwarp();
    const attune_interval keys = attune_mask_keys(at.mask, row, 1);
    for (int64_t first = keys.begin; first < keys.end; first += LANES) {
        note_pair_of_row<T>(p, at, own, row, first + lane, first + lane < keys.end);
        for (int c = 0; c < COLUMNS_MAX && c * LANES + lane < forward.head_dim; c++) {
            float part = 0.0f; /* a long sum in one float would lose the last digits */
            for (int i = 0; i < LANES; i++) {
                if (own.seen[i] != 0.0f) {
                    const float k = kv_at<T>(forward, forward.k, forward.descale_k, at, first + i, c * LANES + lane);
                    part = fmaf(own.dscore[i], k, part);
                }
            }
            dq[c] += part;
        }
        __syncwarp();
    }
    for (int c = 0; c < COLUMNS_MAX && c * LANES + lane < forward.head_dim; c++) {
        store_as(p.dq.data, offset(p.dq, at.batch, at.row_begin + row, at.head, c * LANES + lane), p.dq_dtype,
                 forward.scale * dq[c]);
    }
}

/* Adds what the rows of one query head give to a key. */
template <typename T>
__device__ void add_head_to_key(const attune_cuda_backward_params &p, const place &at, const scratch &own, int64_t key,
                                float dk[COLUMNS_MAX], float dv[COLUMNS_MAX]) {
    const int lane = threadIdx.x % LANES;
    const attune_cuda_forward_params &forward = p.forward;
    const attune_interval rows = attune_mask_rows(at.mask, key, 1);
    for (int64_t first = rows.begin; first < rows.end; first += LANES) {
        note_pair_of_key<T>(p, at, own, first + lane, key, first + lane < rows.end);
        for (int c = 0; c < COLUMNS_MAX; c++) {
            const int column = c * LANES + lane;
            float part_k = 0.0f, part_v = 0.0f;
            for (int i = 0; i < LANES; i++) {
                if (own.seen[i] != 0.0f && column < forward.head_dim) {
                    part_k = fmaf(own.dscore[i], q_at<T>(forward, at, first + i, column), part_k);
                }
                if (own.seen[i] != 0.0f && column < forward.head_dim_v) {
                    part_v = fmaf(own.weight[i], dout_at(p, at, first + i, column), part_v);
                }
            }
            dk[c] += part_k;
            dv[c] += part_v;
        }
        __syncwarp();
    }
}

template <typename T>
__device__ void dkv_of_key(const attune_cuda_backward_params &p, const scratch &own, int64_t batch, int64_t kv_head,
                           int64_t key) {
    const int lane = threadIdx.x % LANES;
    const attune_cuda_forward_params &forward = p.forward;
    const int64_t group = forward.heads_q / forward.heads_kv;
    const place first = find_place(forward, batch * forward.heads_q + kv_head * group);
    if (key < first.mask.leftpad || key >= first.mask.keys) {
        return;
    }
    float dk[COLUMNS_MAX] = {}, dv[COLUMNS_MAX] = {};
    __syncwarp();
    for (int d = lane; d < forward.head_dim; d += LANES) {
        own.a[d] = kv_at<T>(forward, forward.k, forward.descale_k, first, key, d);
    }
    for (int d = lane; d < forward.head_dim_v; d += LANES) {
        own.b[d] = kv_at<T>(forward, forward.v, forward.descale_v, first, key, d);
    }
    __syncwarp();
    for (int64_t member = 0; member < group; member++) {
        add_head_to_key<T>(p, find_place(forward, batch * forward.heads_q + kv_head * group + member), own, key, dk,
                           dv);
    }
    for (int c = 0; c < COLUMNS_MAX; c++) {
        const int column = c * LANES + lane;
        if (p.dk.data != nullptr && column < forward.head_dim) {
            store_as(p.dk.data, offset(p.dk, batch, first.key_begin + key, kv_head, column), p.dk_dtype,
                     forward.scale * dk[c]);
        }
        if (p.dv.data != nullptr && column < forward.head_dim_v) {
            store_as(p.dv.data, offset(p.dv, batch, first.key_begin + key, kv_head, column), p.dv_dtype, dv[c]);
        }
    }
}

template <typename T>
__device__ float dlogit_at(const attune_cuda_backward_params &p, const place &at, int64_t row, int64_t key) {
    const attune_cuda_forward_params &forward = p.forward;
    if (key >= at.mask.keys || !is_visible(forward, at, row, key)) {
        return 0.0f;
    }
    float dot = 0.0f, dot_v = 0.0f;
    for (int d = 0; d < forward.head_dim; d++) {
        dot = fmaf(q_at<T>(forward, at, row, d), kv_at<T>(forward, forward.k, forward.descale_k, at, key, d), dot);
    }
    for (int d = 0; d < forward.head_dim_v; d++) {
        dot_v = fmaf(dout_at(p, at, row, d), kv_at<T>(forward, forward.v, forward.descale_v, at, key, d), dot_v);
    }
    return differentiate(p, at, row, key, dot, dot_v).dlogit;
}

/* Sums over the axes that the bias broadcasts along. */
template <typename T> __device__ void dbias_of_element(const attune_cuda_backward_params &p, int64_t element) {
    const attune_cuda_forward_params &forward = p.forward;
    const int64_t extent[4] = {forward.batch, forward.heads_q, forward.rows, forward.keys};
    int64_t own[4], summed[4];
    int64_t terms = 1;
    for (int axis = 3; axis >= 0; axis--) {
        own[axis] = element % p.dbias_shape[axis];
        element /= p.dbias_shape[axis];
        summed[axis] = p.dbias_shape[axis] == 1 ? extent[axis] : 1;
        terms *= summed[axis];
    }
    float sum = 0.0f, part = 0.0f;
    int parts = 0;
    for (int64_t term = threadIdx.x % LANES; term < terms; term += LANES) {
        int64_t index[4];
        int64_t rest = term;
        for (int axis = 3; axis >= 0; axis--) {
            index[axis] = own[axis] + rest % summed[axis];
            rest /= summed[axis];
        }
        part += dlogit_at<T>(p, find_place(forward, index[0] * forward.heads_q + index[1]), index[2], index[3]);
        if (++parts % LANES == 0) {
            sum += part;
            part = 0.0f;
        }
    }
    sum = warp_sum(sum + part);
    if (threadIdx.x % LANES == 0) {
        store_as(p.dbias.data, offset(p.dbias, own[0], own[1], own[2], own[3]), p.dbias_dtype, sum);
    }
}

__device__ void dsink_of_head(const attune_cuda_backward_params &p, int64_t head) {
    const attune_cuda_forward_params &forward = p.forward;
    const float sink = static_cast<const float *>(forward.sink.data)[head * forward.sink.stride[0]];
    float sum = 0.0f;
    for (int64_t batch = 0; batch < forward.batch; batch++) {
        const place at = find_place(forward, batch * forward.heads_q + head);
        float part = 0.0f;
        for (int64_t row = threadIdx.x % LANES; row < at.mask.rows && sink != -ATTUNE_INFINITY; row += LANES) {
            part -= attune_softmax_weight(sink, lse_at(forward, at, row)) * *row_sum_at(p, at, row);
        }
        sum += part;
    }
    sum = warp_sum(sum);
    if (threadIdx.x % LANES == 0) {
        static_cast<float *>(p.dsink.data)[head * p.dsink.stride[0]] = sum;
    }
}

template <typename T> __device__ void do_item(const attune_cuda_backward_params &p, const scratch &own, int64_t item) {
    const attune_cuda_forward_params &forward = p.forward;
    if (p.stage == ATTUNE_CUDA_BACKWARD_SUMS || p.stage == ATTUNE_CUDA_BACKWARD_DQ) {
        const place at = find_place(forward, item / forward.rows);
        const int64_t row = item % forward.rows;
        if (row >= at.mask.rows) {
            return;
        }
        if (p.stage == ATTUNE_CUDA_BACKWARD_SUMS) {
            sum_row(p, at, row);
        } else {
            dq_of_row<T>(p, at, own, row);
        }
    } else if (p.stage == ATTUNE_CUDA_BACKWARD_DKV) {
        const int64_t head = item / forward.keys;
        dkv_of_key<T>(p, own, head / forward.heads_kv, head % forward.heads_kv, item % forward.keys);
    } else if (p.stage == ATTUNE_CUDA_BACKWARD_DBIAS) {
        dbias_of_element<T>(p, item);
    } else {
        dsink_of_head(p, item);
    }
}

} // namespace

/* Warps go round, so that any number of items fits a launch. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_backward_params p) {
    extern __shared__ float4 shared_memory[];
    const scratch own = find_scratch(p.forward, reinterpret_cast<float *>(shared_memory));
    for (int64_t item = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / LANES; item < p.items;
         item += static_cast<int64_t>(gridDim.x) * WARPS) {
        do_item<ATTUNE_STORAGE>(p, own, item);
    }
}
