/*
 * The Hopper forward: the copy engine loads, warpgroups multiply, and one warpgroup's softmax lies under the products
 * of the others.
 *
 * A launch is as many work-groups as the device has processors; each goes from tile to tile of 64 rows for every
 * consumer warpgroup. Warpgroup 0 loads and stores. The others have S, P and O in registers and pass through the key
 * tiles downwards, in each step S of one key tile and O += P V of the one before. Where there are two Q buffers the
 * pipeline runs on from tile to tile: the first S of the next one is computed beside the last P V of this one.
 *
 * Compiled once per row of kernels.def; see row.h. docs/notes/hopper-forward.md says what was tried and measured.
 * Source: Shah et al., FlashAttention-3 (arXiv 2407.08608), algorithms 1 and 2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/load.h"
#include "backends/cuda/sm90/mma.h"
#include "backends/cuda/sm90/part.h"
#include "backends/cuda/sm90/store.h"

namespace {

constexpr bool RUNS_ON = !O_APART; /* from tile to tile */

/* Which way a step's softmax goes is decided before the products are waited for, and its code fetched under them. */
constexpr bool DECIDES_EARLY = !SOFTCAP && CONSUMERS > 2; /* others lose by it */

/* Named barriers: 0 is __syncthreads; then the turns, then one for each warpgroup alone. */
constexpr int TURN = 1;
constexpr int ALONE = 8;

struct consumer {
    const attune_sm90_forward_params &p;
    const int index;  /* of the warpgroup among the consumers */
    const int thread; /* in the warpgroup */
    const int lane;

    ring<Q_BUFFERS> q;
    ring<STAGES> k, v;
    ring<TAIL_BARRIERS> tails;

    float scores[SCORES];
    uint32_t weights[WEIGHTS];
    float output[OUTPUTS];
    bool has_output; /* else the next product overwrites it */
    struct {
        uint64_t k, v;
        bool are_there; /* as far as is known */
    } operands;         /* of the next products */
    row_pair rows;

    /* The tile in hand: its slot, and the key tiles that are there, that some row of this warpgroup sees, and that
     * all of its rows see. */
    int slot;
    key_tile_range seen, clear;

    INLINE explicit consumer(const attune_sm90_forward_params &params, int warpgroup)
        : p(params), index(warpgroup), thread(threadIdx.x % WARPGROUP), lane(threadIdx.x % LANES), output{} {
    }

    /* ---- Waiting and releasing ---- */

    INLINE void wait_k() {
        mbarrier_wait(barrier_address(K_FULL, k.buffer()), k.parity());
    }

    INLINE void wait_v() {
        mbarrier_wait(barrier_address(V_FULL, v.buffer()), v.parity());
    }

    INLINE void release_k() {
        if (lane == 0) {
            mbarrier_arrive(barrier_address(K_EMPTY, k.buffer()));
        }
        k.count++;
    }

    INLINE void release_v() {
        if (lane == 0) {
            mbarrier_arrive(barrier_address(V_EMPTY, v.buffer()));
        }
        v.count++;
    }

    /* The warpgroups issue their products in turn. */
    INLINE void take_turn() {
        named_barrier_sync(TURN + index, 2 * WARPGROUP);
    }

    INLINE void pass_turn() {
        named_barrier_arrive(TURN + (index + 1) % CONSUMERS, 2 * WARPGROUP);
    }

    /* ---- Tiles ---- */

    INLINE int first_row(const tile &at) const {
        return at.row + index * WARPGROUP_ROWS;
    }

    INLINE int row_of_thread(const tile &at) const {
        return first_row(at) + thread / LANES * 16 + lane / 4;
    }

    /* Waits for the next tile. False: there is none. */
    INLINE bool next_tile(int *out_slot, key_tile_range *out_seen) {
        *out_slot = q.count % TILE_SLOTS;
        mbarrier_wait(barrier_address(Q_FULL, q.buffer()), q.parity());
        q.count++;
        if (tile_in_slot(*out_slot).row == NO_TILE) {
            return false;
        }
        if constexpr (GENERAL) {
            clear_missing_rows(*out_slot);
        }
        *out_seen = seen_in(*out_slot);
        return true;
    }

    /* Zeroes the Q rows that the sequence does not own, so that nothing there, NaN least of all, has a say in whether
     * a warp moves its references. */
    INLINE void clear_missing_rows(int of_slot) {
        const tile &at = tile_in_slot(of_slot);
        const int present = max(0, at.rows_end - first_row(at));
        if (present >= WARPGROUP_ROWS) {
            return;
        }
        unsigned char *rows_of_q = shared + of_slot % Q_BUFFERS * Q_BYTES + index * WARPGROUP_ROWS * PANEL_BYTES;
#pragma unroll 1
        for (int panel = 0; panel < PANELS; panel++) {
            clear_rows(rows_of_q + panel * TILE_ROWS * PANEL_BYTES, present, WARPGROUP_ROWS);
        }
        async_proxy_fence();
        named_barrier_sync(ALONE + index, WARPGROUP);
    }

    INLINE void clear_rows(unsigned char *panel, int begin, int end) {
        uint4 *chunks = reinterpret_cast<uint4 *>(panel);
        constexpr int chunks_of_row = PANEL_BYTES / sizeof(uint4);
#pragma unroll 1
        for (int i = begin * chunks_of_row + thread; i < end * chunks_of_row; i += WARPGROUP) {
            chunks[i] = make_uint4(0, 0, 0, 0);
        }
    }

    INLINE key_tile_range seen_in(int of_slot) const {
        const tile &at = tile_in_slot(of_slot);
        return GENERAL ? at.of[index].seen : find_seen(p, at, index);
    }

    INLINE key_tile_range clear_in(int of_slot) const {
        const tile &at = tile_in_slot(of_slot);
        return GENERAL ? at.of[index].clear : find_clear(p, at, index);
    }

    /* ---- Scores ---- */

    INLINE uint64_t q_operand(int of_slot) const {
        uint64_t found = matrix_descriptor(q_rows(of_slot, index), 16);
        asm volatile("" : "+l"(found));
        return found;
    }

    /* Before the turn, in which the others wait, and where it can be under products: what is between two steps is time
     * lost. ahead: of so many key tiles. */
    INLINE void find_operands(int ahead) {
        const ring<STAGES> next_k = {k.count + ahead};
        const ring<STAGES> next_v = {v.count + ahead};
        operands.k = matrix_descriptor(shared_address(K_OFFSET) + next_k.buffer() * K_BYTES, 16);
        operands.v = matrix_descriptor(shared_address(V_OFFSET) + next_v.buffer() * V_BYTES, TILE_KEYS * PANEL_BYTES);
        const bool has_k = mbarrier_test(barrier_address(K_FULL, next_k.buffer()), next_k.parity());
        const bool has_v = mbarrier_test(barrier_address(V_FULL, next_v.buffer()), next_v.parity());
        operands.are_there = has_k && has_v;
        asm volatile("" : "+l"(operands.k), "+l"(operands.v));
    }

    INLINE void issue_scores(uint64_t q_tile) {
        mma_fence();
#pragma unroll
        for (int step = 0; step < HEAD_DIM / 16; step++) {
            product<TILE_KEYS>::from_shared(scores, q_tile + column_step(step, TILE_ROWS),
                                            operands.k + column_step(step, TILE_KEYS), step > 0);
        }
        mma_commit();
    }

    /* Hides what rows do not see of a key tile: right of their diagonals or past the last key, and left of a window. */
    INLINE void hide(int key_tile) {
        const tile &at = tile_in_slot(slot);
        const int base = key_tile * TILE_KEYS + lane % 4 * 2;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const int place = place_of_row(p, row_of_thread(at) + 8 * row);
            uint32_t seen = scores_before(keys_end(p, at, place) - base);
            if constexpr (WINDOWS) {
                seen &= ~scores_before(keys_begin(at, place) - base);
            }
            hide_unset(scores, row, seen);
        }
    }

    /* Softmax of a tile's first S, which starts the rows. */
    INLINE void start_softmax() {
        change_scores(p, scores);
        if (seen.end > clear.end || seen.end <= clear.begin) {
            hide(seen.end - 1);
        }
        start_rows(&rows);
        softmax_by_maximum(scores, p.score_factor, false, &rows, weights);
        start_credit(&rows);
        rows.cap_misses = p.first_cap * CAP_MISSES;
        pin(weights);
    }

    /* ---- Output ---- */

    INLINE void issue_output() {
        mma_fence();
#pragma unroll
        for (int step = 0; step < TILE_KEYS / 16; step++) {
            product<HEAD_DIM_V>::from_registers(output, weights + 4 * step,
                                                operands.v + descriptor_step(step * 16 * PANEL_BYTES),
                                                step > 0 || has_output);
        }
        has_output = true;
        mma_commit();
    }

    INLINE void scale_output(const float (&factor)[2]) {
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++) {
            output[i] *= factor[row_of_score(i)];
        }
        pin(output);
    }

    /* Zeroes the V rows past the last key: there lies the next sequence, or a page's unused end, and 0 * NaN is NaN.
     * The first warpgroup that sees them does so, and the others that see them wait for it. */
    INLINE void clear_tail() {
        const tile &at = tile_in_slot(slot);
        const int first = max(0, at.keys - (at.key_tiles_end - 1) * TILE_KEYS);
        if (first >= TILE_KEYS) {
            return;
        }
        const uint32_t clear = barrier_address(TAIL_CLEAR, tails.buffer());
        const uint32_t parity = tails.parity();
        tails.count++;
        const int row = first_row(at);
        if (seen.end < at.key_tiles_end || row >= at.rows_end) {
            return;
        }
        if (index > 0 && at.of[index - 1].seen.end == at.key_tiles_end) {
            mbarrier_wait(clear, parity);
            return;
        }
        wait_v();
        unsigned char *to = shared + V_OFFSET + v.buffer() * V_BYTES;
#pragma unroll 1
        for (int panel = 0; panel < PANELS_V; panel++) {
            clear_rows(to + panel * TILE_KEYS * PANEL_BYTES, first, TILE_KEYS);
        }
        async_proxy_fence();
        named_barrier_sync(ALONE + index, WARPGROUP);
        if (thread == 0) {
            mbarrier_arrive(clear);
        }
    }

    /* Whether the tile in hand is a part of one, in all lanes alike. */
    INLINE bool is_part() const {
        return SPLITS && __any_sync(ALL_LANES, state_in_slot(slot) != NO_STATE);
    }

    /* LSE, and what O is to be multiplied by. Of the four lanes that share two rows, the even ones see to the upper
     * one. A part leaves what its rows have come to. */
    INLINE void finish_rows() {
        const tile &at = tile_in_slot(slot);
        if (is_part()) {
            leave_rows_of_part(rows, find_state(p, state_in_slot(slot), index));
            rows.factor[0] = factor_due(rows, 0);
            rows.factor[1] = factor_due(rows, 1);
            pin(rows.factor);
            return;
        }
        const int which = lane % 2;
        const output_row row = find_output_row(p, at, row_of_thread(at) + 8 * which);
        const float reference = which == 0 ? rows.reference[0] : rows.reference[1];
        const finished_row finished = finish_row(p, reference, sum_of_lanes_row(rows.sum), row.head);
        store_lse(p, at, row, finished.lse);
        const float factor = IS_F16 ? finished.factor * factor_due(rows, which) : finished.factor;
        const float factor_of_other = __shfl_xor_sync(ALL_LANES, factor, 1);
        rows.factor[0] = which == 0 ? factor : factor_of_other;
        rows.factor[1] = which == 0 ? factor_of_other : factor;
        pin(rows.factor);
    }

    INLINE void store_directly(const tile &at) {
        if constexpr (SPLITS) {
            if (is_part()) {
                leave_output_of_part(output, find_state(p, state_in_slot(slot), index));
                return;
            }
        }
        for (int which = 0; which < 2; which++) {
            const output_row row = find_output_row(p, at, row_of_thread(at) + 8 * which);
            if (row.exists) {
                store_output_row(p, at, row, which, output);
            }
        }
    }

    INLINE void finish_tile() {
        const tile &at = tile_in_slot(slot);
        scale_output(rows.factor);
        bool goes_directly = is_stored_directly(p, at, index);
        if constexpr (SPLITS) {
            goes_directly = goes_directly || is_part();
        }
        if (goes_directly) {
            store_directly(at);
        }
        leave_output(goes_directly);
    }

    /* For the warp that stores. All four warps are past their last read of Q: the warpgroup has taken a turn since. */
    INLINE void leave_output(bool is_stored) {
        if constexpr (O_APART) {
            const uint32_t parity = (q.count - 1) & 1; /* of tiles before this one */
            mbarrier_wait(barrier_address(O_FREE, index), index == 0 ? parity ^ 1 : parity);
        }
        if (!is_stored) {
            stage_output(output_rows(slot, index), thread, output);
            async_proxy_fence();
        }
        __syncwarp();
        if (lane == 0) {
            mbarrier_arrive(barrier_address(O_STAGED, O_APART ? 0 : slot % Q_BUFFERS));
        }
    }

    /* Where O does not leave through it, Q has been read once this warpgroup's last S is there. */
    INLINE void release_q_early(int key_tile) {
        if (O_APART && key_tile == seen.begin && lane == 0) {
            mbarrier_arrive(barrier_address(Q_EMPTY, 0));
        }
    }

    /* ---- Steps ---- */

    /* S of one key tile and O += P V of the one before in one turn. */
    INLINE void issue_products(int scores_slot) {
        const uint64_t q_tile = q_operand(scores_slot);
        if (!operands.are_there) {
            wait_k();
        }
        take_turn();
        issue_scores(q_tile);
        if (!operands.are_there) {
            wait_v();
        }
        issue_output();
        pass_turn();
    }

    template <int COPY = 0> INLINE void wait_products() {
        find_operands(1);
        mma_wait<0, COPY>();
        pin(scores);
        pin(output);
        release_k();
        release_v();
    }

    /* The softmax that follows lies under the products of the other warpgroups. */
    template <int COPY> INLINE void end_products(int key_tile) {
        wait_products<COPY>();
        release_q_early(key_tile);
        if (IS_F16 && rows.is_due) {
            const float factor[2] = {factor_due(rows, 0), factor_due(rows, 1)};
            scale_output(factor);
            rows.due = 0;
            rows.is_due = false;
        }
    }

    /* Where some rows may not see all keys, or not have seen one yet. */
    INLINE void step_at_end(int key_tile) {
        issue_products(slot);
        end_products<0>(key_tile);
        change_scores(p, scores);
        hide(key_tile);
        if (softmax_by_maximum(scores, p.score_factor, false, &rows, weights).moves) {
            scale_output(rows.factor);
        }
        pin(weights);
    }

    INLINE by_sum try_sum(float (&sum)[2]) {
        if constexpr (SOFTCAP) {
            return softmax_capped_by_sum(p, scores, &rows, weights, sum);
        } else {
            return softmax_by_sum(scores, p.score_factor, &rows, weights, sum);
        }
    }

    /* Returns whether O must be multiplied by rows.factor. */
    INLINE bool end_by_maximum() {
        if constexpr (SOFTCAP) {
            change_scores(p, scores);
        }
        const found_by_maximum found = softmax_by_maximum(scores, p.score_factor, rows.credit == 0, &rows, weights);
        rows.credit += found.is_fit ? 1 : -CREDIT_MOVED;
        return found.moves;
    }

    /* Of key tiles that all rows see, down to end. What small sums do not need lies behind their loop: a jump into code
     * that is not at hand takes long. */
    INLINE void run_clear_steps(int key_tile, int end) {
#pragma unroll 1
        while (true) {
            issue_products(slot);
            const bool goes_by_sum = !BY_MAXIMUM && rows.credit > 0;
            if constexpr (!DECIDES_EARLY) {
                end_products<0>(key_tile);
            }
            by_sum found = BY_SUM_NOT;
            float sum[2];
            if (!goes_by_sum) {
                if constexpr (DECIDES_EARLY) {
                    end_products<1>(key_tile);
                }
            } else {
                if constexpr (DECIDES_EARLY) {
                    end_products<2>(key_tile);
                }
                found = try_sum(sum);
                if (found == BY_SUM_DONE) {
                    pin(weights);
                    if (--key_tile >= end) {
                        continue;
                    }
                    return;
                }
            }
            bool moves = !IS_F16;
            if (found == BY_SUM_NOT || !add_large_sums(&rows, sum, weights)) {
                moves = end_by_maximum();
            }
            if (moves) {
                scale_output(rows.factor);
            }
            pin(weights);
            if (--key_tile < end) {
                return;
            }
        }
    }

    INLINE void pass_k(int key_tiles) {
#pragma unroll 1
        for (int i = 0; i < key_tiles; i++) {
            wait_k();
            release_k();
        }
    }

    INLINE void pass_v(int key_tiles) {
#pragma unroll 1
        for (int i = 0; i < key_tiles; i++) {
            wait_v();
            release_v();
        }
    }

    /* A tile's first S, without a product of the tile before beside it. */
    INLINE void start_scores(int of_slot, bool takes_turn) {
        find_operands(0);
        const uint64_t q_tile = q_operand(of_slot);
        wait_k();
        if (takes_turn) {
            take_turn();
        }
        issue_scores(q_tile);
        if (takes_turn) {
            pass_turn();
        }
        mma_wait();
        pin(scores);
        release_k();
        find_operands(0);
    }

    /* A tile that starts on its own, after some turns; the last of them is for the first S. */
    INLINE void start_tile(int turns) {
#pragma unroll 1
        for (int i = 0; i < turns; i++) {
            pass_k(1);
            pass_v(1);
            if (i < turns - 1) {
                take_turn();
                pass_turn();
            }
        }
        start_scores(slot, turns > 0);
    }

    /* The keys' right end, what all rows see, and the left end, in two loops: code that is jumped over is slow, too. */
    INLINE void run_steps() {
        int key_tile = seen.end - 2;
        int ends_at = max(seen.begin, clear.end);
        while (true) {
#pragma unroll 1
            for (; key_tile >= ends_at; key_tile--) {
                step_at_end(key_tile);
            }
            if (key_tile < seen.begin) {
                break;
            }
            ends_at = seen.begin;
            const int end = max(seen.begin, clear.begin);
            if (key_tile >= end) {
                run_clear_steps(key_tile, end);
                key_tile = min(key_tile, end - 1);
            }
        }
    }

    /* The last O += P V of a tile that the next one does not start beside. */
    INLINE void end_tile(bool takes_turn) {
        wait_v();
        if (takes_turn) {
            take_turn();
        } else if (RUNS_ON) {
            named_barrier_sync(ALONE + index, WARPGROUP); /* as a turn does: O goes where Q is */
        }
        issue_output();
        if (takes_turn) {
            pass_turn();
        }
        mma_wait();
        pin(output);
        release_v();
        finish_rows();
    }

    /* The same where the others take turns more in this tile. So does this warpgroup before it waits for the next one:
     * the scout fetches that when all are a step into this tile, and a warpgroup whose key tiles begin late gets there
     * only in turn. Returns how many of the first key tiles, which no row here sees, are left to pass. */
    INLINE int end_tile_early(int turns, int unseen) {
        end_tile(true);
#pragma unroll 1
        for (int i = 0; i < turns; i++) {
            if (unseen > 0) {
                pass_k(1);
                pass_v(1);
                unseen--;
            }
            if (i < turns - 1) {
                take_turn();
                pass_turn();
            }
        }
        return unseen;
    }

    /* The turn between two tiles, in which the next one may start. passed: key tiles between those that rows here see
     * of either. */
    INLINE void join_tiles(bool ended, bool more, bool starts, int next_slot, int passed) {
        if (WINDOWS && passed > 0) {
            pass_k(passed);
            find_operands(0);
        }
        if (starts && !ended) {
            issue_products(next_slot);
            finish_rows();
            wait_products();
        } else if (starts) {
            start_scores(next_slot, true);
        } else if (!ended) {
            end_tile(more);
        } else if (more) {
            take_turn();
            pass_turn();
        }
        if (WINDOWS && passed > 0) {
            pass_v(passed);
            find_operands(0);
        }
    }

    /* Key tiles at a tile's end that no row here sees, and for which no turn is taken. */
    INLINE int passed_before(int of_slot, const key_tile_range &of_tile) const {
        const tile &at = tile_in_slot(of_slot);
        return WINDOWS ? at.key_tiles_end - of_tile.end - turns_before(at, of_tile) : 0;
    }

    INLINE void pass_before_start() {
        if constexpr (WINDOWS) {
            const int passed = passed_before(slot, seen);
            pass_k(passed);
            pass_v(passed);
        }
    }

    INLINE void run() {
        if (index == CONSUMERS - 1) {
            pass_turn(); /* the turn starts at warpgroup 0 */
        }
        int next_slot = 0;
        key_tile_range next_seen = {0, 0};
        bool more = next_tile(&next_slot, &next_seen);
        bool started = false; /* the first S of the next tile is there */
        while (more) {
            slot = next_slot;
            seen = GENERAL ? seen_in(slot) : next_seen;
            clear = clear_in(slot);
            if (!RUNS_ON || q.count == 1) {
                pass_before_start();
            }
            if (!started) {
                start_tile(turns_before(tile_in_slot(slot), seen));
            }
            release_q_early(seen.end - 1);
            start_softmax();
            if constexpr (GENERAL) {
                clear_tail();
            }
            has_output = false;
            run_steps();
            const int turns = turns_after(tile_in_slot(slot), seen);
            int passed = WINDOWS ? seen.begin - tile_in_slot(slot).key_tiles_begin : 0;
            if (turns > 0) {
                passed = end_tile_early(turns, passed);
            }
            started = false;
            if (RUNS_ON) {
                more = next_tile(&next_slot, &next_seen);
                if (more) {
                    started = turns_before(tile_in_slot(next_slot), next_seen) == 0;
                    passed += passed_before(next_slot, next_seen);
                }
            }
            join_tiles(turns > 0, RUNS_ON && more, started, next_slot, passed);
            finish_tile();
            if (!RUNS_ON) {
                more = next_tile(&next_slot, &next_seen);
            }
        }
    }
};

} // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    ATTUNE_SYMBOL(const __grid_constant__ attune_sm90_forward_params p) {
    const int warpgroup = __shfl_sync(ALL_LANES, threadIdx.x / WARPGROUP, 0);
    if (threadIdx.x == 0) {
        barriers_init();
    }
    __syncthreads();
    if constexpr (SPLITS) {
        let_next_launch_begin(); /* the merge */
    }
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(PRODUCER_REGISTERS));
        const int warp = threadIdx.x / LANES;
        if (GENERAL || threadIdx.x % LANES == 0) {
            load(p, warp);
            if (warp == 3) {
                storer(p).run();
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMER_REGISTERS));
        consumer(p, warpgroup - 1).run();
    }
}
