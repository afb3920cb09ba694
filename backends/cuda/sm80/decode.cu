/*
 * Few rows and many keys: what counts is how fast K and V come. For f16 and bf16; a row of kernels.def for each of the
 * head sizes 64, 128 and 256, and multiples of 8 below.
 *
 * A work-group has 16 rows, the query heads of a group packed, and a part of the keys (a split). Its four warps take
 * blocks of 16 keys in turn, each with a softmax state and an O of its own, and meet only at the end. So a lane waits
 * for nothing but its own copies: it copies to shared memory exactly the bytes that its fragments are made of, STAGES
 * - 1 blocks ahead, and no barrier is needed.
 *
 * For that, the order of what is summed or spread is bent to 16 contiguous bytes a lane (g = lane / 4, t = lane % 4):
 *   S = Q K^T   of each 32 columns d lane t has 8 t to 8 t + 7, in Q as in K: two products' k.
 *   O = P V     of each 64 columns d lane g has 8 g to 8 g + 7, which are column g of eight products.
 *
 * Split-KV: Dao, Flash-Decoding (2023). The parts are merged by merge_splits_row.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/decode_tile.h"

#include <cstring>

#include "backends/cuda/sm80/dependent.h"
#include "backends/cuda/sm80/mma.h"
#include "backends/cuda/sm80/warp.h"
#include "core/portable/softmax.h"

namespace {

/* ---- The row's columns ---- */

#define ATTUNE_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,          \
                   tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, storage)               \
    struct columns_of_attune_##name {                                                                                  \
        static constexpr int HEAD_DIM = head_dim, STAGES = stages, THREADS = threads, SHARED_BYTES = shared;           \
        static constexpr int TILE_ROWS = tile_rows, TILE_KEYS = tile_keys, P_DTYPE = ATTUNE_DTYPE_##p_dtype;           \
    };
#include "backends/cuda/kernels.def"
#undef ATTUNE_ROW

#define JOIN_OF(a, b) a##b
#define JOIN(a, b)    JOIN_OF(a, b)
using columns = JOIN(columns_of_, ATTUNE_SYMBOL);
using storage = ATTUNE_STORAGE;

constexpr int HEAD_DIM = columns::HEAD_DIM; /* of q, k, v and o at most */
constexpr int STAGES = columns::STAGES;

/* Weights and their sum are 2^HEADROOM times what they are until they leave registers. f16 loses up to 2^-25 of a
 * weight, which tells where the values of the heavy keys are close to 0; bf16 has f32's range. */
constexpr int HEADROOM = columns::P_DTYPE == ATTUNE_DTYPE_F16 ? 11 : 0;

constexpr int WARPS = 4;
constexpr int ROWS = 16;
constexpr int BLOCK = 16; /* keys of a warp at a time */
constexpr int KEYS = WARPS * BLOCK;
static_assert(columns::THREADS == WARPS * LANES && columns::TILE_ROWS == ROWS && columns::TILE_KEYS == KEYS);

/* Sixteen bytes of each lane: of a block's K, its halves of eight keys by 32 columns; of V, the keys 2 t, 2 t + 1,
 * 2 t + 8 and 2 t + 9 by 64 columns. */
constexpr int K_CHUNKS = HEAD_DIM / 32;
constexpr int V_CHUNKS = HEAD_DIM / 64;
constexpr int K_SLOTS = 2 * K_CHUNKS;
constexpr int SLOTS = K_SLOTS + 4 * V_CHUNKS;
constexpr int RING_SLOTS = WARPS * STAGES * SLOTS;
constexpr int SLOT_BYTES = LANES * 16;

/* Q does not fit the registers beside the widest O. */
constexpr bool Q_IS_SHARED = HEAD_DIM > 128;
constexpr int Q_SLOTS = Q_IS_SHARED ? 2 * K_CHUNKS : 0;
static_assert((RING_SLOTS + Q_SLOTS) * SLOT_BYTES == columns::SHARED_BYTES, "shared memory as declared");
static_assert(WARPS * ROWS * (HEAD_DIM + 2) * 4 <= columns::SHARED_BYTES, "at the end it holds the warps' O");

/* ---- Q ---- */

/* Q's fragments of 32 columns: rows g and g + 8. */
struct q_chunk {
    uint4 upper, lower;
};

__device__ uint4 load_q(const attune_cuda_decode_params &p, const tile &in, const tile_row &row, int column) {
    const attune_cuda_operand &q = p.forward.q;
    if (!row.is_there || column >= p.forward.head_dim) {
        return make_uint4(0, 0, 0, 0);
    }
    const storage *from =
        static_cast<const storage *>(q.data) + offset(q, in.batch, in.row_begin + row.row, row.head, column);
    return *reinterpret_cast<const uint4 *>(from);
}

__device__ q_chunk load_q_chunk(const attune_cuda_decode_params &p, const tile &in, const tile_row (&row)[2], int c) {
    const int column = 32 * c + 8 * static_cast<int>(threadIdx.x % 4);
    return {load_q(p, in, row[0], column), load_q(p, in, row[1], column)};
}

/* ---- K and V ---- */

/* Where the elements of the kv head are, and those of this lane. */
template <int LANE_KEYS> struct cache {
    const storage *first; /* of key 0, or of page 0 */
    int64_t stride;       /* from key to key */
    int64_t page_stride;
    const int32_t *table; /* of this sequence; NULL: not paged */
    int64_t table_stride;
    unsigned page_size;
    int head_dim;
    int column;              /* of this lane */
    int lane_key[LANE_KEYS]; /* its keys in a block, and their elements from the first of the block on */
    int64_t lane_offset[LANE_KEYS];
};

using k_cache = cache<2>;
using v_cache = cache<4>;

template <int LANE_KEYS>
__device__ cache<LANE_KEYS> find_cache(const attune_cuda_forward_params &p, const attune_cuda_operand &kv,
                                       const tile &in, const int (&lane_key)[LANE_KEYS], int column, int head_dim) {
    cache<LANE_KEYS> found;
    const bool is_paged = p.page_size != 0;
    found.first = static_cast<const storage *>(kv.data) + (is_paged ? 0 : in.batch * kv.stride[0]) +
                  in.key_begin * kv.stride[1] + in.kv_head * kv.stride[2];
    found.stride = kv.stride[1];
    found.page_stride = kv.stride[0];
    found.table =
        is_paged ? static_cast<const int32_t *>(p.block_table.data) + in.batch * p.block_table.stride[0] : nullptr;
    found.table_stride = p.block_table.stride[1];
    found.page_size = static_cast<unsigned>(p.page_size);
    found.head_dim = head_dim;
    found.column = column;
#pragma unroll
    for (int n = 0; n < LANE_KEYS; n++) {
        found.lane_key[n] = lane_key[n];
        found.lane_offset[n] = lane_key[n] * kv.stride[1] + column;
    }
    return found;
}

template <int LANE_KEYS> __device__ __forceinline__ const storage *find_key(const cache<LANE_KEYS> &from, int key) {
    if (from.table == nullptr) {
        return from.first + key * from.stride;
    }
    const unsigned column = static_cast<unsigned>(key) / from.page_size;
    const int64_t page = from.table[column * from.table_stride];
    return from.first + page * from.page_stride + (key - column * from.page_size) * from.stride;
}

/* Starts copying what the lane has of a block, whose keys lie one after the other and are all wanted: chunks of
 * CHUNK columns. */
template <int CHUNKS, int CHUNK, int LANE_KEYS>
__device__ __forceinline__ void fetch_whole(const cache<LANE_KEYS> &from, int first, shared_address to) {
    const storage *block = find_key(from, first);
#pragma unroll
    for (int n = 0; n < LANE_KEYS; n++) {
        const storage *key = block + from.lane_offset[n];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            copy_16(to + (n * CHUNKS + c) * SLOT_BYTES, key + c * CHUNK);
        }
    }
}

/* The same of any block: zeros for keys outside of the split, and columns outside of the head. */
template <int CHUNKS, int CHUNK, int LANE_KEYS>
__device__ void fetch_part(const tile &in, const cache<LANE_KEYS> &from, int first, shared_address to) {
#pragma unroll
    for (int n = 0; n < LANE_KEYS; n++) {
        const int key = first + from.lane_key[n];
        const bool is_there = key >= in.begin && key < in.end;
        const storage *at = is_there ? find_key(from, key) : from.first;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int column = c * CHUNK + from.column;
            copy_16_or_0(to + (n * CHUNKS + c) * SLOT_BYTES, at + column, is_there && column < from.head_dim);
        }
    }
}

/* blocks_lie_whole: in one page, and with heads of all columns. */
__device__ __forceinline__ void fetch(const tile &in, bool blocks_lie_whole, const k_cache &k, const v_cache &v,
                                      int first, shared_address to) {
    if (blocks_lie_whole && first >= in.begin && first + BLOCK <= in.end) {
        fetch_whole<K_CHUNKS, 32>(k, first, to);
        fetch_whole<V_CHUNKS, 64>(v, first, to + K_SLOTS * SLOT_BYTES);
    } else {
        fetch_part<K_CHUNKS, 32>(in, k, first, to);
        fetch_part<V_CHUNKS, 64>(in, v, first, to + K_SLOTS * SLOT_BYTES);
    }
}

/* ---- A block ---- */

/* What a warp has of its rows: O in the order of the products, and for the lane's two rows the softmax state, its sum
 * over the lane's own keys only. */
struct warp_state {
    float o[V_CHUNKS][8][4];
    attune_softmax row[2];
};

/* q . k of the lane's two rows and, of each half of the block, the keys 2 t and 2 t + 1. In two sums each, which need
 * not wait for each other. */
__device__ __forceinline__ void score_block(const uint4 *slots, const q_chunk (&q)[Q_IS_SHARED ? 1 : K_CHUNKS],
                                            const uint4 *shared_q, float (&s)[2][4]) {
    float sums[2][2][4] = {};
#pragma unroll
    for (int c = 0; c < K_CHUNKS; c++) {
        const q_chunk rows =
            Q_IS_SHARED ? q_chunk{shared_q[2 * c * LANES], shared_q[(2 * c + 1) * LANES]} : q[Q_IS_SHARED ? 0 : c];
        const uint32_t first[4] = {rows.upper.x, rows.lower.x, rows.upper.y, rows.lower.y};
        const uint32_t second[4] = {rows.upper.z, rows.lower.z, rows.upper.w, rows.lower.w};
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint4 k = slots[(half * K_CHUNKS + c) * LANES];
            multiply(sums[half][0], first, k.x, k.y, storage{});
            multiply(sums[half][1], second, k.z, k.w, storage{});
        }
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[half][e] = sums[half][0][e] + sums[half][1][e];
        }
    }
}

__device__ void finish_any_scores(const attune_cuda_decode_params &p, const tile &in, const tile_row (&row)[2],
                                  int first, float (&s)[2][4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int key = first + 8 * half + 2 * static_cast<int>(threadIdx.x % 4) + e % 2;
            const tile_row &of = row[e / 2];
            const bool is_seen = key >= of.begin && key < of.end;
            s[half][e] = is_seen ? finish_score(p, in, of.row, of.slope, key, s[half][e]) : -ATTUNE_INFINITY;
        }
    }
}

__device__ __forceinline__ void finish_scores(const attune_cuda_decode_params &p, const tile &in,
                                              const tile_row (&row)[2], int first, float (&s)[2][4]) {
    if (!in.is_plain || first < in.all_begin || first + BLOCK > in.all_end) {
        finish_any_scores(p, in, row, first, s);
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            s[half][e] *= p.forward.scale;
        }
    }
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 1));
    return fmaxf(x, __shfl_xor_sync(ALL_LANES, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(ALL_LANES, x, 1);
    return x + __shfl_xor_sync(ALL_LANES, x, 2);
}

/* As attune_softmax_weight, times 2^octaves; what it flushes is nothing beside a sum of 1 and more. */
__device__ __forceinline__ float weight_of(float score, float base, float octaves) {
    return exp2_flushed(fmaf(score - base, ATTUNE_LOG2_E, octaves));
}

/* Turns scores to weights, and raises O and the states to the new maxima. */
__device__ __forceinline__ void update(warp_state *state, float (&s)[2][4]) {
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        attune_softmax *row = &state->row[r];
        const float largest = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));
        const float raised = fmaxf(row->max, quad_max(largest));
        const float base = attune_softmax_base(raised);
        factor[r] = weight_of(row->max, base, 0.0f);
        row->max = raised;
#pragma unroll
        for (int half = 0; half < 2; half++) {
            s[half][2 * r] = weight_of(s[half][2 * r], base, HEADROOM);
            s[half][2 * r + 1] = weight_of(s[half][2 * r + 1], base, HEADROOM);
        }
        row->sum = row->sum * factor[r] + (s[0][2 * r] + s[0][2 * r + 1]) + (s[1][2 * r] + s[1][2 * r + 1]);
    }
    if (any_lane(factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int c = 0; c < V_CHUNKS; c++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    state->o[c][j][e] *= factor[e / 2];
                }
            }
        }
    }
}

template <typename T> __device__ __forceinline__ uint32_t bits_of(const T &x) {
    uint32_t bits;
    static_assert(sizeof bits == sizeof x, "a word");
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

[[maybe_unused]] __device__ __forceinline__ uint32_t pack(float low, float high, f16) {
    return bits_of(__floats2half2_rn(low, high));
}
[[maybe_unused]] __device__ __forceinline__ uint32_t pack(float low, float high, bf16) {
    return bits_of(__floats2bfloat162_rn(low, high));
}

/* O += P V. */
__device__ __forceinline__ void add_values(const uint4 *slots, const float (&s)[2][4], warp_state *state) {
    const uint32_t p[4] = {pack(s[0][0], s[0][1], storage{}), pack(s[0][2], s[0][3], storage{}),
                           pack(s[1][0], s[1][1], storage{}), pack(s[1][2], s[1][3], storage{})};
#pragma unroll
    for (int c = 0; c < V_CHUNKS; c++) {
        uint32_t v[4][4]; /* of four keys, eight columns in pairs */
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const uint4 loaded = slots[(K_SLOTS + n * V_CHUNKS + c) * LANES];
            v[n][0] = loaded.x;
            v[n][1] = loaded.y;
            v[n][2] = loaded.z;
            v[n][3] = loaded.w;
        }
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            multiply(state->o[c][2 * pair], p, lower_halves(v[0][pair], v[1][pair]),
                     lower_halves(v[2][pair], v[3][pair]), storage{});
            multiply(state->o[c][2 * pair + 1], p, upper_halves(v[0][pair], v[1][pair]),
                     upper_halves(v[2][pair], v[3][pair]), storage{});
        }
    }
}

/* ---- Epilogue ---- */

/* All warps' O and states, without headroom, where the ring was. */
__device__ void share_state(warp_state *state, float *all_o, attune_softmax *all_rows) {
    const int warp = threadIdx.x / LANES;
    const int g = threadIdx.x % LANES / 4;
    const int t = threadIdx.x % 4;
    constexpr float scale = 1.0f / (1 << HEADROOM);
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = warp * ROWS + g + 8 * r;
        state->row[r].sum = quad_sum(state->row[r].sum) * scale;
        if (t == 0) {
            all_rows[row] = state->row[r];
        }
#pragma unroll
        for (int c = 0; c < V_CHUNKS; c++) {
#pragma unroll
            for (int j = 0; j < 8; j++) {
                all_o[row * HEAD_DIM + 64 * c + 16 * t + j] = state->o[c][j][2 * r] * scale;
                all_o[row * HEAD_DIM + 64 * c + 16 * t + 8 + j] = state->o[c][j][2 * r + 1] * scale;
            }
        }
    }
}

/* Eight threads have a row. */
__device__ void write_row(const attune_cuda_decode_params &p, const tile &in, const float *all_o,
                          const attune_softmax *all_rows) {
    const int r = threadIdx.x / 8;
    const tile_row row = find_row(p, in, r);
    if (!row.is_there) {
        return;
    }
    attune_softmax whole = attune_softmax_empty();
    for (int warp = 0; warp < WARPS; warp++) {
        whole.max = fmaxf(whole.max, all_rows[warp * ROWS + r].max);
    }
    float factor[WARPS];
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
        const attune_softmax &part = all_rows[warp * ROWS + r];
        factor[warp] = attune_softmax_weight(part.max, attune_softmax_base(whole.max));
        whole.sum += part.sum * factor[warp];
    }
    const attune_softmax_result result = attune_softmax_finish(whole);
    for (int column = threadIdx.x % 8; column < p.forward.head_dim_v; column += 8) {
        float sum = 0.0f;
#pragma unroll
        for (int warp = 0; warp < WARPS; warp++) {
            sum = fmaf(all_o[(warp * ROWS + r) * HEAD_DIM + column], factor[warp], sum);
        }
        if (p.splits > 1) {
            p.partial_o[partial_row(p, in, row.row, row.head) * p.forward.head_dim_v + column] = sum;
        } else {
            const attune_cuda_operand &o = p.forward.o;
            store_as(o.data, offset(o, in.batch, in.row_begin + row.row, row.head, column), p.forward.o_dtype,
                     sum * result.inverse);
        }
    }
    if (threadIdx.x % 8 != 0) {
        return;
    }
    if (p.splits > 1) {
        p.partial_max[partial_row(p, in, row.row, row.head)] = whole.max;
        p.partial_sum[partial_row(p, in, row.row, row.head)] = whole.sum;
    } else {
        write_lse(p, in, row.row, row.head, result.lse);
    }
}

/* ---- A tile ---- */

__device__ attune_softmax first_state(const attune_cuda_decode_params &p, const tile &in, const tile_row &row) {
    const attune_cuda_operand &sink = p.forward.sink;
    /* One lane of one warp of one split brings it. */
    const bool brings_sink = sink.data != nullptr && in.split == 0 && threadIdx.x < LANES && row.is_there;
    if (!brings_sink) {
        return attune_softmax_empty();
    }
    attune_softmax state = attune_softmax_from_logit(static_cast<const float *>(sink.data)[row.head * sink.stride[0]]);
    state.sum = threadIdx.x % 4 == 0 ? state.sum * (1 << HEADROOM) : 0.0f;
    return state;
}

__device__ void run_tile(const attune_cuda_decode_params &p, const tile &in, bool blocks_lie_whole, uint4 *shared) {
    const int lane = threadIdx.x % LANES;
    const int warp = threadIdx.x / LANES;
    const int g = lane / 4;
    const int t = lane % 4;
    const tile_row row[2] = {find_row(p, in, g), find_row(p, in, g + 8)};
    const k_cache k = find_cache(p.forward, p.forward.k, in, {g, g + 8}, 8 * t, p.forward.head_dim);
    const v_cache v =
        find_cache(p.forward, p.forward.v, in, {2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9}, 8 * g, p.forward.head_dim_v);
    uint4 *ring = shared + warp * STAGES * SLOTS * LANES + lane;
    uint4 *shared_q = shared + RING_SLOTS * LANES + lane;
    const shared_address ring_address = address_of(ring);
    int first = in.begin / KEYS * KEYS + warp * BLOCK;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; stage++) {
        fetch(in, blocks_lie_whole, k, v, first + stage * KEYS, ring_address + stage * SLOTS * SLOT_BYTES);
        commit_copies();
    }
    q_chunk q[Q_IS_SHARED ? 1 : K_CHUNKS];
#pragma unroll
    for (int c = 0; c < K_CHUNKS; c++) {
        const q_chunk chunk = load_q_chunk(p, in, row, c);
        if (!Q_IS_SHARED) {
            q[Q_IS_SHARED ? 0 : c] = chunk;
        } else if (warp == 0) {
            shared_q[2 * c * LANES] = chunk.upper;
            shared_q[(2 * c + 1) * LANES] = chunk.lower;
        }
    }
    if (Q_IS_SHARED) {
        __syncthreads();
    }
    warp_state state = {{}, {first_state(p, in, row[0]), first_state(p, in, row[1])}};
    int stage = 0;
    for (; first < in.end; first += KEYS) {
        const uint4 *block = ring + stage * SLOTS * LANES;
        const int next = stage == 0 ? STAGES - 1 : stage - 1; /* the last block's, which is done with */
        wait_for_copies<STAGES - 2>();
        float s[2][4];
        score_block(block, q, shared_q, s);
        fetch(in, blocks_lie_whole, k, v, first + (STAGES - 1) * KEYS, ring_address + next * SLOTS * SLOT_BYTES);
        commit_copies();
        finish_scores(p, in, row, first, s);
        update(&state, s);
        add_values(block, s, &state);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    wait_for_copies<0>();
    __syncthreads(); /* no warp reads its ring or Q any more */
    float *all_o = reinterpret_cast<float *>(shared);
    attune_softmax *all_rows = reinterpret_cast<attune_softmax *>(all_o + WARPS * ROWS * HEAD_DIM);
    share_state(&state, all_o, all_rows);
    __syncthreads();
    write_row(p, in, all_o, all_rows);
}

} // namespace

/* Work-groups go round, so that any number of tiles fits a launch. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES, HEAD_DIM > 128 ? 1 : 2)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_decode_params p) {
    extern __shared__ float4 shared_memory[];
    let_next_launch_begin();
    const attune_cuda_forward_params &f = p.forward;
    const bool blocks_lie_whole = f.page_size % BLOCK == 0 && f.head_dim == HEAD_DIM && f.head_dim_v == HEAD_DIM;
    for (unsigned number = blockIdx.x; number < p.tiles; number += gridDim.x) {
        tile in;
        if (find_tile<ROWS, KEYS>(p, number, &in)) {
            run_tile(p, in, blocks_lie_whole, reinterpret_cast<uint4 *>(shared_memory));
        }
        __syncthreads();
    }
}
