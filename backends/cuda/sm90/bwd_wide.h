/*
 * Consumers of the backward for heads of more than 128 columns. One has S, P and dV, the other dP, dS and dK; P goes
 * from the first to the second in f32, dS the other way as elements, and each has some columns of dQ, which go to
 * memory from registers. The first runs ahead by a step, so that one's products lie under the other's softmax. How they
 * form dQ where work-groups are paired is in bwd_pair.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_WIDE_H
#define ATTUNE_CUDA_SM90_BWD_WIDE_H

#include "backends/cuda/sm90/bwd_consumer.h"

namespace {

/* Says that registers hold nothing yet: else the compiler carries them over from the step before. */
template <int N> INLINE void leave_undefined(float (&registers)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "=f"(registers[i]));
    }
}

/* What they do whichever way dQ goes. */
struct wide_base : consumer_base {
    ring<1> weights_buffer;
    ring<1> turns;

    INLINE wide_base(const attune_sm90_backward_params &params, const key_tile &of, int warpgroup)
        : consumer_base(params, of, warpgroup) {
    }

    INLINE int dq_part() const {
        return rank_in_cluster() * CONSUMERS + index;
    }

    /* In turn, if dq is deterministic: threads of the copying warpgroup wait for it and pass it on. */
    template <int VALUES> INLINE void add_dq(const float (&dq)[VALUES], const walk &step) {
        if (p.added != nullptr) {
            mbarrier_wait(barrier_address(DQ_TURN, index), turns.parity());
            turns.count++;
        }
        float *to = p.dq_sum + int64_t{step.place()} * DQ_TILE + dq_part() * DQ_SECOND_PART;
#pragma unroll
        for (int i = 0; i < VALUES; i += 4) {
            add_four(to + (i / 4 * WARPGROUP + thread) * 4, dq[i], dq[i + 1], dq[i + 2], dq[i + 3]);
        }
        if (p.added != nullptr) {
            release(DQ_FULL, index);
        }
    }

    /* Where the other consumer's float4 of the same thread lies. */
    INLINE float4 &shared_weights(int i) const {
        return reinterpret_cast<float4 *>(shared + WEIGHTS_OFFSET)[i / 4 * WARPGROUP + thread];
    }

    /* ---- S, P, dV ---- */

    /* P packed for dV, and what dP - D is multiplied by for the other consumer. */
    INLINE void share_weights(const float (&scores)[SCORES], uint32_t (&weights)[SCORES / 2]) {
        mbarrier_wait(barrier_address(WEIGHTS_EMPTY, 0), weights_buffer.parity() ^ 1);
        weights_buffer.count++;
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            float weight[4] = {scores[i], scores[i + 1], scores[i + 2], scores[i + 3]};
            float slope[4] = {scores[i], scores[i + 1], scores[i + 2], scores[i + 3]};
            if (is_capped()) {
                const float2 lse = row_lse(i / 4);
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    weight[j] = weight_of_capped(scores[i + j], j % 2 == 0 ? lse.x : lse.y, &slope[j]);
                }
            }
            shared_weights(i) = make_float4(slope[0], slope[1], slope[2], slope[3]);
            weights[i / 2] = pack_elements(weight[0], weight[1]);
            weights[i / 2 + 1] = pack_elements(weight[2], weight[3]);
        }
        pin(weights);
        release(WEIGHTS_FULL, 0);
    }

    /* What is not finite in dO, before the products that take it. */
    INLINE void settle_not_finite(const uint32_t (&weights)[SCORES / 2], float (&dv)[HEAD_DIM_V / 2]) {
        if (is_marked()) {
            uint32_t hidden[HIDDEN_WORDS];
            find_hidden(weights, hidden);
            add_not_finite<HEAD_DIM_V, false>(dv, DOUT_OFFSET + rows.buffer() * DOUT_BYTES, hidden);
            take_out_not_finite();
        }
    }

    /* ---- dP, dS, dK ---- */

    /* MAY_HIDE: some pairs may be hidden; hidden then tells which. */
    template <bool MAY_HIDE>
    INLINE void differentiate(const float (&dscores)[SCORES], uint32_t (&dweights)[SCORES / 2],
                              uint32_t (&hidden)[HIDDEN_WORDS]) {
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            const float2 sum = row_sums(i / 4);
            const float4 four = shared_weights(i);
            const float weight[4] = {four.x, four.y, four.z, four.w};
            float dscore[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                dscore[j] = weight[j] * dscore_above(dscores[i + j], j % 2 == 0 ? sum.x : sum.y);
                if (MAY_HIDE && __float_as_uint(weight[j]) == __float_as_uint(HIDDEN)) {
                    dscore[j] = 0.0f;
                    hidden[i / 32] |= 1u << (i % 32 + j);
                }
            }
            dweights[i / 2] = pack_elements(dscore[0], dscore[1]);
            dweights[i / 2 + 1] = pack_elements(dscore[2], dscore[3]);
        }
    }

    INLINE void differentiate_step(const float (&dscores)[SCORES], uint32_t (&dweights)[SCORES / 2],
                                   float (&dk)[HEAD_DIM / 2], bool plain) {
        mbarrier_wait(barrier_address(WEIGHTS_FULL, 0), weights_buffer.parity());
        weights_buffer.count++;
        uint32_t hidden[HIDDEN_WORDS] = {};
        if (plain) {
            differentiate<false>(dscores, dweights, hidden);
        } else {
            differentiate<true>(dscores, dweights, hidden);
        }
        pin(dweights);
        release(WEIGHTS_EMPTY, 0);
        if (is_marked()) {
            if constexpr (GENERAL) { /* without softcap lse of such a row is NaN, and so is dS */
                add_not_finite<HEAD_DIM, true>(dk, Q_OFFSET + rows.buffer() * Q_BYTES, hidden);
            }
            take_out_not_finite();
        }
    }

    /* dS of a step, packed. dK of the step before is there, too, then. */
    INLINE void form_dscores(int row, float (&dscores)[SCORES], uint32_t (&dweights)[SCORES / 2],
                             float (&dk)[HEAD_DIM / 2]) {
        wait_rows(row);
        wait_dout();
        leave_undefined(dscores);
        issue_scores<HEAD_DIM_V>(dscores, own_keys(V_OFFSET), dout_tile());
        const bool plain = is_plain<true>(row);
        mma_wait<0>(); /* and for dK of the step before */
        pin(dk);
        pin(dscores);
        if (rows.count > 0) {
            release(Q_EMPTY, (rows.count - 1) % STAGES);
        }
        differentiate_step(dscores, dweights, dk, plain);
        release_dout();
    }
};

struct wide_consumer : wide_base {
    ring<DS_BUFFERS> dscores_buffers;

    INLINE wide_consumer(const attune_sm90_backward_params &params, const key_tile &of, int warpgroup)
        : wide_base(params, of, warpgroup) {
    }

    /* ---- S, P, dV ---- */

    /* This consumer's columns of a step's dQ, whose dS is there once the other one has got so far. */
    INLINE void finish_dq(float (&dv)[HEAD_DIM_V / 2], const walk &step) {
        float dq[dq_columns(0) / 2];
        mbarrier_wait(barrier_address(DS_FULL, dscores_buffers.buffer()), dscores_buffers.parity());
        issue_dq<dq_columns(0)>(dq, dscores_buffers.buffer(), 0, 0);
        mma_wait<0>();
        pin(dv);
        pin(dq);
        release(DS_EMPTY, dscores_buffers.buffer());
        dscores_buffers.count++;
        add_dq(dq, step);
    }

    INLINE void step_of_values(float (&dv)[HEAD_DIM_V / 2], int row, const walk &before) {
        float scores[SCORES];
        uint32_t weights[SCORES / 2];
        wait_rows(row);
        issue_scores<HEAD_DIM>(scores, own_keys(K_OFFSET), q_tile());
        wait_dout(); /* lse comes with it */
        const bool plain = is_plain<true>(row);
        mma_wait<0>();
        pin(scores);
        weigh<true>(scores, row, plain);
        share_weights(scores, weights);
        settle_not_finite(weights, dv);
        release(Q_EMPTY, rows.buffer());
        issue_gradient<HEAD_DIM_V>(dv, weights, dout_tile());
        if (rows.count > 0) {
            finish_dq(dv, before);
        } else {
            mma_wait<0>();
            pin(dv);
        }
        release_dout();
        rows.count++;
    }

    INLINE void run_values() {
        float dv[HEAD_DIM_V / 2];
        clear(dv);
        walk step(p, at);
        walk before(p, at); /* a step behind, whose dQ is still to be done */
        if (!step.is_over()) {
            wait_keys();
        }
        for (; !step.is_over(); step.next()) {
            step_of_values(dv, step.tile * TILE_ROWS, before);
            if (rows.count > 1) {
                before.next();
            }
        }
        if (rows.count > 0) {
            finish_dq(dv, before);
        }
        meet(); /* both are past their last look at K and V */
        store_dv(dv);
    }

    /* ---- dP, dS, dK ---- */

    INLINE void step_of_keys(float (&dk)[HEAD_DIM / 2], const walk &step) {
        float dscores[SCORES], dq[dq_columns(1) / 2];
        uint32_t dweights[SCORES / 2];
        const int row = step.tile * TILE_ROWS;
        form_dscores(row, dscores, dweights, dk);
        const int buffer = dscores_buffers.buffer();
        mbarrier_wait(barrier_address(DS_EMPTY, buffer), dscores_buffers.parity() ^ 1);
        share_dscores(dweights, buffer);
        release(DS_FULL, buffer);
        mbarrier_wait(barrier_address(DS_FULL, buffer), dscores_buffers.parity());
        dscores_buffers.count++;
        issue_dq<dq_columns(1)>(dq, buffer, 0, dq_columns(0));
        issue_gradient<HEAD_DIM>(dk, dweights, q_tile());
        mma_wait<1>();
        pin(dq);
        add_dq(dq, step);
        rows.count++;
    }

    INLINE void run_keys() {
        float dk[HEAD_DIM / 2];
        clear(dk);
        walk step(p, at);
        if (!step.is_over()) {
            wait_keys();
        }
        for (; !step.is_over(); step.next()) {
            step_of_keys(dk, step);
        }
        mma_wait<0>();
        pin(dk);
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
    }
};

} // namespace

#endif
