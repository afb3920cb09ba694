/*
 * Appending to the cache: new keys, rotated, and new values go to their positions; q is rotated in place or elsewhere.
 *
 * A warp has a vector: one row of one head of the new keys, of the new values, or of q. A lane has both elements of a
 * pair that is rotated. Source: RoFormer (arXiv 2104.09864), section 3.4.2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/append.h"

#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/warp.h"

namespace {

constexpr int WARPS = ATTUNE_CUDA_APPEND_WARPS;

struct vector {
    const void *from;
    void *to;
    int64_t from_first, to_first; /* elements */
    int32_t from_dtype, to_dtype;
    int32_t length;
    int32_t rotary_dim; /* 0: not rotated */
    int64_t position;
    float descale;
};

/* A descale of 0 makes every value 0, and is stored as 0. */
__device__ void store(const vector &x, int element, float loaded) {
    const float scaled = x.descale == 0.0f ? 0.0f : loaded / x.descale;
    store_as(x.to, x.to_first + element, x.to_dtype, scaled);
}

__device__ float load(const vector &x, int element) {
    return load_as(x.from, x.from_first + element, x.from_dtype);
}

__device__ void move_pair(const attune_cuda_append_params &p, const vector &x, int pair) {
    const int first = p.rotary_interleaved != 0 ? 2 * pair : pair;
    const int second = p.rotary_interleaved != 0 ? first + 1 : pair + x.rotary_dim / 2;
    const float cosine = static_cast<const float *>(p.rotary_cos.data)[offset(p.rotary_cos, x.position, pair)];
    const float sine = static_cast<const float *>(p.rotary_sin.data)[offset(p.rotary_sin, x.position, pair)];
    const float a = load(x, first);
    const float b = load(x, second);
    store(x, first, a * cosine - b * sine);
    store(x, second, a * sine + b * cosine);
}

__device__ void move(const attune_cuda_append_params &p, const vector &x) {
    const int lane = threadIdx.x % LANES;
    for (int pair = lane; pair < x.rotary_dim / 2; pair += LANES) {
        move_pair(p, x, pair);
    }
    for (int element = x.rotary_dim + lane; element < x.length; element += LANES) {
        store(x, element, load(x, element));
    }
}

__device__ int64_t position_of(const attune_cuda_append_params &p, int64_t batch, int64_t row) {
    const int32_t *used = static_cast<const int32_t *>(p.seqused_k.data);
    return row + (used == nullptr ? 0 : used[batch * p.seqused_k.stride[0]]);
}

/* Whether there is such a position, whatever seqused_k holds: nothing outside of the tensors is read or written. */
__device__ bool is_there(const attune_cuda_append_params &p, int64_t position, int64_t capacity) {
    return position >= 0 && position < capacity && (p.rotary_dim == 0 || position < p.positions);
}

__device__ int64_t cache_offset(const attune_cuda_append_params &p, const attune_cuda_operand &cache, int64_t batch,
                                int64_t position, int64_t head) {
    if (p.page_size == 0) {
        return offset(cache, batch, position, head);
    }
    const int64_t page =
        static_cast<const int32_t *>(p.block_table.data)[offset(p.block_table, batch, position / p.page_size)];
    return offset(cache, page, position % p.page_size, head);
}

__device__ void append_vector(const attune_cuda_append_params &p, int64_t index, bool is_key) {
    const attune_cuda_operand &from = is_key ? p.k_new : p.v_new;
    const attune_cuda_operand &cache = is_key ? p.k : p.v;
    const attune_cuda_operand &descale = is_key ? p.descale_k : p.descale_v;
    const int64_t head = index % p.heads_kv;
    const int64_t row = index / p.heads_kv % p.rows_new;
    const int64_t batch = index / p.heads_kv / p.rows_new;
    vector x;
    x.position = position_of(p, batch, row);
    if (!is_there(p, x.position, p.capacity)) {
        return;
    }
    x.from = from.data;
    x.to = cache.data;
    x.from_first = offset(from, batch, row, head);
    x.to_first = cache_offset(p, cache, batch, x.position, head);
    x.from_dtype = p.new_dtype;
    x.to_dtype = p.cache_dtype;
    x.length = is_key ? p.head_dim : p.head_dim_v;
    x.rotary_dim = is_key ? p.rotary_dim : 0;
    x.descale = descale.data == nullptr
                    ? 1.0f
                    : static_cast<const float *>(descale.data)[offset(descale, batch, head, x.position / 128)];
    move(p, x);
}

__device__ void rotate_q(const attune_cuda_append_params &p, int64_t index) {
    const int64_t head = index % p.heads_q;
    const int64_t row = index / p.heads_q % p.rows_q;
    const int64_t batch = index / p.heads_q / p.rows_q;
    vector x;
    x.position = position_of(p, batch, row);
    if (!is_there(p, x.position, INT64_MAX)) {
        return;
    }
    x.from = p.q.data;
    x.to = p.q_out.data;
    x.from_first = offset(p.q, batch, row, head);
    x.to_first = offset(p.q_out, batch, row, head);
    x.from_dtype = x.to_dtype = p.q_dtype;
    x.length = p.head_dim;
    x.rotary_dim = p.rotary_dim;
    x.descale = 1.0f;
    move(p, x);
}

} // namespace

/* Work-groups go round, so that any number of vectors fits a launch. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_append_params p) {
    const int64_t vectors_new = p.batch * p.rows_new * p.heads_kv;
    const int64_t vectors = 2 * vectors_new + p.batch * p.rows_q * p.heads_q;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / LANES;
    for (int64_t index = first; index < vectors; index += static_cast<int64_t>(gridDim.x) * WARPS) {
        if (index < 2 * vectors_new) {
            append_vector(p, index % vectors_new, index < vectors_new);
        } else {
            rotate_q(p, index - 2 * vectors_new);
        }
    }
}
