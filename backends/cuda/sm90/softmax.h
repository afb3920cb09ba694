/*
 * Online softmax on a warpgroup's tile of scores, which core/portable/softmax.h defines for one score.
 *
 * References and maxima are kept in units of log2: a score s counts as s * factor, factor being |scale| * log2(e). A
 * row's reference is what its scores are taken relative to. It is near the row's maximum, not the maximum itself: as
 * long as no weight gets too large it stays, and O need not be rescaled. O / sum does not depend on it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_SOFTMAX_H
#define ATTUNE_CUDA_SM90_SOFTMAX_H

#include "backends/cuda/sm90/element.h"
#include "backends/cuda/sm90/row.h"
#include "core/portable/softmax.h"

namespace {

constexpr int SCORES = TILE_KEYS / 2;  /* of a thread, of its two rows by turns of two */
constexpr int WEIGHTS = TILE_KEYS / 4; /* the same as pairs of elements */

INLINE constexpr int row_of_score(int i) {
    return i / 2 % 2;
}

/* The two rows of a thread. */
struct row_pair {
    float reference[2]; /* -inf: no key seen yet */
    float sum[2];       /* of this thread's weights */
    float factor[2];    /* by which a move of the reference multiplies O */
    int credit;         /* above 0: the next step may go by sum. The same in all lanes of a warp */
};

/* ---- What is done to scores before ---- */

INLINE void tanh_scores(float (&scores)[SCORES], float factor) {
    float largest = 0.0f;
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        scores[i] *= factor;
        largest = fmaxf(largest, fabsf(scores[i]));
    }
    if (__any_sync(ALL_LANES, largest > 0.25f)) {
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            scores[i] = tanh_of(scores[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            scores[i] = tanh_of_small(scores[i]);
        }
    }
}

INLINE void change_scores(const attune_sm90_forward_params &p, float (&scores)[SCORES]) {
    if (p.score_change == ATTUNE_SM90_SCORE_AS_IS) {
        return;
    }
    if (GENERAL && p.score_change == ATTUNE_SM90_SCORE_TANH) {
        tanh_scores(scores, p.change_factor);
        return;
    }
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        scores[i] *= p.change_factor;
    }
}

/* Hides the columns from end on, or those before begin, counted from this thread's first column of the tile. */
INLINE void hide_from(float (&scores)[SCORES], const int (&end)[2]) {
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        if (i / 4 * 8 + i % 2 >= end[row_of_score(i)]) {
            scores[i] = -ATTUNE_INFINITY;
        }
    }
}

INLINE void hide_before(float (&scores)[SCORES], const int (&begin)[2]) {
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        if (i / 4 * 8 + i % 2 < begin[row_of_score(i)]) {
            scores[i] = -ATTUNE_INFINITY;
        }
    }
}

/* ---- The update ---- */

/* Where a move puts a row's reference: so far below the maximum that the largest weight is 2^HEADROOM. f16 loses what
 * is below 2^-25, which tells where the values of the heavy keys are close to 0; bf16 has f32's range. */
constexpr int HEADROOM = IS_F16 ? 6 : 0;

/* log2 of the largest weight that a step by maximum leaves. */
constexpr float LAZINESS = IS_F16 ? 12.0f : 24.0f;

INLINE void start_rows(row_pair *rows) {
    rows->reference[0] = rows->reference[1] = -ATTUNE_INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
}

/* Row maxima, over the four lanes that share a row. NaN is passed over, as its weight tells. */
INLINE void maximum_of_scores(const float (&scores)[SCORES], float (&maximum)[2]) {
    float even[2] = {scores[0], scores[2]};
    float odd[2] = {scores[1], scores[3]};
#pragma unroll
    for (int i = 4; i < SCORES; i += 2) {
        even[row_of_score(i)] = fmaxf(even[row_of_score(i)], scores[i]);
        odd[row_of_score(i)] = fmaxf(odd[row_of_score(i)], scores[i + 1]);
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        maximum[row] = fmaxf(even[row], odd[row]);
        maximum[row] = fmaxf(maximum[row], __shfl_xor_sync(ALL_LANES, maximum[row], 1));
        maximum[row] = fmaxf(maximum[row], __shfl_xor_sync(ALL_LANES, maximum[row], 2));
    }
}

INLINE void move_references(row_pair *rows, const float (&maximum)[2]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const float raised = fmaxf(rows->reference[row], maximum[row] - HEADROOM);
        rows->factor[row] = exp2_fast(rows->reference[row] - attune_softmax_base(raised));
        rows->sum[row] *= rows->factor[row];
        rows->reference[row] = raised;
    }
}

/* P = exp2(S factor - base), packed, and this thread's two sums. S survives. */
INLINE void weigh_scores(const float (&scores)[SCORES], float factor, const float (&base)[2],
                         uint32_t (&weights)[WEIGHTS], float (&sum)[2]) {
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < SCORES; i += 2) {
        const int row = row_of_score(i);
        const float low = exp2_fast(fmaf(scores[i], factor, -base[row]));
        const float high = exp2_fast(fmaf(scores[i + 1], factor, -base[row]));
        weights[i / 2] = pack_elements(low, high);
        sum[row] += low + high;
    }
}

/* The same with softcap, which for small scores is a polynomial in them; returns whether this thread's all are small.
 */
INLINE bool weigh_capped_scores(const attune_sm90_forward_params &p, const float (&scores)[SCORES],
                                const float (&base)[2], uint32_t (&weights)[WEIGHTS], float (&sum)[2]) {
    float squares[2] = {0.0f, 0.0f};
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < SCORES; i += 2) {
        const int row = row_of_score(i);
        const float square[2] = {scores[i] * scores[i], scores[i + 1] * scores[i + 1]};
        const float slope[2] = {fmaf(fmaf(square[0], p.cap[2], p.cap[1]), square[0], p.cap[0]),
                                fmaf(fmaf(square[1], p.cap[2], p.cap[1]), square[1], p.cap[0])};
        const float low = exp2_fast(fmaf(scores[i], slope[0], -base[row]));
        const float high = exp2_fast(fmaf(scores[i + 1], slope[1], -base[row]));
        weights[i / 2] = pack_elements(low, high);
        sum[row] += low + high;
        squares[row] += square[0] + square[1];
    }
    return squares[0] <= p.cap_squares && squares[1] <= p.cap_squares;
}

/* By maximum. Returns whether O must be multiplied by rows->factor. */
INLINE bool softmax_by_maximum(const float (&scores)[SCORES], float factor, row_pair *rows,
                               uint32_t (&weights)[WEIGHTS]) {
    float maximum[2];
    float sum[2];
    maximum_of_scores(scores, maximum);
    maximum[0] *= factor;
    maximum[1] *= factor;
    /* Written so that NaN, -inf less -inf, moves too. */
    const bool moves = __any_sync(
        ALL_LANES, !(maximum[0] - rows->reference[0] <= LAZINESS && maximum[1] - rows->reference[1] <= LAZINESS));
    if (moves) {
        move_references(rows, maximum);
    }
    const float base[2] = {attune_softmax_base(rows->reference[0]), attune_softmax_base(rows->reference[1])};
    weigh_scores(scores, factor, base, weights, sum);
    rows->sum[0] += sum[0];
    rows->sum[1] += sum[1];
    return moves;
}

/* Weights are not negative, so a small sum proves that none is large. Up to SUM_STAYS nothing is done. Up to SUM_MAX
 * the weights are sound, bf16 having f32's range and f16 ending at 65,504, and their sums tell where references move
 * to. */
constexpr float SUM_STAYS = IS_F16 ? 0x1p12f : 0x1p24f;
constexpr float SUM_MAX = IS_F16 ? 0x1.ffp15f : 0x1p80f;

INLINE bool are_sums_within(const float (&sum)[2], float most) {
    return !__any_sync(ALL_LANES, !(sum[0] <= most && sum[1] <= most)); /* false for NaN */
}

/* A power of two times two elements. */
INLINE uint32_t scale_pair(uint32_t pair, float factor) {
    uint32_t scaled;
    asm("mul.rn." ELEMENT "x2 %0, %1, %2;" : "=r"(scaled) : "r"(pair), "r"(pack_elements(factor, factor)));
    return scaled;
}

/* Moves references up by the powers of two in this step's sums, and the weights of this step with them. */
INLINE void move_references_by_sum(row_pair *rows, const float (&sum)[2], uint32_t (&weights)[WEIGHTS]) {
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float largest = fmaxf(sum[row], __shfl_xor_sync(ALL_LANES, sum[row], 1));
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
        const int octaves = max(0, (__float_as_int(largest) >> 23) - 127 - HEADROOM);
        rows->factor[row] = __int_as_float((127 - octaves) << 23);
        rows->sum[row] *= rows->factor[row];
        rows->reference[row] += octaves;
    }
#pragma unroll
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] = scale_pair(weights[i], rows->factor[i % 2]);
    }
}

/* A step by sum whose sum is past SUM_MAX costs a second pass over the scores. A step that would have gone well earns
 * 1, one that does not costs CREDIT_LOST, so that no data makes this much slower than going by maximum. Credit starts
 * anew with each tile: what a row goes through must not depend on the tile that its work-group had before. */
#ifdef ATTUNE_SM90_BY_MAXIMUM /* for measuring what going by sum gains */
constexpr bool BY_MAXIMUM = true;
#else
constexpr bool BY_MAXIMUM = false;
#endif
constexpr int CREDIT_START = 1, CREDIT_MOST = 4, CREDIT_LOST = 16;

/* What a step by sum does with its sums. False: they prove nothing, and the step goes by maximum. */
INLINE bool take_sums(row_pair *rows, const float (&sum)[2], uint32_t (&weights)[WEIGHTS], bool *out_moves) {
    const bool stays = are_sums_within(sum, SUM_STAYS);
    *out_moves = !stays;
    if (!stays && !are_sums_within(sum, SUM_MAX)) {
        rows->credit -= CREDIT_LOST;
        return false;
    }
    rows->sum[0] += sum[0];
    rows->sum[1] += sum[1];
    rows->credit = min(rows->credit + 1, CREDIT_MOST);
    if (!stays) {
        move_references_by_sum(rows, sum, weights);
    }
    return true;
}

/* By sum while there is credit: without the pass for the maximum. A row without a reference has base -inf here, so its
 * sum is not finite, and it goes by maximum. Returns whether O must be multiplied by rows->factor. */
INLINE bool softmax_by_sum(const float (&scores)[SCORES], float factor, row_pair *rows, uint32_t (&weights)[WEIGHTS]) {
    bool moves;
    if (!BY_MAXIMUM && rows->credit > 0) {
        float sum[2];
        weigh_scores(scores, factor, rows->reference, weights, sum);
        if (take_sums(rows, sum, weights, &moves)) {
            return moves;
        }
    }
    moves = softmax_by_maximum(scores, factor, rows, weights);
    rows->credit += moves ? 0 : 1;
    return moves;
}

/* The same on scores that softcap has not changed yet; unless all are small, it changes them. */
INLINE bool softmax_capped_by_sum(const attune_sm90_forward_params &p, float (&scores)[SCORES], row_pair *rows,
                                  uint32_t (&weights)[WEIGHTS]) {
    if (!BY_MAXIMUM && rows->credit > 0) {
        bool moves;
        float sum[2];
        const bool are_small = weigh_capped_scores(p, scores, rows->reference, weights, sum);
        if (!__all_sync(ALL_LANES, are_small)) {
            rows->credit -= CREDIT_LOST;
        } else if (take_sums(rows, sum, weights, &moves)) {
            return moves;
        }
    }
    change_scores(p, scores);
    return softmax_by_sum(scores, p.score_factor, rows, weights);
}

} // namespace

#endif
