/*
 * A row of the Hopper decode: what its warps do, and the shared memory that follows from its columns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_DECODE_ROW_H
#define ATTUNE_CUDA_SM90_DECODE_ROW_H

#include "backends/cuda/sm90/barrier.h"
#include "backends/cuda/sm90/decode.h"

namespace {

/* The last warp copies. The others, in groups of 16 rows of the tile, or all 8, take blocks of keys in turn, each with
 * a softmax state and an O of its own. A warp reads the same stages of the ring in every round: of a barrier that it
 * did not wait for at each turn it could not tell one turn from the next but one. */
constexpr int WARPS = columns::THREADS / LANES - 1;
constexpr int CONSUMERS = WARPS * LANES;
constexpr int WARP_ROWS = TILE_ROWS < 16 ? TILE_ROWS : 16;
constexpr int GROUPS = TILE_ROWS / WARP_ROWS;
constexpr int GROUP_WARPS = WARPS / GROUPS;
constexpr int BLOCK = WARP_ROWS == 8 ? 32 : 16; /* keys of a warp at a time: of few rows more, as products of which need
                                                   not wait for each other */
constexpr int BLOCK_TILES = BLOCK / 16;
constexpr int STAGE_WARPS = TILE_KEYS / BLOCK;  /* of a group, that read a stage */
constexpr int TURN = GROUP_WARPS / STAGE_WARPS; /* stages from one of a warp's to its next */
static_assert(GROUPS * WARP_ROWS == TILE_ROWS && GROUPS * GROUP_WARPS == WARPS, "the same warps for all rows");
static_assert(STAGE_WARPS * BLOCK == TILE_KEYS && TURN * STAGE_WARPS == GROUP_WARPS, "a warp's block, or several");
static_assert(STAGES % TURN == 0, "a round of the ring is several of the warps");

/* Rows of q by the eight are the columns of a product, whose rows are keys or columns of v by the sixteen. */
constexpr int OCTETS = WARP_ROWS / 8;
constexpr int DEPTHS = HEAD_DIM / 16;
static_assert(HEAD_DIM == HEAD_DIM_V && HEAD_DIM % PANEL == 0, "heads of whole panels");

/* Weights and their sum are 2^HEADROOM times what they are until they leave registers. f16 loses up to 2^-25 of a
 * weight, which tells where the values of the heavy keys are close to 0; bf16 has f32's range. */
constexpr int HEADROOM = IS_F16 ? 11 : 0;
/* A row's scores may be so many octaves above what they are taken relative to, before that is raised: to 2^15 in f16.
 */
constexpr int RISE = IS_F16 ? 4 : 8;

/* ---- Shared memory: a ring of stages of K and V, Q if it does not fit registers beside O, states, barriers ---- */

constexpr int K_BYTES = PANELS * TILE_KEYS * PANEL_BYTES;
constexpr int STAGE_BYTES = 2 * K_BYTES;
constexpr bool Q_IS_SHARED = WARP_ROWS * HEAD_DIM > 1024;
constexpr int Q_OFFSET = STAGES * STAGE_BYTES;
constexpr int STATES_OFFSET = Q_OFFSET + (Q_IS_SHARED ? TILE_ROWS * PANELS * PANEL_BYTES : 0);
constexpr int BARRIERS_OFFSET = STATES_OFFSET + WARPS * WARP_ROWS * 2 * 4;
constexpr int FULL = BARRIERS_OFFSET;
constexpr int EMPTY = FULL + STAGES * BARRIER_BYTES;
constexpr int SHARED_BYTES = EMPTY + STAGES * BARRIER_BYTES;
static_assert(SHARED_BYTES == columns::SHARED_BYTES && SHARED_BYTES <= SHARED_BYTES_MAX, "shared memory as declared");

/* At the end of a tile a stage holds all warps' O, so many columns at a time. */
constexpr int o_columns() {
    int columns = HEAD_DIM;
    while (columns * WARPS * WARP_ROWS * 4 > STAGE_BYTES) {
        columns /= 2;
    }
    return columns;
}
constexpr int O_COLUMNS = o_columns();
static_assert(O_COLUMNS % 32 == 0, "a warp writes to all banks");

INLINE void barriers_init() {
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(barrier_address(FULL, i), 1);
        mbarrier_init(barrier_address(EMPTY, i), GROUPS * STAGE_WARPS);
    }
    mbarrier_init_fence();
}

} // namespace

#endif
