/*
 * Few rows and many keys on Hopper: what counts is how fast K and V come. A row of kernels.def for f16 and bf16, each
 * of the head sizes 64, 128 and 256, and multiples of 8 below; and for up to 8, 16 and 32 packed rows to a tile.
 *
 * One work-group to a multiprocessor, whose shared memory is a ring of stages of K and V. One warp keeps the copy
 * engine busy, across tiles; the others take blocks of a stage in turn, and meet only at the end of a tile.
 *
 * Split-KV: Dao, Flash-Decoding (2023). The parts are merged by sm80/merge_splits_row.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/dependent.h"
#include "backends/cuda/sm90/decode_leave.h"
#include "backends/cuda/sm90/decode_load.h"

namespace {

INLINE void load_tiles(const attune_sm90_decode_params &p) {
    loader loads(p);
    for (unsigned number = blockIdx.x; number < p.decode.tiles; number += gridDim.x) {
        tile in;
        if (find_tile<TILE_ROWS, TILE_KEYS>(p.decode, number, &in)) {
            loads.load_tile(in);
            loads.lend_stage();
        }
    }
}

/* One lane of one warp of a group, in one split, brings a row's sink. */
INLINE void begin_state(const attune_cuda_decode_params &p, const tile &in, const tile_row &own, warp_state *state) {
    const attune_cuda_operand &sink = p.forward.sink;
    const bool brings_sink = sink.data != nullptr && in.split == 0 && threadIdx.x / LANES % GROUP_WARPS == 0;
    attune_softmax first = attune_softmax_empty();
    if (brings_sink && own.is_there) {
        first = attune_softmax_from_logit(static_cast<const float *>(sink.data)[own.head * sink.stride[0]]);
    }
    *state = {};
#pragma unroll
    for (int n = 0; n < OCTETS; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int from = first_row_of_warp() + 8 * n + 2 * static_cast<int>(threadIdx.x % 4) + e;
            const float sum = __shfl_sync(ALL_LANES, first.sum, from);
            state->reference[n][e] = __shfl_sync(ALL_LANES, first.max, from);
            state->sum[n][e] = threadIdx.x % LANES < 4 ? sum * (1 << HEADROOM) : 0.0f;
        }
    }
}

INLINE void consume_block(const attune_cuda_decode_params &p, const tile &in, const tile_row &own, const q_fragments &q,
                          uint32_t k_block, int first, warp_state *state) {
    scores s;
    score_block(k_block, q, s);
    if (in.is_plain && first >= in.all_begin && first + BLOCK <= in.all_end) {
        finish_scores(p.forward.scale, s);
        weigh(s, state);
        add_values<true>(k_block + K_BYTES, in, first, s, state);
    } else {
        finish_any_scores(p, in, own, first, s);
        weigh(s, state);
        add_values<false>(k_block + K_BYTES, in, first, s, state);
    }
}

INLINE void consume_tile(const attune_cuda_decode_params &p, const tile &in, ring<STAGES> begin) {
    const int warp = threadIdx.x / LANES % GROUP_WARPS; /* of the group */
    const tile_row own = find_row(p, in, threadIdx.x % LANES % TILE_ROWS);
    q_fragments q;
    if (Q_IS_SHARED) {
        load_q_shared(p, in);
        sync_consumers();
    } else {
        load_q_registers(p, in, own, &q);
    }
    warp_state state;
    begin_state(p, in, own, &state);
    const int in_stage = warp % STAGE_WARPS * BLOCK;
    const int stages = count_stages(in);
#pragma unroll 1
    for (int i = (warp / STAGE_WARPS + TURN - begin.count % TURN) % TURN; i < stages; i += TURN) {
        const ring<STAGES> at = {begin.count + i};
        const int first = first_stage_key(in) + i * TILE_KEYS + in_stage;
        mbarrier_wait(barrier_address(FULL, at.buffer()), at.parity());
        if (first < in.end && first + BLOCK > in.begin) {
            const uint32_t k_block = shared_address(at.buffer() * STAGE_BYTES) + in_stage * PANEL_BYTES;
            consume_block(p, in, own, q, k_block, first, &state);
        }
        __syncwarp();
        if (threadIdx.x % LANES == 0) {
            mbarrier_arrive(barrier_address(EMPTY, at.buffer()));
        }
    }
    const ring<STAGES> lent = {begin.count + stages};
    sync_consumers(); /* each stage before it is full */
    mbarrier_wait(barrier_address(FULL, lent.buffer()), lent.parity());
    leave_tile(p, in, own, state, shared + lent.buffer() * STAGE_BYTES);
    if (threadIdx.x % LANES == 0 && warp < STAGE_WARPS) { /* as many as read it */
        mbarrier_arrive(barrier_address(EMPTY, lent.buffer()));
    }
}

INLINE void consume_tiles(const attune_cuda_decode_params &p) {
    ring<STAGES> stages;
    for (unsigned number = blockIdx.x; number < p.tiles; number += gridDim.x) {
        tile in;
        if (find_tile<TILE_ROWS, TILE_KEYS>(p, number, &in)) {
            consume_tile(p, in, stages);
            stages.count += count_stages(in) + 1;
        }
    }
}

} // namespace

extern "C" __global__ void __launch_bounds__((WARPS + 1) * LANES, 1)
    ATTUNE_SYMBOL(const __grid_constant__ attune_sm90_decode_params p) {
    if (threadIdx.x == 0) {
        barriers_init();
    }
    __syncthreads();
    let_next_launch_begin();
    if (threadIdx.x / LANES == WARPS) {
        load_tiles(p);
    } else {
        consume_tiles(p.decode);
    }
}
