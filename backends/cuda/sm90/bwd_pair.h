/*
 * Consumers of the backward for heads of 256 columns: two work-groups, neighbours in a cluster, which exchange dS. Each
 * forms half of dQ's columns over the keys of both, so that memory takes one addition for 128 keys.
 *
 * A consumer has 64 columns, as rows: dQ^T = K^T dS^T. What that needs of the other's K fits registers.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_PAIR_H
#define ATTUNE_CUDA_SM90_BWD_PAIR_H

#include "backends/cuda/sm90/bwd_wide.h"

namespace {

constexpr int DQ_VALUES_PAIRED = TILE_ROWS / 2; /* of a thread: of two columns, a pair of rows of every eight */

/* Four matrices of a K tile, transposed: columns as rows. */
INLINE void load_matrices_transposed(uint32_t from, uint32_t *to) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

struct paired_consumer : wide_base {
    uint32_t other_keys[OWN_KEYS / 4]; /* of the other's K^T: this consumer's columns, as an operand */
    ring<1> dscores_buffer;

    INLINE paired_consumer(const attune_sm90_backward_params &params, const key_tile &of, int warpgroup)
        : wide_base(params, of, warpgroup) {
    }

    INLINE void wait_all_keys() {
        constexpr int panel_bytes = OWN_KEYS * PANEL_BYTES;
        wait_keys();
        mbarrier_wait(barrier_address(OTHER_KEYS_FULL, 0), 0);
        if constexpr (GENERAL) {
            clear_tail(WEIGHTS_OFFSET, 1, WEIGHTS_OFFSET + panel_bytes, 1, OWN_KEYS,
                       max(0, at.in.keys - (at.key ^ OWN_KEYS)));
        }
        const int row = lane / 16 * 8 + lane % 8;
        const int chunk = (thread / LANES * 2 + lane / 8 % 2) ^ (lane % 8);
        const uint32_t from = shared_address(WEIGHTS_OFFSET) + index * panel_bytes + row * PANEL_BYTES + chunk * 16;
#pragma unroll
        for (int step = 0; step < OWN_KEYS / 16; step++) {
            load_matrices_transposed(from + step * 16 * PANEL_BYTES, other_keys + 4 * step);
        }
        meet(); /* before P is put there */
    }

    /* ---- dS and dQ ---- */

    INLINE void wait_dscores() const {
        mbarrier_wait(barrier_address(DS_FULL, DS_OWN), dscores_buffer.parity());
        mbarrier_wait(barrier_address(DS_FULL, DS_OTHER), dscores_buffer.parity());
        if (index == 1 && thread == 0) { /* it is here: its source may be written again */
            mbarrier_arrive_in_cluster(address_in_cluster(barrier_address(DS_EMPTY, DS_OWN), cluster_rank() ^ 1));
        }
    }

    /* Of which products have read both. Each warp has read all for rows of its own. */
    INLINE void release_dscores() {
        __syncwarp();
        if (lane == 0) {
            mbarrier_arrive(barrier_address(DS_EMPTY, DS_OWN));
            mbarrier_arrive_in_cluster(address_in_cluster(barrier_address(DS_EMPTY, DS_OTHER), cluster_rank() ^ 1));
        }
        dscores_buffer.count++;
    }

    INLINE void issue_dq_of_both(float (&dq)[DQ_VALUES_PAIRED]) const {
        const uint64_t keys =
            matrix_descriptor(shared_address(K_OFFSET) + dq_part() * OWN_KEYS * PANEL_BYTES, OWN_KEYS * PANEL_BYTES);
        const uint64_t own = matrix_descriptor(shared_address(DS_OFFSET) + DS_OWN * DS_BYTES, DS_BYTES);
        const uint64_t other = matrix_descriptor(shared_address(DS_OFFSET) + DS_OTHER * DS_BYTES, DS_BYTES);
        leave_undefined(dq);
        mma_fence();
#pragma unroll
        for (int step = 0; step < OWN_KEYS / 16; step++) {
            const uint32_t keys_on = descriptor_step(step * 16 * PANEL_BYTES);
            product<TILE_ROWS>::from_shared_mn_mn(dq, keys + keys_on, own + keys_on, step > 0);
        }
#pragma unroll
        for (int step = 0; step < OWN_KEYS / 16; step++) {
            product<TILE_ROWS>::from_registers(dq, other_keys + 4 * step,
                                               other + descriptor_step(step * 16 * PANEL_BYTES));
        }
        mma_commit();
    }

    /* dS with keys as rows. */
    INLINE void share_dscores_of_keys(const uint32_t (&dweights)[SCORES / 2]) const {
        const int key = thread / LANES * 16 + lane % 16;
        const uint32_t to = shared_address(DS_OFFSET) + DS_OWN * DS_BYTES + key * PANEL_BYTES;
#pragma unroll
        for (int step = 0; step < TILE_ROWS / 16; step++) {
            const int chunk = (step * 2 + lane / 16) ^ (key % 8);
            store_matrices(to + chunk * 16, dweights[4 * step], dweights[4 * step + 1], dweights[4 * step + 2],
                           dweights[4 * step + 3]);
        }
        async_proxy_fence();
    }

    /* dQ of the last step, and with that all that the two exchange. */
    template <int VALUES> INLINE void finish_dq(float (&gradient)[VALUES], const walk &last) {
        float dq[DQ_VALUES_PAIRED];
        if (rows.count > 0) {
            wait_dscores();
        }
        issue_dq_of_both(dq);
        mma_wait<0>();
        pin(gradient);
        pin(dq);
        /* All that the other sends has come. The arrival waits for additions, so that it goes before the last ones,
         * unless those wait for another thread, which is to arrive, too. */
        if (p.added == nullptr) {
            cluster_arrive();
        }
        if (rows.count > 0) {
            add_dq(dq, last);
        }
        if (p.added != nullptr) {
            cluster_arrive();
        }
    }

    /* ---- S, P, dV ---- */

    INLINE void step_of_values(float (&dv)[HEAD_DIM_V / 2], int row, const walk &before) {
        float scores[SCORES], dq[DQ_VALUES_PAIRED];
        uint32_t weights[SCORES / 2];
        wait_rows(row);
        leave_undefined(scores);
        issue_scores<HEAD_DIM>(scores, own_keys(K_OFFSET), q_tile());
        wait_dout(); /* lse comes with it */
        const bool plain = is_plain<true>(row);
        mma_wait<0>(); /* and for dV of the step before */
        pin(dv);
        pin(scores);
        if (rows.count > 0) {
            mbarrier_arrive(barrier_address(DOUT_EMPTY, (rows.count - 1) % STAGES));
        }
        weigh<true>(scores, row, plain);
        share_weights(scores, weights);
        settle_not_finite(weights, dv);
        release(Q_EMPTY, rows.buffer());
        if (rows.count > 0) {
            wait_dscores();
        }
        issue_dq_of_both(dq); /* of the step before; of none before the first, whose products come to nothing */
        issue_gradient<HEAD_DIM_V>(dv, weights, dout_tile());
        mma_wait<1>();
        pin(dq);
        if (rows.count > 0) {
            release_dscores();
            add_dq(dq, before);
        }
        rows.count++;
    }

    INLINE void run_values() {
        float dv[HEAD_DIM_V / 2];
        clear(dv);
        walk step(p, at);
        walk before(p, at); /* a step behind, whose dQ is still to be done */
        if (!step.is_over()) {
            wait_all_keys();
        }
        for (; !step.is_over(); step.next()) {
            step_of_values(dv, step.tile * TILE_ROWS, before);
            if (rows.count > 1) {
                before.next();
            }
        }
        finish_dq(dv, before);
        meet(); /* both are past their last look at K and V */
        store_dv(dv);
    }

    /* ---- dP, dS, dK ---- */

    INLINE void step_of_keys(float (&dk)[HEAD_DIM / 2], int row, const walk &before) {
        float dscores[SCORES], dq[DQ_VALUES_PAIRED];
        uint32_t dweights[SCORES / 2];
        form_dscores(row, dscores, dweights, dk);
        if (rows.count > 0) {
            wait_dscores();
        }
        issue_dq_of_both(dq); /* of the step before */
        issue_gradient<HEAD_DIM>(dk, dweights, q_tile());
        mma_wait<1>();
        pin(dq);
        if (rows.count > 0) {
            release_dscores();
            mbarrier_wait(barrier_address(DS_EMPTY, DS_OWN), dscores_buffer.parity() ^ 1);
        }
        share_dscores_of_keys(dweights);
        release(DS_FULL, DS_OWN);
        if (rows.count > 0) {
            add_dq(dq, before);
        }
        rows.count++;
    }

    INLINE void run_keys() {
        float dk[HEAD_DIM / 2];
        clear(dk);
        walk step(p, at);
        walk before(p, at);
        if (!step.is_over()) {
            wait_all_keys();
        }
        for (; !step.is_over(); step.next()) {
            step_of_keys(dk, step.tile * TILE_ROWS, before);
            if (rows.count > 1) {
                before.next();
            }
        }
        finish_dq(dk, before);
        meet();
        store_dk(dk);
    }

    template <bool MAY_BE_MARKED> INLINE void run() {
        static_assert(MAY_BE_MARKED, "there is no other walk");
        if (index == 0) {
            run_values();
        } else {
            run_keys();
        }
        cluster_wait(); /* the other may still copy from here, or to here */
    }
};

} // namespace

#endif
