/*
 * What both kinds of consumers of the backward do: scores, what is hidden of them, products, and dK and dV to memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BWD_CONSUMER_H
#define ATTUNE_CUDA_SM90_BWD_CONSUMER_H

#include "backends/cuda/sm90/bwd_range.h"
#include "backends/cuda/sm90/bwd_walk.h"
#include "backends/cuda/sm90/copy.h"
#include "backends/cuda/sm90/element.h"
#include "backends/cuda/sm90/mma.h"

namespace {

constexpr int SCORES = TILE_ROWS / 2; /* of a thread: of two keys, a pair of rows of every eight */

/* Which of a thread's two keys a score is of, and which row of the tile, less the lane's first. */
INLINE constexpr int key_of_score(int i) {
    return i / 2 % 2;
}
INLINE constexpr int row_of_score(int i) {
    return i / 4 * 8 + i % 2;
}

/* Stand for the weight of a pair that is not seen, and for tanh of its score: no pair that is seen has either. */
constexpr float HIDDEN = -0.0f;
constexpr float HIDDEN_CAPPED = 2.0f;

constexpr int HIDDEN_WORDS = SCORES / 32; /* of bits, one for each score */

/* What is the same for all lanes, as the compiler can tell: where it cannot, it takes what a branch leads to for work
 * of some lanes, in which operands' addresses need instructions of their own. */
INLINE bool is_of_warp(bool of_lane) {
    return __shfl_sync(ALL_LANES, static_cast<int>(of_lane), 0) != 0;
}

/* Whether the first kernel has marked any tile of a walk. For both consumers: only if so their steps look at each. */
INLINE bool is_any_marked(const attune_sm90_backward_params &p, const key_tile &at) {
    const int tiles = at.tiles();
    bool found = false;
#pragma unroll 1
    for (int i = threadIdx.x % WARPGROUP; i < tiles * p.group; i += WARPGROUP) {
        const int place = place_of(p, at.in, at.tile_first + i % tiles * at.tile_step, at.head * p.group + i / tiles);
        found = found || p.row_lse[int64_t{place} * ROW_VALUES + TILE_ROWS] != 0.0f;
    }
    return is_of_warp(named_barrier_or(TOGETHER, CONSUMERS * WARPGROUP, found));
}

struct consumer_base {
    const attune_sm90_backward_params &p;
    const key_tile &at;
    const int index;     /* of the warpgroup among the consumers */
    const int first_key; /* of its own, in the tile */
    const int thread;    /* in the warpgroup */
    const int lane;
    const float dscore_unit; /* what is left to multiply dP by, beside the power of two in P */
    ring<STAGES> rows;

    INLINE consumer_base(const attune_sm90_backward_params &params, const key_tile &of, int warpgroup)
        : p(params), at(of), index(warpgroup), first_key(WIDE ? 0 : warpgroup * BOX_KEYS),
          thread(threadIdx.x % WARPGROUP), lane(threadIdx.x % LANES), dscore_unit(dscore_factor(params) * WEIGHT_UNIT) {
    }

    /* ---- Places, waiting and releasing ---- */

    INLINE uint32_t own_keys(int offset) const {
        return shared_address(offset) + first_key * PANEL_BYTES;
    }
    INLINE uint32_t q_tile() const {
        return shared_address(Q_OFFSET) + rows.buffer() * Q_BYTES;
    }
    INLINE uint32_t dout_tile() const {
        return shared_address(DOUT_OFFSET) + rows.buffer() * DOUT_BYTES;
    }
    INLINE void wait_q() const {
        mbarrier_wait(barrier_address(Q_FULL, rows.buffer()), rows.parity());
    }
    INLINE void wait_dout() const {
        mbarrier_wait(barrier_address(DOUT_FULL, rows.buffer()), rows.parity());
    }
    /* For the warp. */
    INLINE void release(int barrier, int buffer) const {
        if constexpr (EACH_RELEASES) {
            mbarrier_arrive(barrier_address(barrier, buffer));
            return;
        }
        __syncwarp();
        if (lane == 0) {
            mbarrier_arrive(barrier_address(barrier, buffer));
        }
    }
    /* A stage of dO, lse and row sums; of the latter each lane has read. */
    INLINE void release_dout() const {
        mbarrier_arrive(barrier_address(DOUT_EMPTY, rows.buffer()));
    }
    INLINE void meet() const {
        named_barrier_sync(TOGETHER, CONSUMERS * WARPGROUP);
    }

    /* ---- Products ---- */

    /* S^T = K Q^T or dP^T = V dO^T: own keys, all rows of the tile. */
    template <int DIM> INLINE void issue_scores(float (&c)[SCORES], uint32_t keys, uint32_t rows_tile) const {
        const uint64_t a = matrix_descriptor(keys, 16);
        const uint64_t b = matrix_descriptor(rows_tile, 16);
        mma_fence();
#pragma unroll
        for (int step = 0; step < DIM / 16; step++) {
            product<TILE_ROWS>::from_shared(c, a + column_step(step, OWN_KEYS), b + column_step(step, TILE_ROWS),
                                            step > 0);
        }
        mma_commit();
    }

    /* dV += P^T dO or dK += dS^T Q. */
    template <int DIM> INLINE void issue_gradient(float (&c)[DIM / 2], const uint32_t *a, uint32_t rows_tile) const {
        const uint64_t b = matrix_descriptor(rows_tile, TILE_ROWS * PANEL_BYTES);
        mma_fence();
#pragma unroll
        for (int step = 0; step < TILE_ROWS / 16; step++) {
            product<DIM>::from_registers(c, a + 4 * step, b + descriptor_step(step * 16 * PANEL_BYTES));
        }
        mma_commit();
    }

    /* A part of dQ = dS K, over all keys of the tile. */
    template <int PART_COLUMNS>
    INLINE void issue_dq(float (&dq)[PART_COLUMNS / 2], int buffer, int row, int column) const {
        const uint64_t a = matrix_descriptor(shared_address(DS_OFFSET) + buffer * DS_BYTES + row * PANEL_BYTES, 16);
        const uint64_t b = matrix_descriptor(shared_address(K_OFFSET) + column / PANEL * OWN_KEYS * PANEL_BYTES,
                                             OWN_KEYS * PANEL_BYTES);
        mma_fence();
#pragma unroll
        for (int step = 0; step < OWN_KEYS / 16; step++) {
            product<PART_COLUMNS>::from_shared_mn(dq, a + column_step(step, TILE_ROWS),
                                                  b + descriptor_step(step * 16 * PANEL_BYTES), step > 0);
        }
        mma_commit();
    }

    /* ---- Scores ---- */

    INLINE bool is_capped() const {
        return GENERAL && p.is_capped != 0;
    }

    /* This lane's values of the pair of rows in a group of eight. */
    INLINE float2 row_values(int offset, int group) const {
        return reinterpret_cast<const float2 *>(shared + offset)[4 * group + lane % 4];
    }
    INLINE int lse_offset() const {
        return LSE_OFFSET + rows.buffer() * ROW_BYTES;
    }
    INLINE float2 row_lse(int group) const {
        return row_values(lse_offset(), group);
    }

    /* dP - D is what dscore_above gives of dP and of what row_sums gives. */
    INLINE float2 row_sums(int group) const {
        float2 sum = row_values(SUM_OFFSET + rows.buffer() * ROW_BYTES, group);
        if constexpr (IS_F16) {
            sum.x *= dscore_unit;
            sum.y *= dscore_unit;
        }
        return sum;
    }
    INLINE float dscore_above(float dscore, float sum) const {
        return IS_F16 ? fmaf(dscore, dscore_unit, -sum) : dscore - sum;
    }

    /* S to P, or with softcap to tanh. */
    template <bool MAY_BE_MARKED> INLINE void weigh(float (&scores)[SCORES], int row, bool plain) const {
        if (MAY_BE_MARKED && (!ONE_WALK || is_marked())) {
            weigh_marked(scores);
        } else {
            weigh_seen(scores);
        }
        if (!plain) {
            hide(scores, row);
        }
    }

    INLINE void weigh_seen(float (&scores)[SCORES]) const {
        if (is_capped()) {
            cap_scores(scores);
            return;
        }
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            const float2 lse = row_lse(i / 4);
            scores[i] = exp2_fast(fmaf(scores[i], p.score_factor, -lse.x));
            scores[i + 1] = exp2_fast(fmaf(scores[i + 1], p.score_factor, -lse.y));
            scores[i + 2] = exp2_fast(fmaf(scores[i + 2], p.score_factor, -lse.x));
            scores[i + 3] = exp2_fast(fmaf(scores[i + 3], p.score_factor, -lse.y));
        }
    }

    INLINE float cap_score(float score) const {
        const float x = score * p.cap_factor;
        return fabsf(x) > 0.25f ? tanh_of(x) : tanh_of_small(x);
    }

    INLINE void cap_scores(float (&scores)[SCORES]) const {
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            scores[i] = cap_score(scores[i]);
        }
    }

    /* From tanh to P, and what dP - D is multiplied by to give dS. */
    INLINE float weight_of_capped(float capped, float lse, float *out_slope) const {
        const float weight = capped == HIDDEN_CAPPED ? HIDDEN : exp2_fast(fmaf(capped, p.cap, -lse));
        *out_slope = capped == HIDDEN_CAPPED ? HIDDEN : weight * (1.0f - capped * capped);
        return weight;
    }

    /* ---- What is not finite, in tiles that the first kernel marks ---- */

    INLINE bool is_marked() const {
        return is_of_warp(reinterpret_cast<const float *>(shared + lse_offset())[TILE_ROWS] != 0.0f);
    }

    /* Whether no pair of the tile is hidden. Where all take the one walk, it is to be fast for those. */
    template <bool MAY_BE_MARKED> INLINE bool is_plain(int row) const {
        return MAY_BE_MARKED ? ONE_WALK && is_clear(row) && !is_marked() : is_clear(row);
    }

    /* A row that sees no key has inf for lse; a score of -inf is of a key that is not seen, whatever lse is. */
    INLINE void weigh_marked(float (&scores)[SCORES]) const {
#pragma unroll
        for (int i = 0; i < SCORES; i += 4) {
            const float2 lse = row_lse(i / 4);
            scores[i] = weight_of_marked(scores[i], lse.x);
            scores[i + 1] = weight_of_marked(scores[i + 1], lse.y);
            scores[i + 2] = weight_of_marked(scores[i + 2], lse.x);
            scores[i + 3] = weight_of_marked(scores[i + 3], lse.y);
        }
    }

    INLINE float weight_of_marked(float score, float lse) const {
        if (is_capped()) {
            return lse == ATTUNE_INFINITY ? HIDDEN_CAPPED : cap_score(score);
        }
        const bool is_seen = lse != ATTUNE_INFINITY && score * p.score_factor != -ATTUNE_INFINITY;
        return is_seen ? exp2_fast(fmaf(score, p.score_factor, -lse)) : HIDDEN;
    }

    INLINE void find_hidden(const uint32_t (&weights)[SCORES / 2], uint32_t (&hidden)[HIDDEN_WORDS]) const {
#pragma unroll
        for (int i = 0; i < SCORES; i += 32) {
            hidden[i / 32] = 0;
#pragma unroll
            for (int j = 0; j < 32; j += 2) {
                const uint32_t negative = negative_of(weights[(i + j) / 2]);
                hidden[i / 32] |= ((negative & 1) | (negative >> 16 & 2)) << j;
            }
        }
    }

    /* Adds what is not finite in a tile of rows to the gradients of the keys that its row sees: as it is, since weights
     * are above 0, or NaN. */
    template <int DIM, bool AS_NAN>
    INLINE void add_not_finite(float (&gradient)[DIM / 2], int tile, const uint32_t (&hidden)[HIDDEN_WORDS]) const {
        for (int row = 0; row < TILE_ROWS; row++) {
            const uint32_t of_rows = row < 64 ? hidden[0] : hidden[HIDDEN_WORDS - 1];
            const uint32_t word = __shfl_sync(ALL_LANES, of_rows, row % 8 / 2, 4) >> (row / 8 * 4 % 32 + row % 2);
            const bool is_hidden[2] = {(word & 1) != 0, (word & 4) != 0};
#pragma unroll
            for (int group = 0; group < DIM / 8; group++) {
                const int at =
                    tile + (group / 8 * TILE_ROWS + row) * PANEL_BYTES + (group % 8 ^ row % 8) * 16 + lane % 4 * 4;
                const uint32_t pair = *reinterpret_cast<const uint32_t *>(shared + at);
                const float x[2] = {low_of(pair), high_of(pair)};
                if (finite_of(pair) == pair) {
                    continue;
                }
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const float zero_or_nan = x[i % 2] * 0.0f;
                    if (!is_hidden[i / 2] && zero_or_nan != 0.0f) {
                        gradient[4 * group + i] += AS_NAN ? zero_or_nan : x[i % 2];
                    }
                }
            }
        }
    }

    /* Then products take it as 0. Once both consumers have their scores of the tile. */
    INLINE void take_out_not_finite() const {
        meet();
        if (index == 0) {
            clean_tile(Q_OFFSET + rows.buffer() * Q_BYTES, Q_BYTES);
        } else {
            clean_tile(DOUT_OFFSET + rows.buffer() * DOUT_BYTES, DOUT_BYTES);
        }
        async_proxy_fence();
        meet();
    }

    INLINE void clean_tile(int offset, int bytes) const {
        uint4 *chunks = reinterpret_cast<uint4 *>(shared + offset);
        for (int i = thread; i < bytes / 16; i += WARPGROUP) {
            const uint4 v = chunks[i];
            chunks[i] = make_uint4(finite_of(v.x), finite_of(v.y), finite_of(v.z), finite_of(v.w));
        }
    }

    /* ---- What is not seen ---- */

    /* Whether all rows of a tile see all of this warpgroup's keys. */
    INLINE bool is_clear(int row) const {
        const int first = at.key + first_key;
        const int last = first + BOX_KEYS - 1;
        return last < at.in.keys && last - at.in.right <= row &&
               (!GENERAL || row + TILE_ROWS - 1 <= first - at.in.left);
    }

    /* The rows, from this lane's first of the tile on, that see a key of this thread's two. */
    struct seen_rows {
        int first, last;
    };

    INLINE seen_rows find_seen_rows(int row, int which) const {
        const int key = at.key + first_key + thread / LANES * 16 + lane / 4 + 8 * which;
        const int lane_row = row + lane % 4 * 2;
        return {key < at.in.keys ? key - at.in.right - lane_row : TILE_ROWS, key - at.in.left - lane_row};
    }

    static INLINE bool is_hidden(int row, const seen_rows &seen) {
        return row < seen.first || (GENERAL && row > seen.last);
    }

    INLINE void hide(float (&scores)[SCORES], int row) const {
        const seen_rows seen[2] = {find_seen_rows(row, 0), find_seen_rows(row, 1)};
        const float hidden = is_capped() ? HIDDEN_CAPPED : HIDDEN;
#pragma unroll
        for (int i = 0; i < SCORES; i++) {
            if (is_hidden(row_of_score(i), seen[key_of_score(i)])) {
                scores[i] = hidden;
            }
        }
    }

    /* dS, packed: 0 times what is not finite, in a value that no row sees or in a row's sum, is not 0. */
    static INLINE void hide_pairs(uint32_t (&dweights)[SCORES / 2], const uint32_t (&weights)[SCORES / 2]) {
#pragma unroll
        for (int i = 0; i < SCORES / 2; i++) {
            dweights[i] &= ~negative_of(weights[i]);
        }
        pin(dweights);
    }

    /* dS with rows as rows, into the panel of this warpgroup's keys. */
    INLINE void share_dscores(const uint32_t (&dweights)[SCORES / 2], int buffer) const {
        const int row = lane / 16 * 8 + lane % 8;
        const int chunk = (thread / LANES * 2 + lane / 8 % 2) ^ (lane % 8);
        const uint32_t to = shared_address(DS_OFFSET) + buffer * DS_BYTES +
                            (first_key / PANEL * TILE_ROWS + row) * PANEL_BYTES + chunk * 16;
#pragma unroll
        for (int step = 0; step < TILE_ROWS / 16; step++) {
            store_matrices_transposed(to + step * 16 * PANEL_BYTES, dweights[4 * step], dweights[4 * step + 1],
                                      dweights[4 * step + 2], dweights[4 * step + 3]);
        }
        async_proxy_fence();
    }

    /* ---- What lies past a sequence's end: the next one, or anything ---- */

    INLINE void clear_rows(int offset, int panels, int panel_rows, int begin) const {
        constexpr int chunks_of_row = PANEL_BYTES / sizeof(uint4);
        for (int panel = 0; panel < panels; panel++) {
            uint4 *chunks = reinterpret_cast<uint4 *>(shared + offset + panel * panel_rows * PANEL_BYTES);
            for (int i = begin * chunks_of_row + thread; i < panel_rows * chunks_of_row; i += WARPGROUP) {
                chunks[i] = make_uint4(0, 0, 0, 0);
            }
        }
    }

    /* 0 times what is there may be NaN. One consumer clears Q or K, the other dO or V. */
    INLINE void clear_tail(int offset, int panels, int offset_v, int panels_v, int panel_rows, int begin) const {
        if (begin >= panel_rows) {
            return;
        }
        if (index == 0) {
            clear_rows(offset, panels, panel_rows, begin);
        } else {
            clear_rows(offset_v, panels_v, panel_rows, begin);
        }
        async_proxy_fence();
        meet();
    }

    INLINE void wait_keys() const {
        mbarrier_wait(barrier_address(K_FULL, 0), 0);
        mbarrier_wait(barrier_address(V_FULL, 0), 0);
        if constexpr (GENERAL) {
            clear_tail(K_OFFSET, PANELS, V_OFFSET, PANELS_V, OWN_KEYS,
                       PAIRED ? max(0, at.in.keys - at.key) : at.in.keys - at.key);
        }
    }

    /* Waits for Q, and for dO where a part of it is zeroed. */
    INLINE void wait_rows(int row) const {
        wait_q();
        if (GENERAL && row + TILE_ROWS > at.in.rows) {
            wait_dout();
            clear_tail(Q_OFFSET + rows.buffer() * Q_BYTES, PANELS, DOUT_OFFSET + rows.buffer() * DOUT_BYTES, PANELS_V,
                       TILE_ROWS, at.in.rows - row);
        }
    }

    /* ---- dK and dV ---- */

    template <int VALUES> static INLINE void clear(float (&values)[VALUES]) {
#pragma unroll
        for (int i = 0; i < VALUES; i++) {
            values[i] = 0.0f;
        }
    }

    /* A gradient as elements over this warpgroup's own keys of a tile that is read no more, and from there to memory.
     */
    template <int DIM>
    INLINE void store(const float (&values)[DIM / 2], float factor, int offset, const CUtensorMap &map,
                      attune_sm90_steps steps, const attune_cuda_operand &direct, int dim) const {
        const int key = at.key + first_key;
        if (GENERAL && key + BOX_KEYS > at.in.keys) {
            store_directly<DIM>(values, factor, direct, dim);
            return;
        }
        const int row = thread / LANES * 16 + lane % 16;
        const uint32_t to = own_keys(offset) + row * PANEL_BYTES;
#pragma unroll
        for (int k = 0; k < DIM / 16; k++) {
            const int chunk = (k % 4 * 2 + lane / 16) ^ (row % 8);
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                packed[i] = pack_elements(values[8 * k + 2 * i] * factor, values[8 * k + 2 * i + 1] * factor);
            }
            store_matrices(to + k / 4 * OWN_KEYS * PANEL_BYTES + chunk * 16, packed[0], packed[1], packed[2],
                           packed[3]);
        }
        async_proxy_fence();
        named_barrier_sync(ALONE + index, WARPGROUP);
        if (thread == 0 && key < at.in.keys) {
            for (int panel = 0; panel < (DIM + PANEL - 1) / PANEL; panel++) {
                store_box(map, own_keys(offset) + panel * OWN_KEYS * PANEL_BYTES, panel * PANEL, at.in.key_begin + key,
                          at.head * steps.head, at.in.batch * steps.batch);
            }
            store_commit();
            store_wait();
        }
    }

    /* The keys that the sequence owns, and no other. */
    template <int DIM>
    INLINE void store_directly(const float (&values)[DIM / 2], float factor, const attune_cuda_operand &direct,
                               int dim) const {
        const int key = at.key + first_key + thread / LANES * 16 + lane / 4;
#pragma unroll
        for (int i = 0; i < DIM / 2; i += 2) {
            const int row = key + i / 2 % 2 * 8;
            const int column = i / 4 * 8 + lane % 4 * 2;
            if (row < at.in.keys && column < dim) {
                const int64_t offset = at.in.batch * direct.stride[0] + (at.in.key_begin + row) * direct.stride[1] +
                                       at.head * direct.stride[2] + column;
                *reinterpret_cast<uint32_t *>(static_cast<uint16_t *>(direct.data) + offset) =
                    pack_elements(values[i] * factor, values[i + 1] * factor);
            }
        }
    }

    INLINE void store_dk(const float (&dk)[HEAD_DIM / 2]) const {
        if (p.has_dk != 0) {
            store<HEAD_DIM>(dk, p.scale / dscore_factor(p), K_OFFSET, p.dk, p.dk_step, p.direct_dk, p.head_dim);
        }
    }

    INLINE void store_dv(const float (&dv)[HEAD_DIM_V / 2]) const {
        if (p.has_dv != 0) {
            store<HEAD_DIM_V>(dv, WEIGHT_UNIT, V_OFFSET, p.dv, p.dv_step, p.direct_dv, p.head_dim_v);
        }
    }
};

} // namespace

#endif
