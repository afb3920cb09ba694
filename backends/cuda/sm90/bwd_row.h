/*
 * A row of the backward: what its warpgroups do, and the shared memory that follows from its columns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_ROW_H
#define ATTUNE_CUDA_SM90_BWD_ROW_H

#include "backends/cuda/sm90/barrier.h"
#include "backends/cuda/sm90/bwd.h"

namespace {

constexpr bool GENERAL = is_same_text(columns::FEATURES, "hopper_backward_general");
static_assert(GENERAL || is_same_text(columns::FEATURES, "hopper_backward"), "the row is not of this family");

/* Two warpgroups consume. Up to 128 columns each has 64 keys, with their dK and dV (bwd_narrow.h). Wider heads leave no
 * registers for both: there the tile has 64 keys, and one warpgroup has dV, the other dK (bwd_wide.h). */
constexpr bool WIDE = HEAD_DIM > 128;
constexpr int CONSUMERS = ATTUNE_SM90_CONSUMERS;
constexpr int WARPS = WARPGROUP / LANES;
constexpr int BOX_KEYS = 64;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
static_assert(THREADS == columns::THREADS, "a warpgroup that copies, and two that multiply");

/* Wide heads of 256 columns have work-groups in clusters of two, which share a tile of keys: bwd_pair.h. */
constexpr int OWN_KEYS = WIDE ? BOX_KEYS : CONSUMERS * BOX_KEYS; /* of a work-group */
constexpr int CLUSTER = TILE_KEYS / OWN_KEYS;
constexpr bool PAIRED = CLUSTER == 2;
static_assert(TILE_KEYS == CLUSTER * OWN_KEYS && (CLUSTER == 1 || (PAIRED && HEAD_DIM == 256)), "keys of a tile");

/* Tiles with what is not finite cost instructions where a step has none to spare. So a work-group whose walk meets any
 * takes a walk of its own for them; where registers do not allow for the code of two, all take that one. */
constexpr bool ONE_WALK = WIDE || (GENERAL && HEAD_DIM <= 64);

/* Whether a walk without tiles begins at its end, so that a step asks for that alone. As ptxas orders products, that is
 * 1% faster at 96 and 128 columns, and 4% slower at 64. */
constexpr bool EMPTY_IS_OVER = !WIDE && HEAD_DIM > 64;

constexpr int CONSUMER_REGISTERS = 240;
constexpr int PRODUCER_REGISTERS = 24;

/* dq of a tile of rows, whole panels wide, is cut among the consumers: by rows where each has 64, else by columns. */
constexpr int DQ_WIDTH = PANELS * PANEL;
constexpr bool DQ_BY_ROWS = TILE_ROWS == CONSUMERS * WARPGROUP_ROWS;
static_assert(DQ_BY_ROWS || TILE_ROWS == WARPGROUP_ROWS, "dq's parts cover a tile");

INLINE constexpr int dq_columns(int part) {
    return DQ_BY_ROWS  ? DQ_WIDTH
           : PAIRED    ? PANEL
           : !WIDE     ? DQ_WIDTH / CONSUMERS
           : part == 0 ? 2 * PANEL
                       : DQ_WIDTH - 2 * PANEL;
}

constexpr int DQ_TILE = TILE_ROWS * DQ_WIDTH;                     /* floats in the workspace */
constexpr int DQ_SECOND_PART = WARPGROUP_ROWS * dq_columns(0);    /* where it begins among them */
constexpr int DQ_PART_BYTES = WIDE ? 0 : DQ_TILE / CONSUMERS * 4; /* in shared memory; wide parts go by registers */

/* ---- Shared memory ---- */

constexpr int K_BYTES = PANELS * OWN_KEYS * PANEL_BYTES;
constexpr int V_BYTES = PANELS_V * OWN_KEYS * PANEL_BYTES;
constexpr int Q_BYTES = PANELS * TILE_ROWS * PANEL_BYTES;
constexpr int DOUT_BYTES = PANELS_V * TILE_ROWS * PANEL_BYTES;
constexpr int DS_BYTES = OWN_KEYS / PANEL * TILE_ROWS * PANEL_BYTES; /* as elements, rows as rows */
constexpr int WEIGHT_BYTES = WIDE ? TILE_ROWS * OWN_KEYS * 4 : 0;    /* P in f32, from one consumer to the other */
constexpr int ROW_VALUES = TILE_ROWS + 4;                            /* one for each row, and a mark: bwd_beside.h */
constexpr int ROW_BYTES = ROW_VALUES * 4;
constexpr int CONTROL_BYTES = 256;
constexpr int DS_BUFFERS = 2; /* where paired, its own and the other's */

constexpr int K_OFFSET = 0;
constexpr int V_OFFSET = K_OFFSET + K_BYTES;
constexpr int Q_OFFSET = V_OFFSET + V_BYTES;
constexpr int DOUT_OFFSET = Q_OFFSET + STAGES * Q_BYTES;
constexpr int DS_OFFSET = DOUT_OFFSET + STAGES * DOUT_BYTES;
constexpr int DQ_OFFSET = DS_OFFSET + DS_BUFFERS * DS_BYTES;
constexpr int WEIGHTS_OFFSET = DQ_OFFSET + CONSUMERS * DQ_PART_BYTES;
constexpr int LSE_OFFSET = WEIGHTS_OFFSET + WEIGHT_BYTES;
constexpr int SUM_OFFSET = LSE_OFFSET + STAGES * ROW_BYTES;
constexpr int CONTROL_OFFSET = SUM_OFFSET + STAGES * ROW_BYTES;
constexpr int SHARED_BYTES = CONTROL_OFFSET + CONTROL_BYTES;
static_assert(SHARED_BYTES <= SHARED_BYTES_MAX && SHARED_BYTES == columns::SHARED_BYTES, "shared memory as declared");

/* ---- Barriers ---- */

constexpr int K_FULL = CONTROL_OFFSET;
constexpr int V_FULL = K_FULL + BARRIER_BYTES;
constexpr int Q_FULL = V_FULL + BARRIER_BYTES;
constexpr int Q_EMPTY = Q_FULL + STAGES * BARRIER_BYTES;
constexpr int DOUT_FULL = Q_EMPTY + STAGES * BARRIER_BYTES;
constexpr int DOUT_EMPTY = DOUT_FULL + STAGES * BARRIER_BYTES;
constexpr int DQ_FULL = DOUT_EMPTY + STAGES * BARRIER_BYTES; /* a consumer's part; wide: has been added */
constexpr int DQ_EMPTY = DQ_FULL + CONSUMERS * BARRIER_BYTES;
constexpr int DQ_TURN = DQ_EMPTY + CONSUMERS * BARRIER_BYTES; /* deterministic: its turn */
constexpr int DS_FULL = DQ_TURN + CONSUMERS * BARRIER_BYTES;  /* wide: from the one with dK to the other */
constexpr int DS_EMPTY = DS_FULL + DS_BUFFERS * BARRIER_BYTES;
constexpr int WEIGHTS_FULL = DS_EMPTY + DS_BUFFERS * BARRIER_BYTES; /* wide: the other way */
constexpr int WEIGHTS_EMPTY = WEIGHTS_FULL + BARRIER_BYTES;
constexpr int OTHER_KEYS_FULL = WEIGHTS_EMPTY + BARRIER_BYTES; /* paired: columns of the other's K */
constexpr int BARRIERS_END = OTHER_KEYS_FULL + BARRIER_BYTES;
static_assert(BARRIERS_END <= SHARED_BYTES, "control area");

/* Who has read or written shared memory by plain instructions arrives itself: racecheck does not follow an order that
 * goes by the warp to one lane's arrival. Narrow consumers do so for lse and row sums alone, wide ones also for P. */
constexpr bool EACH_RELEASES = WIDE;
constexpr int RELEASES = EACH_RELEASES ? WARPGROUP : WARPS; /* of a consumer */

/* Paired: dS of own keys, which is written when both consumers' products have read it and the other work-group has its
 * copy; and that copy, which the other one writes when products here have read it. */
enum { DS_OWN, DS_OTHER };

INLINE void barriers_init() {
    mbarrier_init(barrier_address(K_FULL, 0), 1);
    mbarrier_init(barrier_address(V_FULL, 0), 1);
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(barrier_address(Q_FULL, i), 1);
        mbarrier_init(barrier_address(Q_EMPTY, i), CONSUMERS * RELEASES);
        mbarrier_init(barrier_address(DOUT_FULL, i), 1);
        mbarrier_init(barrier_address(DOUT_EMPTY, i), CONSUMERS * WARPGROUP);
    }
    for (int i = 0; i < CONSUMERS; i++) {
        mbarrier_init(barrier_address(DQ_FULL, i), RELEASES);
        mbarrier_init(barrier_address(DQ_EMPTY, i), 1);
        mbarrier_init(barrier_address(DQ_TURN, i), 2); /* who waits for turns, and who passes them on */
    }
    for (int i = 0; i < DS_BUFFERS; i++) {
        mbarrier_init(barrier_address(DS_FULL, i), PAIRED && i == DS_OTHER ? 1 : RELEASES);
        mbarrier_init(barrier_address(DS_EMPTY, i), !PAIRED ? RELEASES : CONSUMERS * WARPS + (i == DS_OWN ? 1 : 0));
    }
    mbarrier_init(barrier_address(WEIGHTS_FULL, 0), RELEASES);
    mbarrier_init(barrier_address(WEIGHTS_EMPTY, 0), RELEASES);
    if constexpr (PAIRED) {
        mbarrier_init(barrier_address(OTHER_KEYS_FULL, 0), 1);
    }
    mbarrier_init_fence();
}

/* Named barriers: 0 is __syncthreads; then one for both consumers, and one for each alone. */
constexpr int TOGETHER = 1;
constexpr int ALONE = 2;

} // namespace

#endif
