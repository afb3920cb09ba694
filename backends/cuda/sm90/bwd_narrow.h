/*
 * Consumers of the backward for heads of up to 128 columns: each has 64 of the tile's keys, with their dK and dV. They
 * meet once in a step, when dS is in shared memory, and cut dQ among them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_NARROW_H
#define ATTUNE_CUDA_SM90_BWD_NARROW_H

#include "backends/cuda/sm90/bwd_consumer.h"

namespace {

constexpr int DQ_VALUES = dq_columns(0) / 2; /* of a thread */

/* Whether dK may still be on its way when the next step's scores are: dS, from which it is made, stays in registers. */
constexpr bool LEAVES_DK = HEAD_DIM > 64;

struct narrow_consumer : consumer_base {
    float dk[HEAD_DIM / 2], dv[HEAD_DIM_V / 2];
    uint32_t weights[SCORES / 2], dweights[SCORES / 2];

    INLINE narrow_consumer(const attune_sm90_backward_params &params, const key_tile &of, int warpgroup)
        : consumer_base(params, of, warpgroup) {
    }

    /* P and dS = P (dP - D), both packed. */
    INLINE void differentiate(const float (&scores)[SCORES], const float (&dscores)[SCORES]) {
        if (is_capped()) {
            differentiate_capped(scores, dscores);
        } else {
#pragma unroll
            for (int i = 0; i < SCORES; i += 4) {
                const float2 sum = row_sums(i / 4);
                weights[i / 2] = pack_elements(scores[i], scores[i + 1]);
                weights[i / 2 + 1] = pack_elements(scores[i + 2], scores[i + 3]);
                dweights[i / 2] = pack_elements(scores[i] * dscore_above(dscores[i], sum.x),
                                                scores[i + 1] * dscore_above(dscores[i + 1], sum.y));
                dweights[i / 2 + 1] = pack_elements(scores[i + 2] * dscore_above(dscores[i + 2], sum.x),
                                                    scores[i + 3] * dscore_above(dscores[i + 3], sum.y));
            }
        }
        pin(weights);
        pin(dweights);
    }

    INLINE void differentiate_capped(const float (&capped)[SCORES], const float (&dscores)[SCORES]) {
#pragma unroll
        for (int i = 0; i < SCORES; i += 2) {
            const float2 lse = row_lse(i / 4);
            const float2 sum = row_sums(i / 4);
            float slope[2];
            const float low = weight_of_capped(capped[i], lse.x, &slope[0]);
            const float high = weight_of_capped(capped[i + 1], lse.y, &slope[1]);
            weights[i / 2] = pack_elements(low, high);
            dweights[i / 2] = pack_elements(slope[0] * dscore_above(dscores[i], sum.x),
                                            slope[1] * dscore_above(dscores[i + 1], sum.y));
        }
    }

    INLINE void settle_not_finite() {
        uint32_t hidden[HIDDEN_WORDS];
        find_hidden(weights, hidden);
        add_not_finite<HEAD_DIM_V, false>(dv, DOUT_OFFSET + rows.buffer() * DOUT_BYTES, hidden);
        if constexpr (GENERAL) { /* without softcap lse of such a row is NaN, and so is dS */
            add_not_finite<HEAD_DIM, true>(dk, Q_OFFSET + rows.buffer() * Q_BYTES, hidden);
        }
        take_out_not_finite();
    }

    /* To the warp that adds it to memory, in the order of the accumulators. */
    INLINE void hand_dq(const float (&dq)[DQ_VALUES]) {
        mbarrier_wait(barrier_address(DQ_EMPTY, index), (rows.count & 1) ^ 1);
        float4 *to = reinterpret_cast<float4 *>(shared + DQ_OFFSET + index * DQ_PART_BYTES);
#pragma unroll
        for (int i = 0; i < DQ_VALUES; i += 4) {
            to[i / 4 * WARPGROUP + thread] = make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
        }
        async_proxy_fence();
        release(DQ_FULL, index);
    }

    INLINE void issue_own_dq(float (&dq)[DQ_VALUES], int buffer) const {
        issue_dq<dq_columns(0)>(dq, buffer, DQ_BY_ROWS ? index * WARPGROUP_ROWS : 0,
                                DQ_BY_ROWS ? 0 : index * dq_columns(0));
    }

    /* dV lies under the sharing of dS, dK under the handing on of dQ and, where registers allow it, the next scores. */
    template <bool MAY_BE_MARKED> INLINE void step(int row) {
        constexpr bool leaves_dk = LEAVES_DK && !MAY_BE_MARKED;
        constexpr bool dscores_early = !MAY_BE_MARKED || ONE_WALK; /* else not, for registers */
        float scores[SCORES], dscores[SCORES], dq[DQ_VALUES];
        wait_rows(row);
        issue_scores<HEAD_DIM>(scores, own_keys(K_OFFSET), q_tile());
        wait_dout();
        const bool plain = is_plain<MAY_BE_MARKED>(row);
        if constexpr (dscores_early) {
            issue_scores<HEAD_DIM_V>(dscores, own_keys(V_OFFSET), dout_tile());
        }
        mma_wait<dscores_early ? 1 : 0>();
        pin(scores);
        if constexpr (leaves_dk) {
            release_last_q();
        }
        weigh<MAY_BE_MARKED>(scores, row, plain);
        if constexpr (!dscores_early) {
            issue_scores<HEAD_DIM_V>(dscores, own_keys(V_OFFSET), dout_tile());
        }
        mma_wait<0>();
        pin(dscores);
        differentiate(scores, dscores);
        if (!plain) {
            hide_pairs(dweights, weights);
            if (MAY_BE_MARKED && is_marked()) {
                settle_not_finite();
            }
        }
        issue_gradient<HEAD_DIM_V>(dv, weights, dout_tile());
        const int buffer = rows.count % DS_BUFFERS;
        share_dscores(dweights, buffer);
        meet();
        issue_own_dq(dq, buffer);
        mma_wait<1>();
        pin(dv);
        release_dout();
        issue_gradient<HEAD_DIM>(dk, dweights, q_tile());
        mma_wait<1>();
        pin(dq);
        hand_dq(dq);
        if constexpr (!leaves_dk) {
            mma_wait<0>();
            pin(dk);
            release(Q_EMPTY, rows.buffer());
        }
        rows.count++;
    }

    /* Once dK of the step before is there. */
    INLINE void release_last_q() {
        pin(dk);
        if (rows.count > 0) {
            release(Q_EMPTY, (rows.count - 1) % STAGES);
        }
    }

    template <bool MAY_BE_MARKED> INLINE void run() {
        clear(dk);
        clear(dv);
        walk step_of(p, at);
        if (!step_of.is_over()) {
            wait_keys();
        }
        for (; !step_of.is_over(); step_of.next()) {
            step<MAY_BE_MARKED>(step_of.tile * TILE_ROWS);
        }
        mma_wait<0>();
        pin(dk);
        store_dv(dv);
        meet(); /* both are past their last look at K */
        store_dk(dk);
    }
};

} // namespace

#endif
