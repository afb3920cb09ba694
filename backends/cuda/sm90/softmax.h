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
#include "backends/cuda/sm90/mma.h"
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
    /* Of f16: moves that a step's sums have asked for: the step's own weights stay as they are, so O is multiplied when
     * it holds them, after the next product. The octaves of one row and of the other, in bytes. */
    uint32_t due;
    /* The same in all lanes of a warp, and known to be: */
    bool is_due;    /* whether due asks for a move in any of them */
    int credit;     /* above 0: the next step may go by sum */
    int cap_misses; /* how often a polynomial for softcap was too short */
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
    if constexpr (SOFTCAP) {
        tanh_scores(scores, p.change_factor);
        return;
    }
    if (p.score_change == ATTUNE_SM90_SCORE_AS_IS) {
        return;
    }
#pragma unroll
    for (int i = 0; i < SCORES; i++) {
        scores[i] *= p.change_factor;
    }
}

/* Which of a thread's scores of a row lie left of a column, counted from the thread's first: the first so many bits.
 * They are in columns 0, 1, 8, 9, 16, ... */
INLINE uint32_t scores_before(int column) {
    const int scores = column / 8 * 2 + min(column % 8, 2);
    return column <= 0 ? 0 : scores >= 32 ? ~0u : (1u << scores) - 1;
}

/* Hides the scores of one of the thread's two rows whose bits are not set. */
INLINE void hide_unset(float (&scores)[SCORES], int row, uint32_t seen) {
#pragma unroll
    for (int n = 0; n < SCORES / 2; n++) {
        float &score = scores[n / 2 * 4 + row * 2 + n % 2];
        score = (seen & 1u << n) == 0 ? -ATTUNE_INFINITY : score;
    }
}

/* ---- The update ---- */

/* Where a move puts a row's reference: so that the largest weight, or the row's sum, is about 2^HEADROOM. bf16 has
 * f32's range. f16 loses up to 2^-25 of a weight, which tells where the values of the heavy keys are close to 0; O is
 * given to within 2^-25, too, so the sum must be large. */
constexpr int HEADROOM = IS_F16 ? 11 : 0;

/* How far ahead of its scores a bf16 reference goes that moves by more than LAZINESS: what rises is likely to rise
 * again, and until scores have caught up nothing need be done. f32 and bf16 hold weights down to 2^-126, so that those
 * of 2^-90 of a row's largest are still exact. */
constexpr int AHEAD = IS_F16 ? 0 : 24;

/* log2 of the largest weight that a step by maximum leaves, and of the largest with which a step can go by sum. */
constexpr float LAZINESS = IS_F16 ? 15.0f : 24.0f;
constexpr float FIT = IS_F16 ? LAZINESS : 118.0f;

/* Weights are not negative, so a small sum proves that none is large. Up to SUM_STAYS nothing is done. Up to SUM_MAX
 * the weights are sound, bf16 having f32's range and f16 ending at 65,504, and their sums tell where references move
 * to. */
constexpr float SUM_STAYS = IS_F16 ? 0x1p13f : 0x1p24f;
constexpr float SUM_MAX = IS_F16 ? 0x1.ffp15f : 0x1p125f;

/* What a sum may be after a move by maximum: f16 has little room for it to grow. */
constexpr float SUM_MOVED = IS_F16 ? 0x1p11f : SUM_STAYS;

INLINE void start_rows(row_pair *rows) {
    rows->reference[0] = rows->reference[1] = -ATTUNE_INFINITY;
    rows->sum[0] = rows->sum[1] = 0.0f;
    rows->due = 0;
    rows->is_due = false;
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
        const float rise = maximum[row] - rows->reference[row]; /* infinite: of the first keys */
        const int ahead = rise > LAZINESS && rise < ATTUNE_INFINITY ? AHEAD : 0;
        const float raised = fmaxf(rows->reference[row], maximum[row] + (ahead - HEADROOM));
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

/* The same with softcap, which for small scores is a polynomial in them: cap in powers of their squares. Returns
 * whether this thread's all are small. */
template <int TERMS>
INLINE bool weigh_capped_scores(const attune_sm90_cap &cap, float (&scores)[SCORES], const float (&base)[2],
                                uint32_t (&weights)[WEIGHTS], float (&sum)[2]) {
    pin(scores);             /* else the squares of all are taken beforehand, for either polynomial */
    int largest[2] = {0, 0}; /* squares' bits, which rise with them; NaN is the largest */
    sum[0] = sum[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < SCORES; i += 2) {
        const int row = row_of_score(i);
        float weight[2];
        int bits[2];
#pragma unroll
        for (int j = 0; j < 2; j++) {
            const float square = scores[i + j] * scores[i + j];
            bits[j] = __float_as_int(square);
            float slope = cap.term[TERMS - 1];
#pragma unroll
            for (int term = TERMS - 2; term >= 0; term--) {
                slope = fmaf(slope, square, cap.term[term]);
            }
            weight[j] = exp2_fast(fmaf(scores[i + j], slope, -base[row]));
        }
        largest[row] = __vimax3_s32(largest[row], bits[0], bits[1]);
        weights[i / 2] = pack_elements(weight[0], weight[1]);
        sum[row] += weight[0] + weight[1];
    }
    return max(largest[0], largest[1]) <= __float_as_int(cap.square);
}

INLINE bool are_within(const float (&of_row)[2], float most) {
    return !__any_sync(ALL_LANES, !(of_row[0] <= most && of_row[1] <= most)); /* false for NaN */
}

INLINE float sum_of_row(float sum_of_thread) {
    const float sum = sum_of_thread + __shfl_xor_sync(ALL_LANES, sum_of_thread, 1);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 2);
}

/* Of the four lanes that share two rows, the even ones get the sum of the upper row, the others that of the lower. */
INLINE float sum_of_lanes_row(const float (&sum_of_thread)[2]) {
    const int which = threadIdx.x % 2;
    const float other = which == 0 ? sum_of_thread[1] : sum_of_thread[0];
    const float sum = (which == 0 ? sum_of_thread[0] : sum_of_thread[1]) + __shfl_xor_sync(ALL_LANES, other, 1);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 2);
}

/* Octaves by which a step's sum asks a reference to move up. */
INLINE int octaves_of_sum(float sum_of_thread) {
    const int exponent = (__float_as_int(sum_of_row(sum_of_thread)) >> 23) - 127;
    return max(0, exponent + AHEAD - HEADROOM);
}

/* f16: moves references up by the powers of two in this step's sums. */
INLINE void plan_move(row_pair *rows, const float (&sum)[2]) {
    rows->due = 0;
    rows->is_due = true;
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const int octaves = octaves_of_sum(sum[row]);
        rows->sum[row] *= __int_as_float((127 - octaves) << 23);
        rows->reference[row] += octaves;
        rows->due |= octaves << 8 * row;
    }
}

/* What a move that is due multiplies O by. */
INLINE float factor_due(const row_pair &rows, int row) {
    const int octaves = rows.due >> 8 * row & 0xFF;
    return __int_as_float((127 - octaves) << 23);
}

/* The least that f32 holds is 2^-149; from 127 octaves on it is subnormal. */
constexpr int OCTAVES_MAX = 149;

/* bf16: the same at once. Weights may be too large for O to hold, so theirs is the exponent from which the octaves are
 * taken; what falls below it is 0, or some number below 2^-126. O is to be multiplied by rows->factor. */
INLINE void move_now(row_pair *rows, const float (&sum)[2], uint32_t (&weights)[WEIGHTS]) {
    uint32_t shift[2];
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const int octaves = min(octaves_of_sum(sum[row]), OCTAVES_MAX);
        rows->factor[row] = __int_as_float((127 - octaves / 2) << 23) * __int_as_float((127 - (octaves + 1) / 2) << 23);
        rows->sum[row] *= rows->factor[row];
        rows->reference[row] += octaves;
        shift[row] = __vneg2(octaves << 7 | octaves << 23);
    }
#pragma unroll
    for (int i = 0; i < WEIGHTS; i++) {
        weights[i] = __viaddmax_s16x2_relu(weights[i], shift[row_of_score(2 * i)], 0);
    }
}

struct found_by_maximum {
    bool moves;  /* O must be multiplied by rows->factor */
    bool is_fit; /* the step would have gone by sum */
};

/* By maximum. recentres: sums, too, have to be small afterwards. */
INLINE found_by_maximum softmax_by_maximum(const float (&scores)[SCORES], float factor, bool recentres, row_pair *rows,
                                           uint32_t (&weights)[WEIGHTS]) {
    float maximum[2];
    float sum[2];
    maximum_of_scores(scores, maximum);
    maximum[0] *= factor;
    maximum[1] *= factor;
    const float rise[2] = {maximum[0] - rows->reference[0], maximum[1] - rows->reference[1]};
    const bool moves = !are_within(rise, LAZINESS); /* with NaN, -inf less -inf, too */
    const bool is_fit = !moves || (!IS_F16 && are_within(rise, FIT));
    if (moves) {
        move_references(rows, maximum);
    }
    const float base[2] = {attune_softmax_base(rows->reference[0]), attune_softmax_base(rows->reference[1])};
    weigh_scores(scores, factor, base, weights, sum);
    rows->sum[0] += sum[0];
    rows->sum[1] += sum[1];
    if (IS_F16 && (moves || recentres) && !are_within(sum, moves ? SUM_MOVED : SUM_STAYS)) {
        plan_move(rows, sum);
    }
    return {moves, is_fit};
}

/* A step by sum whose sum is past SUM_MAX costs a second pass over the scores, for which the other warps wait. So that
 * no data makes this much slower than going by maximum, steps by sum take credit: one that does not go well costs
 * CREDIT_LOST, and a step by maximum earns 1 where one by sum would have gone well. What a row goes through must not
 * depend on the tile that its work-group had before, so each starts anew: with enough for one failure. f16 has 4
 * octaves of room where bf16 has a hundred: it is only tried after a step by maximum, which then recentres, a tile in
 * whose first step single keys rule most rows starts with a debt, and a move costs CREDIT_MOVED. */
#ifdef ATTUNE_SM90_BY_MAXIMUM /* for measuring what going by sum gains */
constexpr bool BY_MAXIMUM = true;
#else
constexpr bool BY_MAXIMUM = false;
#endif
constexpr int CREDIT_START = IS_F16 ? 0 : 15, CREDIT_START_RULED = -64;
constexpr int CREDIT_LOST = 16, CREDIT_MOVED = IS_F16 ? 2 : 0;

/* Of a tile's first step: whether single keys rule most rows of a warp. */
INLINE bool are_rows_ruled(const row_pair &rows) {
    const float sum = sum_of_lanes_row(rows.sum);
    const int octaves_due = rows.due >> 8 * (threadIdx.x % 2) & 0xFF;
    const bool is_ruled = sum > 0.0f && sum < 0x1p1f * (1 << HEADROOM) && octaves_due == 0;
    return __popc(__ballot_sync(ALL_LANES, is_ruled)) > LANES / 2;
}

INLINE void start_credit(row_pair *rows) {
    rows->credit = IS_F16 && are_rows_ruled(*rows) ? CREDIT_START_RULED : CREDIT_START;
}

/* Steps of a tile in which a polynomial for softcap may prove too short. The next one is for the steps after this, if
 * there are more such, and after the last one all go by tanh and maximum. */
constexpr int CAP_MISSES = 2;

/* What comes of a step by sum: it is done, or its sums are large, or prove nothing. */
enum by_sum { BY_SUM_DONE, BY_SUM_LARGE, BY_SUM_NOT };

INLINE by_sum add_small_sums(row_pair *rows, const float (&sum)[2]) {
    if (!are_within(sum, SUM_STAYS)) {
        return BY_SUM_LARGE;
    }
    rows->sum[0] += sum[0];
    rows->sum[1] += sum[1];
    return BY_SUM_DONE;
}

/* Whether they are not past SUM_MAX. */
INLINE bool add_large_sums(row_pair *rows, const float (&sum)[2], uint32_t (&weights)[WEIGHTS]) {
    if (!are_within(sum, SUM_MAX)) {
        rows->credit -= CREDIT_LOST;
        return false;
    }
    rows->sum[0] += sum[0];
    rows->sum[1] += sum[1];
    if constexpr (IS_F16) {
        plan_move(rows, sum);
    } else {
        move_now(rows, sum, weights);
    }
    return true;
}

/* Without the pass for the maximum. A row without a reference has base -inf here, so its sum is not finite, and it goes
 * by maximum. */
INLINE by_sum softmax_by_sum(const float (&scores)[SCORES], float factor, row_pair *rows, uint32_t (&weights)[WEIGHTS],
                             float (&sum)[2]) {
    weigh_scores(scores, factor, rows->reference, weights, sum);
    return add_small_sums(rows, sum);
}

/* The same on scores that softcap has not changed yet: by the polynomial in use while all are small enough for it. */
INLINE by_sum softmax_capped_by_sum(const attune_sm90_forward_params &p, float (&scores)[SCORES], row_pair *rows,
                                    uint32_t (&weights)[WEIGHTS], float (&sum)[2]) {
    const int cap = rows->cap_misses / CAP_MISSES;
    if (cap >= ATTUNE_SM90_CAPS) {
        return BY_SUM_NOT;
    }
    bool are_small;
    if (cap == 0) {
        are_small = weigh_capped_scores<ATTUNE_SM90_CAP_SHORT>(p.cap[0], scores, rows->reference, weights, sum);
    } else {
        are_small = weigh_capped_scores<ATTUNE_SM90_CAP_LONG>(p.cap[1], scores, rows->reference, weights, sum);
    }
    if (!__all_sync(ALL_LANES, are_small)) {
        rows->cap_misses++;
        return BY_SUM_NOT;
    }
    return add_small_sums(rows, sum);
}

} // namespace

#endif
