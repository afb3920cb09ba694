/*
 * How O and LSE leave: O through shared memory and then by the copy engine, for which it has a warp, or straight from
 * registers where that engine would write too much or another type.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_STORE_H
#define ATTUNE_CUDA_SM90_STORE_H

#include "backends/cuda/sm90/copy.h"
#include "backends/cuda/sm90/schedule.h"
#include "backends/cuda/sm90/softmax.h"

namespace {

constexpr int OUTPUTS = HEAD_DIM_V / 2; /* of a thread, laid out as its scores are */

/* ---- By the copy engine ---- */

/* O as elements to the warpgroup's rows, in the copy engine's swizzle: 16-byte chunk c of row r lies at c ^ r % 8. */
INLINE void stage_output(uint32_t rows, int thread, const float (&output)[OUTPUTS]) {
    const int lane = thread % LANES;
    const int row = thread / LANES * 16 + lane % 16;
#pragma unroll
    for (int k = 0; k < HEAD_DIM_V / 16; k++) {
        const int chunk = (k % 4 * 2 + lane / 16) ^ (row % 8);
        store_matrices(
            rows + k / 4 * O_PANEL_ROWS * PANEL_BYTES + row * PANEL_BYTES + chunk * 16,
            pack_elements(output[8 * k], output[8 * k + 1]), pack_elements(output[8 * k + 2], output[8 * k + 3]),
            pack_elements(output[8 * k + 4], output[8 * k + 5]), pack_elements(output[8 * k + 6], output[8 * k + 7]));
    }
}

/* By one thread. */
INLINE void store_staged_output(const attune_sm90_forward_params &p, const tile &at, int warpgroup, uint32_t rows) {
    const int row = at.row + warpgroup * WARPGROUP_ROWS;
    if (row < rows_end_of(p, at)) {
        for (int panel = 0; panel < PANELS_V; panel++) {
            store_box(p.o, rows + panel * O_PANEL_ROWS * PANEL_BYTES, panel * PANEL, (GENERAL ? at.row_begin : 0) + row,
                      at.head, at.batch * p.o_step.batch);
        }
    }
    store_commit();
}

/* Where a warpgroup leaves O of the tile in a slot: in its rows of Q, which its last S has read, or in O's buffer. */
INLINE uint32_t output_rows(int slot, int warpgroup) {
    return O_APART ? shared_address(O_OFFSET) : q_rows(slot, warpgroup);
}

/* A warp of its own that stores what warpgroups leave: all at once, and gives Q's buffer on, or if they have O's buffer
 * in turn, from one to the next. */
struct storer {
    const attune_sm90_forward_params &p;
    const bool leads;
    ring<TILE_SLOTS> tiles;
    ring<Q_BUFFERS> left; /* what was left to it */

    INLINE explicit storer(const attune_sm90_forward_params &params) : p(params), leads(threadIdx.x % LANES == 0) {
    }

    INLINE void wait_staged() {
        mbarrier_wait(barrier_address(O_STAGED, left.buffer()), left.parity());
        left.count++;
    }

    INLINE bool is_stored_already(const tile &at, int warpgroup) const {
        if constexpr (SPLITS) {
            if (state_in_slot(tiles.buffer()) != NO_STATE) {
                return true;
            }
        }
        return is_stored_directly(p, at, warpgroup);
    }

    INLINE void store(const tile &at, int warpgroup) {
        if (leads && !is_stored_already(at, warpgroup)) {
            store_staged_output(p, at, warpgroup, output_rows(tiles.buffer(), warpgroup));
        }
    }

    INLINE void give_on(uint32_t barrier) {
        if (leads) {
            store_wait_read();
            mbarrier_arrive(barrier);
        }
    }

    INLINE void store_in_turn(const tile &at) {
        for (int warpgroup = 0; warpgroup < CONSUMERS; warpgroup++) {
            wait_staged();
            store(at, warpgroup);
            give_on(barrier_address(O_FREE, (warpgroup + 1) % CONSUMERS));
        }
    }

    INLINE void store_all(const tile &at) {
        wait_staged();
        for (int warpgroup = 0; warpgroup < CONSUMERS; warpgroup++) {
            store(at, warpgroup);
        }
        give_on(barrier_address(Q_EMPTY, tiles.buffer() % Q_BUFFERS));
    }

    INLINE void run() {
        while (true) {
            mbarrier_wait(barrier_address(TILE_FOUND, tiles.buffer()), tiles.parity());
            const tile &at = tile_in_slot(tiles.buffer());
            if (at.row == NO_TILE) {
                break;
            }
            if constexpr (O_APART) {
                store_in_turn(at);
            } else {
                store_all(at);
            }
            tiles.count++;
        }
        if (leads) {
            store_wait();
        }
    }
};

/* ---- From registers ---- */

/* Row of this thread's two in the general kernel's terms. */
struct output_row {
    bool exists;
    int place, head; /* place: along axis s, from the sequence's start */
};

INLINE output_row find_output_row(const attune_sm90_forward_params &p, const tile &at, int row) {
    const bool exists = row < rows_end_of(p, at);
    if (GENERAL && p.pack > 1) {
        const int place = row / p.pack;
        return {exists, place, at.head * p.pack + row - place * p.pack};
    }
    return {exists, row, at.head};
}

INLINE int64_t element_offset(const attune_sm90_operand &operand, int64_t i0, int64_t i1, int64_t i2) {
    return i0 * operand.stride[0] + i1 * operand.stride[1] + i2 * operand.stride[2];
}

/* Where a row of O begins. */
INLINE int64_t output_offset(const attune_sm90_forward_params &p, const tile &at, const output_row &row) {
    return element_offset(p.direct_o, at.batch, (GENERAL ? at.row_begin : 0) + row.place, row.head);
}

/* Two columns of the row that begins at an offset. */
INLINE void store_output_pair(const attune_sm90_forward_params &p, int64_t first, int column, float low, float high) {
    if (GENERAL && p.o_is_f32 != 0) {
        *reinterpret_cast<float2 *>(static_cast<float *>(p.direct_o.data) + first + column) = {low, high};
    } else {
        *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(p.direct_o.data) + first + column) =
            pack_elements(low, high);
    }
}

/* One row of O; a thread has two columns of every eight. */
INLINE void store_output_row(const attune_sm90_forward_params &p, const tile &at, const output_row &row, int which,
                             const float (&output)[OUTPUTS]) {
    const int64_t first = output_offset(p, at, row);
    const int column_of_lane = threadIdx.x % 4 * 2;
#pragma unroll
    for (int j = 0; j < HEAD_DIM_V / 8; j++) {
        const int column = 8 * j + column_of_lane;
        if (column < p.head_dim_v) {
            store_output_pair(p, first, column, output[4 * j + 2 * which], output[4 * j + 2 * which + 1]);
        }
    }
}

/* ---- LSE ---- */

constexpr float LN_2 = 0.693147180559945309417f;

struct finished_row {
    float factor; /* by which O is multiplied */
    float lse;
};

/* As attune_softmax_finish, but that a division is a subroutine, and so the end of what the products run under. The
 * sink joins only here, so that P is relative to the scores however large it is. */
INLINE finished_row finish_row(const attune_sm90_forward_params &p, float reference, float sum, int head) {
    attune_softmax state;
    state.max = reference * LN_2;
    state.sum = sum;
    float factor = 1.0f;
    if (p.sink.data != nullptr) {
        const float logit = static_cast<const float *>(p.sink.data)[head * p.sink.stride[0]];
        const attune_softmax_merged merged = attune_softmax_merge(state, attune_softmax_from_logit(logit));
        state = merged.state;
        factor = merged.factor_a;
    }
    const bool empty = state.sum == 0.0f;
    const float inverse = empty ? 0.0f : reciprocal_fast(state.sum);
    const float lse = empty ? -ATTUNE_INFINITY : state.max + attune_logf(state.sum);
    return {factor * inverse, lse};
}

/* By one lane of each row. */
INLINE void store_lse(const attune_sm90_forward_params &p, const tile &at, const output_row &row, float lse) {
    if (p.lse.data != nullptr && row.exists && threadIdx.x % 4 < 2) {
        const int row_begin = GENERAL ? at.row_begin : 0;
        static_cast<float *>(p.lse.data)[element_offset(p.lse, at.batch, row.head, row_begin + row.place)] = lse;
    }
}

} // namespace

#endif
