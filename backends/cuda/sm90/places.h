/*
 * Where the forward's barriers lie in shared memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_PLACES_H
#define ATTUNE_CUDA_SM90_PLACES_H

#include "backends/cuda/sm90/barrier.h"
#include "backends/cuda/sm90/row.h"

namespace {

/* A tile is looked for while consumers have the one before in hand, and some of them the one before that. */
constexpr int TILE_SLOTS = 4;
static_assert(TILE_SLOTS % Q_BUFFERS == 0, "a slot's number gives its Q buffer");

constexpr int Q_FULL = CONTROL_OFFSET;
constexpr int Q_EMPTY = Q_FULL + Q_BUFFERS * BARRIER_BYTES;
constexpr int K_FULL = Q_EMPTY + Q_BUFFERS * BARRIER_BYTES;
constexpr int K_EMPTY = K_FULL + STAGES * BARRIER_BYTES;
constexpr int V_FULL = K_EMPTY + STAGES * BARRIER_BYTES;
constexpr int V_EMPTY = V_FULL + STAGES * BARRIER_BYTES;
constexpr int TAIL_CLEAR = V_EMPTY + STAGES * BARRIER_BYTES; /* the general kernel's V tail holds zeros */
constexpr int TAIL_BARRIERS = 2; /* no warpgroup is two tiles ahead of one that still waits for a tail */
constexpr int TILE_FOUND = TAIL_CLEAR + TAIL_BARRIERS * BARRIER_BYTES; /* by the scout, for who loads K and V */
constexpr int TILE_ENDS = TILE_FOUND + TILE_SLOTS * BARRIER_BYTES;     /* by who loads K, for the scout */
constexpr int O_STAGED = TILE_ENDS + BARRIER_BYTES;          /* O is where it leaves from, for who stores it */
constexpr int O_FREE = O_STAGED + Q_BUFFERS * BARRIER_BYTES; /* O's own buffer may be written by that warpgroup */
constexpr int BARRIERS_END = O_FREE + (O_APART ? CONSUMERS : 0) * BARRIER_BYTES;

INLINE void barriers_init() {
    constexpr int consumer_warps = CONSUMERS * WARPGROUP / LANES; /* each has waited for its own share of a product */
    for (int i = 0; i < Q_BUFFERS; i++) {
        mbarrier_init(barrier_address(Q_FULL, i), 1);
        mbarrier_init(barrier_address(Q_EMPTY, i), O_APART ? consumer_warps : 1);
        mbarrier_init(barrier_address(O_STAGED, i), O_APART ? WARPGROUP / LANES : consumer_warps);
    }
    for (int i = 0; i < STAGES; i++) {
        mbarrier_init(barrier_address(K_FULL, i), 1);
        mbarrier_init(barrier_address(K_EMPTY, i), consumer_warps);
        mbarrier_init(barrier_address(V_FULL, i), 1);
        mbarrier_init(barrier_address(V_EMPTY, i), consumer_warps);
    }
    for (int i = 0; i < TAIL_BARRIERS; i++) {
        mbarrier_init(barrier_address(TAIL_CLEAR, i), 1);
    }
    for (int i = 0; i < TILE_SLOTS; i++) {
        mbarrier_init(barrier_address(TILE_FOUND, i), 1);
    }
    mbarrier_init(barrier_address(TILE_ENDS, 0), 1);
    for (int i = 0; i < (O_APART ? CONSUMERS : 0); i++) {
        mbarrier_init(barrier_address(O_FREE, i), 1);
    }
    mbarrier_init_fence();
}

} // namespace

#endif
