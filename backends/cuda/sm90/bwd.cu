/*
 * The Hopper backward: a work-group owns a tile of keys and walks over the rows that see them.
 *
 * K and V of the tile stay in shared memory; Q and dO, lse and row sums of a tile of rows come through rings. Consumer
 * warpgroups form S^T and dP^T with keys as rows, so that P^T and dS^T, packed, are operands in registers of
 * dV += P^T dO and dK += dS^T Q. dS also goes to shared memory, for dQ = dS K, which is added to memory in f32.
 *
 * Heads of 256 columns have two work-groups to a tile of keys, half of which each owns (bwd_pair.h).
 *
 * A run is three launches: before (row sums, dq = 0), the main one, and after (dq converted).
 *
 * Compiled once per row of kernels.def; see bwd_row.h. docs/notes/hopper-backward.md says what was tried and measured.
 * Source: Dao, FlashAttention-2 (arXiv 2307.08691), algorithm 2; Shah et al., FlashAttention-3 (arXiv 2407.08608),
 * appendix B.1.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/bwd_beside.h"
#include "backends/cuda/sm90/bwd_narrow.h"
#include "backends/cuda/sm90/bwd_pair.h"
#include "backends/cuda/sm90/bwd_wide.h"

namespace {

/* ---- The thread that loads ---- */

INLINE void load_keys(const key_tile &at, const CUtensorMap &map, int panels, int offset, int barrier,
                      attune_sm90_steps step, uint64_t policy) {
    const uint32_t full = barrier_address(barrier, 0);
    mbarrier_expect(full, panels * OWN_KEYS * PANEL_BYTES);
    for (int panel = 0; panel < panels; panel++) {
        for (int key = 0; key < OWN_KEYS; key += BOX_KEYS) {
            copy_box(shared_address(offset) + (panel * OWN_KEYS + key) * PANEL_BYTES, map, full, panel * PANEL,
                     at.in.key_begin + at.key + key, at.head * step.head, at.in.batch * step.batch, policy);
        }
    }
}

/* Of the other's K the columns that this work-group has of dQ. They lie where P will: consumers take them out before.
 */
INLINE void load_other_keys(const attune_sm90_backward_params &p, const key_tile &at, uint64_t policy) {
    constexpr int panels = PANELS / CLUSTER;
    const uint32_t full = barrier_address(OTHER_KEYS_FULL, 0);
    mbarrier_expect(full, panels * OWN_KEYS * PANEL_BYTES);
    for (int panel = 0; panel < panels; panel++) {
        copy_box(shared_address(WEIGHTS_OFFSET) + panel * OWN_KEYS * PANEL_BYTES, p.k, full,
                 (cluster_rank() * panels + panel) * PANEL, at.in.key_begin + (at.key ^ OWN_KEYS),
                 at.head * p.k_step.head, at.in.batch * p.k_step.batch, policy);
    }
}

/* A tile of Q or dO; bytes: of what else comes with it. */
INLINE void load_rows(const walk &at, const CUtensorMap &map, int panels, uint32_t to, uint32_t full,
                      attune_sm90_steps step, int bytes, uint64_t policy) {
    mbarrier_expect(full, panels * TILE_ROWS * PANEL_BYTES + bytes);
    for (int panel = 0; panel < panels; panel++) {
        copy_box(to + panel * TILE_ROWS * PANEL_BYTES, map, full, panel * PANEL,
                 at.at.in.row_begin + at.tile * TILE_ROWS, at.head() * step.head, at.at.in.batch * step.batch, policy);
    }
}

INLINE void run_loader(const attune_sm90_backward_params &p, const key_tile &at) {
    walk step(p, at);
    if (step.is_over()) {
        return;
    }
    uint64_t read_once, read_again;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(read_once));
    load_keys(at, p.k, PANELS, K_OFFSET, K_FULL, p.k_step, read_once);
    load_keys(at, p.v, PANELS_V, V_OFFSET, V_FULL, p.v_step, read_once);
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(read_again));
    if constexpr (PAIRED) {
        load_other_keys(p, at, read_again);
    }
    ring<STAGES> rows;
    for (; !step.is_over(); step.next()) {
        const int stage = rows.buffer();
        mbarrier_wait(barrier_address(Q_EMPTY, stage), rows.parity() ^ 1);
        load_rows(step, p.q, PANELS, shared_address(Q_OFFSET) + stage * Q_BYTES, barrier_address(Q_FULL, stage),
                  p.q_step, 0, read_again);
        const uint32_t full = barrier_address(DOUT_FULL, stage);
        mbarrier_wait(barrier_address(DOUT_EMPTY, stage), rows.parity() ^ 1);
        load_rows(step, p.dout, PANELS_V, shared_address(DOUT_OFFSET) + stage * DOUT_BYTES, full, p.dout_step,
                  2 * ROW_BYTES, read_again);
        const int64_t values = int64_t{step.place()} * ROW_VALUES;
        copy_bytes(shared_address(LSE_OFFSET) + stage * ROW_BYTES, p.row_lse + values, full, ROW_BYTES);
        copy_bytes(shared_address(SUM_OFFSET) + stage * ROW_BYTES, p.row_sum + values, full, ROW_BYTES);
        rows.count++;
    }
}

/* ---- Deterministic: the thread that waits for turns to add to dq ---- */

/* It waits for the next step's while another thread still passes on the last one's: for one thread the two would take
 * longer than a step. A part may be added when both have arrived, so that neither gets ahead of the other. */
INLINE void run_waiter(const attune_sm90_backward_params &p, const key_tile &at) {
    ring<1> turns;
    for (walk step(p, at); !step.is_over(); step.next()) {
        step.wait_turn();
        for (int part = 0; part < CONSUMERS; part++) {
            mbarrier_wait(barrier_address(DQ_TURN, part), turns.parity() ^ 1);
            mbarrier_arrive(barrier_address(DQ_TURN, part));
        }
        turns.count++;
    }
}

/* ---- Paired: the thread that copies dS to the other work-group ---- */

INLINE void run_sender(const attune_sm90_backward_params &p, const key_tile &at) {
    const int other = cluster_rank() ^ 1;
    const uint32_t from = shared_address(DS_OFFSET) + DS_OWN * DS_BYTES;
    const uint32_t to = address_in_cluster(shared_address(DS_OFFSET) + DS_OTHER * DS_BYTES, other);
    const uint32_t full = address_in_cluster(barrier_address(DS_FULL, DS_OTHER), other);
    ring<1> sent;
    for (walk step(p, at); !step.is_over(); step.next()) {
        mbarrier_wait(barrier_address(DS_FULL, DS_OWN), sent.parity());
        if (sent.count > 0) {
            mbarrier_wait(barrier_address(DS_EMPTY, DS_OTHER), sent.parity() ^ 1);
        }
        sent.count++;
        mbarrier_expect_in_cluster(full, DS_BYTES);
        copy_in_cluster(to, from, full, DS_BYTES);
    }
}

/* ---- The threads that add a narrow consumer's part of dq to memory ---- */

INLINE void run_adder(const attune_sm90_backward_params &p, const key_tile &at, int part) {
    const uint32_t from = shared_address(DQ_OFFSET) + part * DQ_PART_BYTES;
    ring<1> full;
    for (walk step(p, at); !step.is_over(); step.next()) {
        mbarrier_wait(barrier_address(DQ_FULL, part), full.parity());
        if (p.added != nullptr) {
            mbarrier_arrive(barrier_address(DQ_TURN, part));
            mbarrier_wait(barrier_address(DQ_TURN, part), full.parity());
        }
        full.count++;
        add_floats(p.dq_sum + int64_t{step.place()} * DQ_TILE + part * DQ_SECOND_PART, from, DQ_PART_BYTES);
        store_commit();
        store_wait_read();
        mbarrier_arrive(barrier_address(DQ_EMPTY, part));
        if (p.added != nullptr) {
            store_wait(); /* of what is in memory; the wait before was for what has been read */
            step.pass_turn();
        }
    }
    store_wait();
}

/* ---- Deterministic: the threads that pass on wide consumers' turns ---- */

/* Of the parts from first on, before past. */
INLINE void run_passer(const attune_sm90_backward_params &p, const key_tile &at, int first, int past) {
    ring<1> added;
    for (int part = first; part < past; part++) {
        mbarrier_arrive(barrier_address(DQ_TURN, part));
    }
    for (walk step(p, at); !step.is_over(); step.next()) {
        for (int part = first; part < past; part++) {
            mbarrier_wait(barrier_address(DQ_FULL, part), added.parity());
            mbarrier_arrive(barrier_address(DQ_TURN, part)); /* the next turn does not wait for the fence of this one */
            step.pass_turn();
        }
        added.count++;
    }
}

/* ---- What a thread beside that which loads does for a consumer ---- */

INLINE void run_beside_consumer(const attune_sm90_backward_params &p, const key_tile &at, int part) {
    if (!WIDE) {
        run_adder(p, at, part);
    } else if (PAIRED && part == 0) {
        run_sender(p, at);
    } else if (p.added != nullptr) {
        run_passer(p, at, PAIRED ? 0 : part, part + 1);
    }
}

/* Work-groups of a processor: else ptxas aims at five, and spills registers to get there. */
constexpr int BEFORE_AT_ONCE = 4;

template <bool IS_WIDE, bool IS_PAIRED> struct consumer_of;
template <> struct consumer_of<false, false> { using type = narrow_consumer; };
template <> struct consumer_of<true, false> { using type = wide_consumer; };
template <> struct consumer_of<true, true> { using type = paired_consumer; };

/* Which tile of keys: in the order in which work-groups begin, so that none waits for one that has no processor yet. */
INLINE int find_number(const attune_sm90_backward_params &p) {
    return p.begun == nullptr ? blockIdx.x / CLUSTER : atomicAdd(p.begun, 1);
}

/* Deterministic: the first work-group of a pair finds it for both, once both have begun. */
INLINE void share_number(const attune_sm90_backward_params &p, int *number) {
    if (threadIdx.x == 0 && cluster_rank() == 0) {
        *number = find_number(p);
        store_in_cluster(address_in_cluster(static_cast<uint32_t>(__cvta_generic_to_shared(number)), 1), *number);
    }
    cluster_arrive();
    cluster_wait();
}

} // namespace

extern "C" __global__ void __launch_bounds__(BESIDE_THREADS, BEFORE_AT_ONCE)
    JOIN(ATTUNE_SYMBOL, _before)(const __grid_constant__ attune_sm90_backward_params p) {
    const int tiles = p.batch * p.heads_q * p.row_tiles;
    if (IS_F16 && blockIdx.x >= tiles) {
        measure_keys(p, blockIdx.x - tiles);
        return;
    }
    const row_tile at = find_row_tile(p);
    if (at.exists) {
        clear_dq(p, at);
        sum_rows(p, at);
    }
}

extern "C" __global__ void __launch_bounds__(BESIDE_THREADS)
    JOIN(ATTUNE_SYMBOL, _after)(const __grid_constant__ attune_sm90_backward_params p) {
    const row_tile at = find_row_tile(p);
    if (at.exists) {
        convert_dq(p, at);
    }
}

extern "C" __global__ void __launch_bounds__(BESIDE_THREADS)
    JOIN(ATTUNE_SYMBOL, _sink)(const __grid_constant__ attune_sm90_backward_params p) {
    sum_sink(p, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    ATTUNE_SYMBOL(const __grid_constant__ attune_sm90_backward_params p) {
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    __shared__ int number;
    if (threadIdx.x == 0) {
        barriers_init();
        if (!PAIRED || p.begun == nullptr) {
            number = find_number(p);
        }
    }
    if constexpr (PAIRED) {
        cluster_arrive();
        cluster_wait();
        if (p.begun != nullptr) {
            share_number(p, &number);
        }
    } else {
        __syncthreads();
    }
    const key_tile at = find_key_tile(p, __shfl_sync(ALL_LANES, number, 0));
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        const int warp = threadIdx.x / LANES;
        if (threadIdx.x % LANES != 0) {
            return;
        }
        if (warp == 0) {
            run_loader(p, at);
        } else if (warp <= CONSUMERS) {
            run_beside_consumer(p, at, warp - 1);
        } else if (p.added != nullptr) {
            run_waiter(p, at);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        using consumer = consumer_of<WIDE, PAIRED>::type;
        if (ONE_WALK || is_any_marked(p, at)) {
            consumer(p, at, warpgroup - 1).run<true>();
        } else {
            consumer(p, at, warpgroup - 1).run<ONE_WALK>();
        }
    }
}
