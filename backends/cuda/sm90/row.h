/*
 * A row of the forward: which keys it sees, its warpgroups, and the shared memory that follows from its columns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_ROW_H
#define ATTUNE_CUDA_SM90_ROW_H

#include "backends/cuda/sm90/columns.h"

namespace {

/* Which keys a row sees: all, those up to its diagonal, or whatever the general kernel's options say. That kernel with
 * softcap is one of its own: code that others jump over costs them instruction cache between tiles. */
constexpr bool FULL_SPLIT = is_same_text(columns::FEATURES, "hopper_full_split");
constexpr bool GENERAL_SPLIT = is_same_text(columns::FEATURES, "hopper_split");
constexpr bool FULL = FULL_SPLIT || is_same_text(columns::FEATURES, "hopper_full");
constexpr bool CAUSAL = is_same_text(columns::FEATURES, "hopper_causal");
constexpr bool SOFTCAP = is_same_text(columns::FEATURES, "hopper_softcap");
constexpr bool GENERAL = SOFTCAP || GENERAL_SPLIT || is_same_text(columns::FEATURES, "hopper_general");
static_assert(FULL || CAUSAL || GENERAL, "the row is not of this family");

/* Whether tiles may be cut along the keys, and whether rows may see no key of the first key tiles. */
constexpr bool SPLITS = FULL_SPLIT || GENERAL_SPLIT;
constexpr bool WINDOWS = GENERAL && !SPLITS;

constexpr int CONSUMERS = TILE_ROWS / WARPGROUP_ROWS;
constexpr int THREADS = WARPGROUP * (1 + CONSUMERS);
static_assert(THREADS == columns::THREADS, "a warpgroup that loads, and one for every 64 rows");

/* A launch gives all threads alike (128 registers to 512 threads); setmaxnreg shares those out anew. */
constexpr int CONSUMER_REGISTERS = CONSUMERS == 2 ? 232 : CONSUMERS == 3 ? 160 : 112;
constexpr int PRODUCER_REGISTERS = CONSUMERS == 2 ? 40 : 32;

/* ---- Shared memory: Q buffers, a ring of K, a ring of V, O, barriers, the tiles that go with the Q buffers ---- */

static_assert(PANELS_V <= PANELS, "O leaves through Q's buffer");

constexpr int Q_BYTES = PANELS * TILE_ROWS * PANEL_BYTES;
constexpr int K_BYTES = PANELS * TILE_KEYS * PANEL_BYTES;
constexpr int V_BYTES = PANELS_V * TILE_KEYS * PANEL_BYTES;
constexpr int CONTROL_BYTES = 896;

constexpr int RING_BYTES = STAGES * (K_BYTES + V_BYTES);
constexpr int Q_BUFFERS = 2 * Q_BYTES + RING_BYTES + CONTROL_BYTES <= SHARED_BYTES_MAX ? 2 : 1;
constexpr int K_OFFSET = Q_BUFFERS * Q_BYTES;
constexpr int V_OFFSET = K_OFFSET + STAGES * K_BYTES;

/* O leaves through its rows of Q. Where that has one buffer, O has another, for the rows of one warpgroup after the
 * other: the next Q comes while O is still being multiplied. */
constexpr bool O_APART = Q_BUFFERS == 1;
constexpr int O_OFFSET = V_OFFSET + STAGES * V_BYTES;
constexpr int O_PANEL_ROWS = O_APART ? WARPGROUP_ROWS : TILE_ROWS;
constexpr int O_BYTES = O_APART ? PANELS_V * WARPGROUP_ROWS * PANEL_BYTES : 0;

constexpr int CONTROL_OFFSET = O_OFFSET + O_BYTES;
constexpr int SHARED_BYTES = CONTROL_OFFSET + CONTROL_BYTES;
static_assert(SHARED_BYTES == columns::SHARED_BYTES, "shared memory as declared");

} // namespace

#endif
