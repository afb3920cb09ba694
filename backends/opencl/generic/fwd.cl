/*
 * The forward. A work-group has a tile of rows of one head, or of several that share a tile, and walks tiles of keys.
 * Source: arXiv 2307.08691, algorithm 1.
 *
 * product.h says what the build sets for tiles; besides: ATTUNE_HEAD_DIM, D rounded up to ATTUNE_DEPTH, 0 unless Q
 * stays in local memory, or ATTUNE_AHEAD is set and slices end where vectors do; ATTUNE_HEAD_DIM_V, Dv rounded up to
 * ATTUNE_COLUMNS; ATTUNE_RESIDENT, whether Q stays in local memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/run.h"

#include "backends/opencl/generic/ahead.h"
#include "backends/opencl/generic/combine.h"
#include "backends/opencl/generic/operands.h"
#include "backends/opencl/generic/score.h"

/* ---- Local memory, in floats: Q, K or V, weights, the rows' state ---- */

#if ATTUNE_AHEAD
#    define HELD_FLOATS   0
#    define WALKED_FLOATS (2 * SLICE_OUT)
#    define SCORES_FLOATS (SLICES_SCORES > TILE_WEIGHTS ? SLICES_SCORES : TILE_WEIGHTS)
#else
#    define HELD_FLOATS   ((ATTUNE_RESIDENT ? ATTUNE_HEAD_DIM : DEPTH) * HELD)
#    define WALKED_FLOATS (TILE_WALKED > TILE_OUT ? TILE_WALKED : TILE_OUT)
#    define SCORES_FLOATS TILE_SCORES
#    define WEIGHT_LINE   HELD
#endif

typedef struct tiles {
    __local float *q;
    __local float *kv;
    __local float *score; /* then weights */
    __local float *max;   /* of each row */
    __local float *factor;
} tiles;

/* ---- Softmax ---- */

/* Raises each row's maximum, and finds the factor by which what is summed so far is multiplied. score.h's tile serves
 * for the maxima of work-items. */
FN void raise_max(const tiles *local_, const FLOATS *score) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        FLOATS max = (FLOATS)-INFINITY;
        FOR_BLOCKS
        for (int n = 0; n < WALKED_BLOCKS * LINES; n++) {
            max = fmax(max, score[h * WALKED_BLOCKS * LINES + n]);
        }
        AT(local_->score + place_down(thread, ATTUNE_HELD_THREADS) * HELD + held_of(thread, h)) = max;
    }
    BARRIER();
    for (int held = thread * VECTOR; held < HELD; held += THREADS * VECTOR) {
        const FLOATS before = AT(local_->max + held);
        FLOATS max = before;
        for (int n = 0; n < ATTUNE_WALKED_THREADS; n++) {
            max = fmax(max, AT(local_->score + n * HELD + held));
        }
        AT(local_->max + held) = max;
        AT(local_->factor + held) = softmax_weight(before, softmax_base(max));
    }
    BARRIER();
}

/* Weights, also as a tile; adds them to the work-item's share of each row's sum. */
FN void weigh(const tiles *local_, FLOATS *score, FLOATS *sum) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        const int held = held_of(thread, h);
        const FLOATS base = softmax_base(AT(local_->max + held));
        FLOATS part = (FLOATS)0.0f;
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                FLOATS *s = &score[score_at(h, w, i)];
                *s = softmax_weight(*s, base);
                part += *s;
                AT(local_->score + (walked_of(thread, w) + i) * WEIGHT_LINE + held) = *s;
            }
        }
        sum[h] = sum[h] * AT(local_->factor + held) + part;
    }
}

#if ATTUNE_GENERAL
/* The tile of weights times Z. */
FN void drop(parameters p, const options *given, const attune_opencl_run *run, const place *at, const window *seen,
             attune_i64 first_key, const tiles *local_, const FLOATS *weight) {
    const int thread = get_local_id(0);
    if (p->dropout_threshold == 0) {
        return;
    }
    fill_dropout(p, at, seen, make_dropout(p, given, run), first_key, local_->score);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                __local float *line = local_->score + (walked_of(thread, w) + i) * HELD + held_of(thread, h);
                AT(line) *= weight[score_at(h, w, i)];
            }
        }
    }
}
#endif

FN void rescale(const tiles *local_, FLOATS *o) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < OUT_BLOCKS; h++) {
        FOR_BLOCKS
        for (int i = 0; i < OUT_LINES; i++) {
            const float factor = local_->factor[out_held_of(thread, h) + i];
            FOR_BLOCKS
            for (int c = 0; c < ATTUNE_HEAD_DIM_V / COLUMNS_ACROSS; c++) {
                o[(c * OUT_BLOCKS + h) * OUT_LINES + i] *= factor;
            }
        }
    }
}

#if ATTUNE_AHEAD
/* o = factor o + part. The tile's own sum is made first: one long sum of 2^16 terms would be off by several 1e-6. */
FN void add_rescaled(const tiles *local_, const FLOATS *part, FLOATS *o) {
    const int thread = get_local_id(0);
#    pragma unroll
    for (int h = 0; h < OUT_BLOCKS; h++) {
#    pragma unroll
        for (int i = 0; i < OUT_LINES; i++) {
            const float factor = local_->factor[out_held_of(thread, h) + i];
#    pragma unroll
            for (int c = 0; c < COLUMN_BLOCKS; c++) {
                const int n = (c * OUT_BLOCKS + h) * OUT_LINES + i;
                o[n] = o[n] * factor + part[n];
            }
        }
    }
}
#endif

/* ---- Rows ---- */

typedef struct work {
    place at;
    attune_i64 split;
    attune_i64 first;      /* row of the tile; with pack heads to a tile, as vectors has positions */
    attune_interval rows;  /* rows that the tile has of the sequence */
    attune_interval tiles; /* of keys */
} work;

FN work find_work(parameters p, const options *given, int group) {
    work found;
    const attune_work unfolded = attune_work_unfold(group, p->row_tiles, p->splits);
    const attune_i64 packs = p->heads_q / PACK(p);
    found.at = find_place(p, given, unfolded.batch_head / packs, unfolded.batch_head % packs * PACK(p));
    found.split = unfolded.split;
    /* With a causal mask the last rows have most work: they begin first. */
    found.first = (p->row_tiles - 1 - unfolded.row_tile) * HELD;
    found.rows.begin = found.first / PACK(p);
    found.rows.end = attune_clamp((found.first + HELD - 1) / PACK(p) + 1, found.rows.begin, found.at.mask.rows);
    attune_interval keys;
    keys.begin = 0;
    keys.end = 0;
    if (found.rows.begin < found.rows.end) {
        keys = attune_mask_keys(found.at.mask, found.rows.begin, found.rows.end - found.rows.begin);
    }
    found.tiles = attune_split_tiles(attune_interval_tiles(keys, WALKED), p->splits, unfolded.split);
    return found;
}

/* A row's own logit besides its keys; exactly one split has it. */
FN float sink_of(parameters p, const options *given, const work *doing, attune_i64 position) {
    return given->sink == 0 || doing->split != 0 ? -INFINITY
                                                 : given->sink[(doing->at.head + position % PACK(p)) * p->sink.axis[0]];
}

FN window begin_rows(parameters p, const options *given, const work *doing, const tiles *local_, window seen) {
    const place *at = &doing->at;
    seen.origin = doing->tiles.begin * WALKED;
    seen.held_is_keys = false;
    seen.first_held = doing->first;
    seen.common.begin = 0;
    seen.common.end = 0;
    if (doing->rows.begin < doing->rows.end) {
        seen.common = attune_mask_common_keys(at->mask, doing->rows.begin, doing->rows.end - doing->rows.begin);
    }
    for (int n = get_local_id(0); n < HELD; n += THREADS) {
        const attune_i64 row = (doing->first + n) / PACK(p);
        attune_interval sees;
        sees.begin = seen.origin;
        sees.end = seen.origin;
        if (row < at->mask.rows) {
            sees = attune_mask_keys(at->mask, row, 1);
        }
        set_seen(&seen, n, sees);
        local_->max[n] = sink_of(p, given, doing, doing->first + n);
#if ATTUNE_GENERAL
        if (given->alibi_slopes != 0) {
            const attune_i64 head = at->head + (doing->first + n) % PACK(p);
            seen.slope[n] = given->alibi_slopes[at->batch * p->alibi_slopes.axis[0] + head * p->alibi_slopes.axis[1]];
            seen.diagonal[n] = row + at->mask.shift - seen.origin;
        }
#endif
    }
    return seen;
}

#if !ATTUNE_AHEAD
/* The next tile of keys that has a listed pair, from index on. */
FN attune_i64 next_tile(parameters p, const options *given, const work *doing, attune_i64 index) {
#    if ATTUNE_GENERAL
    for (; index < doing->tiles.end; index++) {
        const attune_interval keys =
            attune_interval_cut(index * WALKED, index * WALKED + WALKED, 0, doing->at.mask.keys);
        if (tile_is_listed(p, given, &doing->at, doing->rows, keys)) {
            break;
        }
    }
#    endif
    return index;
}
#endif

/* ---- Epilogue: O / l and LSE ---- */

/* Where a split leaves what a row's weights add up to; its maximum goes where partial_lse is: an lse of both would lose
 * the sum beside a maximum like -1e30. */
FN __global float *partial_sum(parameters p, const work *doing, attune_i64 position, __global uchar *workspace) {
    return (__global float *)(workspace + p->own) +
           attune_partial_row(p->batch, p->heads_q, p->rows, doing->split, doing->at.batch,
                              doing->at.head + position % PACK(p), position / PACK(p));
}

/* Sums over the work-items that share a row. Leaves 1 / l in factor, by which o is multiplied, or 1 for a split. lse:
 * no data if it is not wanted. */
FN void finish_rows(parameters p, const options *given, const work *doing, const tiles *local_, const vectors *lse,
                    __global uchar *workspace, const FLOATS *sum) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        AT(local_->score + place_down(thread, ATTUNE_HELD_THREADS) * HELD + held_of(thread, h)) = sum[h];
    }
    BARRIER_ALL(); /* o may be about to be written in q's place, which others have read */
    for (int n = thread; n < HELD; n += THREADS) {
        attune_softmax state = attune_softmax_from_logit(sink_of(p, given, doing, doing->first + n));
        /* The sink's own weight, relative to the row's maximum. */
        state.sum *= attune_softmax_weight(state.max, attune_softmax_base(local_->max[n]));
        state.max = local_->max[n];
        for (int share = 0; share < ATTUNE_WALKED_THREADS; share++) {
            state.sum += local_->score[share * HELD + n];
        }
        const attune_softmax_result result = attune_softmax_finish(state);
        local_->factor[n] = p->splits == 1 ? result.inverse : 1.0f;
        if (lse->data != 0 && doing->first + n < lse->exist_end) {
            ((__global float *)lse->data)[vector_index(lse, doing->first + n)] =
                p->splits == 1 ? result.lse : state.max;
            if (p->splits > 1) {
                *partial_sum(p, doing, doing->first + n, workspace) = state.sum;
            }
        }
    }
    BARRIER();
}

/* Where o and lse go: to the call's, or to those of this split. */
FN vectors o_vectors(parameters p, const work *doing, __global uchar *o, __global uchar *workspace) {
    const place *at = &doing->at;
    if (p->splits == 1) {
        return row_vectors(p, at, o, p->o_dtype, &p->o, p->head_dim_v);
    }
    const attune_i64 row = attune_partial_row(p->batch, p->heads_q, p->rows, doing->split, at->batch, at->head, 0);
    return packed_vectors(p, at, workspace + p->partial_o, ATTUNE_OPENCL_F32, p->head_dim_v, p->head_dim_v * row,
                          p->head_dim_v, p->head_dim_v * p->rows);
}

FN vectors lse_vectors(parameters p, const work *doing, __global uchar *lse, __global uchar *workspace) {
    const place *at = &doing->at;
    if (p->splits == 1) {
        const attune_i64 first =
            at->batch * p->lse.axis[0] + at->head * p->lse.axis[1] + at->row_begin * p->lse.axis[2];
        return packed_vectors(p, at, lse, ATTUNE_OPENCL_F32, 1, first, p->lse.axis[2], p->lse.axis[1]);
    }
    const attune_i64 row = attune_partial_row(p->batch, p->heads_q, p->rows, doing->split, at->batch, at->head, 0);
    return packed_vectors(p, at, workspace + p->partial_lse, ATTUNE_OPENCL_F32, 1, row, 1, p->rows);
}

/* ---- Forward ---- */

/* Keys that some row of the tile may see: pages without one may hold anything. */
static attune_interval keys_of(const work *doing) {
    attune_interval keys;
    keys.begin = 0;
    keys.end = 0;
    if (doing->rows.begin < doing->rows.end) {
        keys = attune_mask_keys(doing->at.mask, doing->rows.begin, doing->rows.end - doing->rows.begin);
    }
    return keys;
}

#define LOCAL_TILES()                                                                                                  \
    __local float pool[HELD_FLOATS + WALKED_FLOATS + SCORES_FLOATS + 2 * HELD] __attribute__((aligned(64)));           \
    __local int pool_seen[2 * HELD] __attribute__((aligned(64)));                                                      \
    tiles local_;                                                                                                      \
    local_.q = pool;                                                                                                   \
    local_.kv = local_.q + HELD_FLOATS;                                                                                \
    local_.score = local_.kv + WALKED_FLOATS;                                                                          \
    local_.max = local_.score + SCORES_FLOATS;                                                                         \
    local_.factor = local_.max + HELD;                                                                                 \
    window seen;                                                                                                       \
    seen.begin = pool_seen;                                                                                            \
    seen.end = pool_seen + HELD

#if ATTUNE_GENERAL
#    define LOCAL_ALIBI()                                                                                              \
        __local float pool_slope[HELD] __attribute__((aligned(64)));                                                   \
        __local attune_i64 pool_diagonal[HELD] __attribute__((aligned(128)));                                          \
        seen.slope = pool_slope;                                                                                       \
        seen.diagonal = pool_diagonal
#else
#    define LOCAL_ALIBI()
#endif

/* ---- Slices that are loaded ahead ---- */

#if ATTUNE_AHEAD

/* What a work-group walks over, in 32 bits, and found once, for the sake of registers. */
typedef struct walk {
    source q, k, v;
    extent rows; /* from the tile's first row on */
    extent keys; /* from the first tile's first key on */
    int tiles;
    int first_common; /* of the tiles in which every row sees every key */
    int end_common;
} walk;

FN walk make_walk(const work *doing, const window *seen, const vectors *q, const vectors *k, const vectors *v) {
    const attune_i64 begin = doing->tiles.begin;
    walk made;
    made.q = make_source(q, doing->first, DEPTH);
    made.k = make_source(k, begin * WALKED, DEPTH);
    made.v = make_source(v, begin * WALKED, COLUMNS);
    made.rows = make_extent(q, doing->first);
    made.keys = make_extent(k, begin * WALKED);
    made.tiles = kept((int)(doing->tiles.end - begin));
    made.first_common = kept((int)((seen->common.begin + WALKED - 1) / WALKED - begin));
    made.end_common = kept((int)(seen->common.end / WALKED - begin));
    return made;
}

FN bool is_common(const walk *over, int tile) {
    return tile >= over->first_common && tile < over->end_common;
}

/* Slices of q and of a tile of keys set off: q and k are at them, d is their first element. */
FN void fetch_tile(const walk *over, int tile, int d, ahead *next) {
    fetch_scores(&over->q, over->rows, &over->k, extent_from(over->keys, tile * WALKED),
                 is_common(over, tile) && covers(over->rows, HELD), d, next);
}

FN void scale_scores(float scale, FLOATS *score) {
#    pragma unroll
    for (int n = 0; n < SCORES; n++) {
        score[n] *= scale;
    }
}

#    define SLICED_DIM(of) (ATTUNE_HEAD_DIM != 0 ? ATTUNE_HEAD_DIM : (of)->length)

/* S = Q K^T. The tile's first slices are on their way; the first of V sets off with the last of them. */
FN void walk_scores(walk *over, int tile, __local float *slices, ahead *next, FLOATS *score) {
    CLEAR(SCORES, score);
    put_scores(next, 0, slices);
    BARRIER();
#    pragma unroll 1
    for (int d = 0; d < SLICED_DIM(&over->k); d += DEPTH) {
        const int place = d / DEPTH % 2;
        const bool is_last = d + DEPTH >= SLICED_DIM(&over->k);
        if (is_last) {
            fetch_out(&over->v, extent_from(over->keys, tile * WALKED), is_common(over, tile), next);
        } else {
            move_on(&over->q, 0, DEPTH);
            move_on(&over->k, 0, DEPTH);
            fetch_tile(over, tile, d + DEPTH, next);
        }
        multiply_slice(slices + 2 * SLICE_HELD + place * SLICE_WALKED, slices + place * SLICE_HELD, score);
        if (!is_last) {
            put_scores(next, !place, slices);
        }
        BARRIER();
    }
    const int moved = (SLICED_DIM(&over->k) + DEPTH - 1) / DEPTH * DEPTH - DEPTH;
    move_on(&over->q, 0, -moved);
    move_on(&over->k, WALKED, -moved);
}

/* P V of the tile. Its first slice is in its place; the first slices of the next tile set off with the last of V. */
FN void walk_values(walk *over, int tile, const tiles *local_, ahead *next, FLOATS *part) {
    CLEAR(OUTS(ATTUNE_HEAD_DIM_V), part);
#    pragma unroll 1
    for (int step = 0; step < WALKED; step += STEPS) {
        const int place = step / STEPS % 2;
        const bool is_last = step + STEPS >= WALKED;
        move_on(&over->v, STEPS, 0);
        if (is_last) {
            fetch_tile(over, tile + 1, 0, next);
        } else {
            fetch_out(&over->v, extent_from(over->keys, tile * WALKED + step + STEPS), is_common(over, tile), next);
        }
        multiply_weights(local_->score + step * WEIGHT_LINE, local_->kv + place * SLICE_OUT, part);
        if (!is_last) {
            put_out(next, !place, local_->kv);
        }
        BARRIER();
    }
}

#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_forward(__constant const attune_opencl_attention *p, const attune_opencl_run run, __global uchar *workspace,
               FORWARD_OPERANDS) {
    LOCAL_TILES();
    LOCAL_ALIBI();
    const options given = FORWARD_OPTIONS;
    const work doing = find_work(p, &given, get_group_id(0));
    const attune_interval keys = keys_of(&doing);
    const vectors from_q = q_vectors(p, &given, &doing.at, OPERAND(0, q));
    const vectors from_k = k_vectors(p, &given, &doing.at, OPERAND(1, k), keys);
    const vectors from_v = v_vectors(p, &given, &doing.at, OPERAND(2, v), keys);
    FLOATS sums[OUTS(ATTUNE_HEAD_DIM_V)];
    FLOATS score[SCORES];
    FLOATS sum[HELD_BLOCKS];

    /* Load Q. */
    if (ATTUNE_RESIDENT) {
        for (int d = 0; d < ATTUNE_HEAD_DIM; d += DEPTH) {
            load_by_depth(&from_q, doing.first, HELD, d, DEPTH, local_.q + d * HELD);
        }
    }
    seen = begin_rows(p, &given, &doing, &local_, seen);
    CLEAR(OUTS(ATTUNE_HEAD_DIM_V), sums);
    CLEAR(HELD_BLOCKS, sum);

#if ATTUNE_AHEAD
    FLOATS part[OUTS(ATTUNE_HEAD_DIM_V)];
    ahead next;
    walk over = make_walk(&doing, &seen, &from_q, &from_k, &from_v);
    fetch_tile(&over, 0, 0, &next);
    for (int tile = 0; tile < over.tiles; tile++) {
        walk_scores(&over, tile, local_.score, &next, score);
        scale_scores(run.scale, score);
        if (!is_common(&over, tile)) {
            hide_pairs(&seen, tile * WALKED, score);
        }
        raise_max(&local_, score);
        put_out(&next, 0, local_.kv);
        weigh(&local_, score, sum);
        BARRIER();
        walk_values(&over, tile, &local_, &next, part);
        add_rescaled(&local_, part, sums);
    }
#else
    for (attune_i64 index = next_tile(p, &given, &doing, doing.tiles.begin); index < doing.tiles.end;
         index = next_tile(p, &given, &doing, index + 1)) {
        const attune_i64 first_key = index * WALKED;

        /* S = Q K^T. */
        walk_depth(&from_k, first_key, &from_q, doing.first, ATTUNE_RESIDENT, local_.kv, local_.q, score);

        /* Mask. */
        finish_scores(p, &given, &doing.at, &seen, run.scale, first_key, local_.score, score, 0);
#    if ATTUNE_GENERAL
        BARRIER();
#    endif

        /* Softmax update. */
        raise_max(&local_, score);
        weigh(&local_, score, sum);
#    if ATTUNE_GENERAL
        drop(p, &given, &run, &doing.at, &seen, first_key, &local_, score);
#    endif
        rescale(&local_, sums);
        BARRIER();

        /* O += P V. */
        WALK_ALL_COLUMNS(&from_v, first_key, 0, ATTUNE_HEAD_DIM_V, local_.score, local_.kv, sums);
    }
#endif

    /* Epilogue. */
#if ATTUNE_AHEAD
    /* Found once more, so that no register keeps it over the loop. */
    const work done = find_work(p, &given, kept(get_group_id(0)));
#else
    const work done = doing;
#endif
    const vectors to_lse = lse_vectors(p, &done, OPERAND(4, lse), workspace + run.workspace);
    const vectors to_o = o_vectors(p, &done, OPERAND(3, o), workspace + run.workspace);
    finish_rows(p, &given, &done, &local_, &to_lse, workspace + run.workspace, sum);
    rescale(&local_, sums);
    STORE_ALL_COLUMNS(&to_o, done.first, ATTUNE_HEAD_DIM_V, 1.0f, local_.score, sums);
}

/* ---- Probs: p / l over every key of the sequence, 0 where it is not seen. It comes before the forward, which may
 * write o in q's place ---- */

#if ATTUNE_GENERAL

/* The tile of scores, as each work-item has filled its own place, becomes probs. */
FN void store_probs(parameters p, const options *given, const work *doing, attune_i64 first_key, const tiles *local_) {
    for (int n = get_local_id(0); n < TILE_SCORES; n += THREADS) {
        const int held = n / WALKED;
        const attune_i64 position = doing->first + held;
        pair of;
        of.row = position / PACK(p);
        of.head = doing->at.head + position % PACK(p);
        of.key = first_key + n % WALKED;
        if (of.row < doing->at.mask.rows && of.key < doing->at.mask.keys) {
            /* What is not seen has no weight in a row of NaN either, which makes NaN of all it meets. */
            const float score = local_->score[n % WALKED * HELD + held];
            given->probs[pair_index(&p->probs, doing->at.batch, of)] =
                score == -ATTUNE_INFINITY
                    ? 0.0f
                    : attune_softmax_weight(score, attune_softmax_base(local_->max[held])) * local_->factor[held];
        }
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_forward_probs(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                     __global uchar *workspace, FORWARD_OPERANDS) {
    LOCAL_TILES();
    LOCAL_ALIBI();
    const options given = FORWARD_OPTIONS;
    const work doing = find_work(p, &given, get_group_id(0));
    const attune_interval keys = keys_of(&doing);
    const vectors from_q = q_vectors(p, &given, &doing.at, OPERAND(0, q));
    const vectors from_k = k_vectors(p, &given, &doing.at, OPERAND(1, k), keys);
    const vectors no_lse = lse_vectors(p, &doing, 0, 0);
    const bool has_rows = doing.rows.begin < doing.rows.end;
    const attune_i64 tiles_in_all = has_rows ? (doing.at.mask.keys + WALKED - 1) / WALKED : 0;
    FLOATS score[SCORES];
    FLOATS sum[HELD_BLOCKS];
    if (ATTUNE_RESIDENT) {
        for (int d = 0; d < ATTUNE_HEAD_DIM; d += DEPTH) {
            load_by_depth(&from_q, doing.first, HELD, d, DEPTH, local_.q + d * HELD);
        }
    }
    seen = begin_rows(p, &given, &doing, &local_, seen);
    CLEAR(HELD_BLOCKS, sum);
    /* A walk over what is seen finds m and l, one over all keys has the weights. */
    for (attune_i64 index = doing.tiles.begin; index < doing.tiles.end; index++) {
        const attune_i64 first_key = index * WALKED;
        walk_depth(&from_k, first_key, &from_q, doing.first, ATTUNE_RESIDENT, local_.kv, local_.q, score);
        finish_scores(p, &given, &doing.at, &seen, run.scale, first_key, local_.score, score, 0);
        BARRIER();
        raise_max(&local_, score);
        weigh(&local_, score, sum);
        BARRIER();
    }
    finish_rows(p, &given, &doing, &local_, &no_lse, 0, sum);
    for (attune_i64 index = 0; index < tiles_in_all; index++) {
        walk_depth(&from_k, index * WALKED, &from_q, doing.first, ATTUNE_RESIDENT, local_.kv, local_.q, score);
        finish_scores(p, &given, &doing.at, &seen, run.scale, index * WALKED, local_.score, score, 0);
        store_scores(score, local_.score);
        BARRIER();
        store_probs(p, &given, &doing, index * WALKED, &local_);
        BARRIER();
    }
}

#endif
