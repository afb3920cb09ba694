/*
 * The backward. P is recomputed by each kernel that needs it, and every output is computed by who owns it, so that the
 * order of each sum is fixed: dq by tiles of rows, dk and dv by tiles of keys, dbias by its own tiles.
 * Source: arXiv 2307.08691, algorithm 2.
 *
 * ATTUNE_HEAD_DIM and ATTUNE_HEAD_DIM_V are rounded up to ATTUNE_DEPTH and ATTUNE_COLUMNS; ATTUNE_RESIDENT: what a
 * work-group holds stays in local memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/run.h"

#include "backends/opencl/generic/bwd_rows.h"
#include "backends/opencl/generic/score.h"

/* ---- Local memory, in floats ---- */

#define HEAD_DIMS     (ATTUNE_HEAD_DIM + ATTUNE_HEAD_DIM_V)
#define HELD_FLOATS   ((ATTUNE_RESIDENT ? HEAD_DIMS : DEPTH) * HELD)
#define WALKED_FLOATS (TILE_WALKED > TILE_OUT ? TILE_WALKED : TILE_OUT)

#define ROWS_MAX (HELD > WALKED ? HELD : WALKED)

typedef struct tiles {
    __local float *held;   /* q or k; then dout or v, if they are resident */
    __local float *held_v; /* dout or v */
    __local float *walked;
    __local float *score;        /* weights, or their gradients */
    __local float *lse;          /* of each row of the tile of rows; -inf where there is none */
    __local float *rest;         /* dlse_i - D_i */
    volatile __local int *found; /* whether q, k or dout has had anything that is not finite */
} tiles;

#define LOCAL_TILES()                                                                                                  \
    __local float pool[HELD_FLOATS + WALKED_FLOATS + TILE_SCORES + 2 * ROWS_MAX] __attribute__((aligned(64)));         \
    __local int pool_seen[2 * HELD + 1] __attribute__((aligned(64)));                                                  \
    tiles local_;                                                                                                      \
    local_.held = pool;                                                                                                \
    local_.held_v = pool + (ATTUNE_RESIDENT ? ATTUNE_HEAD_DIM * HELD : 0);                                             \
    local_.walked = pool + HELD_FLOATS;                                                                                \
    local_.score = local_.walked + WALKED_FLOATS;                                                                      \
    local_.lse = local_.score + TILE_SCORES;                                                                           \
    local_.rest = local_.lse + ROWS_MAX;                                                                               \
    local_.found = pool_seen + 2 * HELD;                                                                               \
    if (get_local_id(0) == 0) {                                                                                        \
        *local_.found = 0;                                                                                             \
    }                                                                                                                  \
    window seen;                                                                                                       \
    seen.begin = pool_seen;                                                                                            \
    seen.end = pool_seen + HELD

#if ATTUNE_GENERAL
#    define LOCAL_ALIBI()                                                                                              \
        __local float pool_slope[HELD] __attribute__((aligned(64)));                                                   \
        __local attune_i64 pool_diagonal[HELD] __attribute__((aligned(128)));                                          \
        seen.slope = pool_slope;                                                                                       \
        seen.head_slope = 0.0f;                                                                                        \
        seen.diagonal = pool_diagonal
#else
#    define LOCAL_ALIBI()
#endif

/* ---- A tile of rows and one of keys ---- */

/* lse and rest of so many rows from first on. */
FN void load_rows(parameters p, const place *at, __global const float *lse, __global const float *rests,
                  attune_i64 first, int count, const tiles *local_) {
    for (int n = get_local_id(0); n < count; n += THREADS) {
        const bool exists = first + n < at->mask.rows;
        local_->lse[n] = exists ? lse[(first + n) * p->lse.axis[2]] : -INFINITY;
        local_->rest[n] = exists ? rests[first + n] : 0.0f;
    }
}

/* P o Z in weight, which holds scores, and dS in grad, which holds dP; dA if slope is NULL. Both are UNSEEN where a row
 * does not see a key, or sees none. z: the tile of Z, where the work-item reads its own place; NULL: 1. */
FN void weigh(const window *seen, const tiles *local_, __local const float *z, const FLOATS *slope, FLOATS *weight,
              FLOATS *grad) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        const int held = held_of(thread, h);
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                const int n = score_at(h, w, i);
                const int walked = walked_of(thread, w) + i;
                const FLOATS lse = seen->held_is_keys ? (FLOATS)local_->lse[walked] : AT(local_->lse + held);
                const FLOATS rest = seen->held_is_keys ? (FLOATS)local_->rest[walked] : AT(local_->rest + held);
                const FLOATS kept = z == 0 ? (FLOATS)1.0f : *(__local const FLOATS *)(z + walked * HELD + held);
                const INTS unseen = weight[n] == (FLOATS)-INFINITY | lse == (FLOATS)-INFINITY;
                const FLOATS p = softmax_weight(weight[n], lse);
                const FLOATS da = p * (kept * grad[n] + rest);
                /* + 0 takes the sign off a 0. */
                grad[n] = select((slope == 0 ? da : da * slope[n]) + 0.0f, (FLOATS)UNSEEN, unseen);
                weight[n] = select(p * kept, (FLOATS)UNSEEN, unseen);
            }
        }
    }
}

/* P o Z and dS, or dA, of a tile of walked positions. */
FN void make_pairs(parameters p, const options *given, const attune_opencl_run *run, const place *at,
                   const window *seen, const vectors *walked, const vectors *walked_v, attune_i64 first_walked,
                   const vectors *held, const vectors *held_v, const tiles *local_, bool wants_da, FLOATS *weight,
                   FLOATS *grad) {
    /* S = Q K^T, mask. */
    walk_depth(walked, first_walked, held, seen->first_held, ATTUNE_RESIDENT, local_->walked, local_->held, weight);
#if ATTUNE_GENERAL
    FLOATS slope[SCORES];
    FOR_BLOCKS
    for (int n = 0; n < SCORES; n++) {
        slope[n] = (FLOATS)1.0f;
    }
    finish_scores(p, given, at, seen, run->scale, first_walked, local_->score, weight, slope);
#else
    finish_scores(p, given, at, seen, run->scale, first_walked, local_->score, weight, 0);
#endif

    /* dP = dO V^T. */
    walk_depth(walked_v, first_walked, held_v, seen->first_held, ATTUNE_RESIDENT, local_->walked, local_->held_v, grad);

    /* P and dA, and dS. */
#if ATTUNE_GENERAL
    if (p->dropout_threshold != 0) {
        fill_dropout(p, at, seen, make_dropout(p, given, run), first_walked, local_->score);
    }
    weigh(seen, local_, p->dropout_threshold != 0 ? local_->score : 0, wants_da ? 0 : slope, weight, grad);
#else
    weigh(seen, local_, 0, 0, weight, grad);
#endif
}

FN void load_held(const vectors *held, attune_i64 first, int depth, __local float *tile) {
    for (int d = 0; d < depth; d += DEPTH) {
        load_by_depth(held, first, HELD, d, DEPTH, tile + d * HELD);
    }
}

/* ---- Tiles of rows ---- */

/* Fills what a tile of rows sees, and its lse and rest. Rows exist from first on: count of them. */
FN window hold_rows(parameters p, const options *given, const place *at, attune_i64 first, attune_i64 count,
                    attune_i64 origin, window seen) {
    seen.origin = origin;
    seen.held_is_keys = false;
    seen.first_held = first;
    seen.common = count > 0 ? attune_mask_common_keys(at->mask, first, count) : interval(0, 0);
    for (int n = get_local_id(0); n < HELD; n += THREADS) {
        const attune_i64 row = first + n;
        set_seen(&seen, n, row < at->mask.rows ? attune_mask_keys(at->mask, row, 1) : interval(origin, origin));
#if ATTUNE_GENERAL
        if (given->alibi_slopes != 0) {
            seen.slope[n] =
                given->alibi_slopes[at->batch * p->alibi_slopes.axis[0] + at->head * p->alibi_slopes.axis[1]];
            seen.diagonal[n] = row + at->mask.shift - origin;
        }
#endif
    }
    return seen;
}

/* The next tile of keys, from index on, that has a pair which is listed. */
FN attune_i64 next_key_tile(parameters p, const options *given, const place *at, attune_interval rows,
                            attune_interval tiles_, attune_i64 index) {
#if ATTUNE_GENERAL
    for (; index < tiles_.end; index++) {
        const attune_interval keys = attune_interval_cut(index * WALKED, index * WALKED + WALKED, 0, at->mask.keys);
        if (tile_is_listed(p, given, at, rows, keys)) {
            break;
        }
    }
#endif
    return index;
}

/* dQ = scale dS K. A work-group has a tile of rows of one head. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_backward_dq(__constant const attune_opencl_attention *p, const attune_opencl_run run, __global uchar *workspace,
                   BACKWARD_OPERANDS) {
    LOCAL_TILES();
    LOCAL_ALIBI();
    const options given = BACKWARD_OPTIONS;
    const attune_i64 batch_head = get_group_id(0) / p->row_tiles;
    const place at = find_place(p, &given, batch_head / p->heads_q, batch_head % p->heads_q);
    /* With a causal mask the last rows have most work: they begin first. */
    const attune_i64 first = (p->row_tiles - 1 - get_group_id(0) % p->row_tiles) * HELD;
    const attune_i64 count = attune_clamp(at.mask.rows - first, 0, HELD);
    const attune_interval keys = count > 0 ? attune_mask_keys(at.mask, first, count) : interval(0, 0);
    const attune_interval key_tiles = attune_interval_tiles(keys, WALKED);
    const attune_interval rows = interval(first, first + count);
    const vectors from_q = q_vectors(p, &given, &at, OPERAND(0, q));
    const vectors from_k = k_vectors(p, &given, &at, OPERAND(1, k), keys);
    const vectors from_v = v_vectors(p, &given, &at, OPERAND(2, v), keys);
    const vectors from_dout = dout_vectors(p, &at, OPERAND(5, dout));
    const vectors to_dq = row_vectors(p, &at, OPERAND(7, out), p->dq_dtype, &p->dq, p->head_dim);
    FLOATS sums[OUTS(ATTUNE_HEAD_DIM)];

    seen = hold_rows(p, &given, &at, first, count, key_tiles.begin * WALKED, seen);
    load_rows(p, &at, rows_of(&at, OPERAND(4, lse), &p->lse), rests_of(p, &at, workspace + run.workspace), first, HELD,
              &local_);
    if (ATTUNE_RESIDENT) {
        load_held(&from_q, first, ATTUNE_HEAD_DIM, local_.held);
        load_held(&from_dout, first, ATTUNE_HEAD_DIM_V, local_.held_v);
    }
    CLEAR(OUTS(ATTUNE_HEAD_DIM), sums);
    for (attune_i64 index = next_key_tile(p, &given, &at, rows, key_tiles, key_tiles.begin); index < key_tiles.end;
         index = next_key_tile(p, &given, &at, rows, key_tiles, index + 1)) {
        FLOATS weight[SCORES];
        FLOATS grad[SCORES];
        make_pairs(p, &given, &run, &at, &seen, &from_k, &from_v, index * WALKED, &from_q, &from_dout, &local_, false,
                   weight, grad);
        store_scores(grad, local_.score);
        BARRIER();
        WALK_ALL_COLUMNS(&from_k, index * WALKED, local_.found, ATTUNE_HEAD_DIM, local_.score, local_.walked, sums);
    }
    STORE_ALL_COLUMNS(&to_dq, first, ATTUNE_HEAD_DIM, run.scale, local_.score, sums);
}

/* ---- Tiles of keys ---- */

/* The rows that see every key of an interval, of those that exist. */
FN attune_interval common_rows(attune_mask mask, attune_interval keys) {
    const attune_i64 first = attune_add_saturated(keys.begin, -mask.shift);
    const attune_i64 last = attune_add_saturated(keys.end - 1, -mask.shift);
    const attune_i64 from = mask.right < 0 ? 0 : attune_add_saturated(last, -mask.right);
    const attune_i64 to = mask.left < 0 ? mask.rows : attune_add_saturated(attune_add_saturated(first, mask.left), 1);
    return attune_interval_cut(from, to, 0, mask.rows);
}

FN window hold_keys(const place *at, attune_i64 first, attune_interval keys, attune_i64 origin, window seen) {
    seen.origin = origin;
    seen.held_is_keys = true;
    seen.first_held = first;
    seen.common = keys.begin < keys.end ? common_rows(at->mask, keys) : interval(0, 0);
    for (int n = get_local_id(0); n < HELD; n += THREADS) {
        const attune_i64 key = first + n;
        const bool exists = key >= keys.begin && key < keys.end;
        set_seen(&seen, n, exists ? attune_mask_rows(at->mask, key, 1) : interval(origin, origin));
#if ATTUNE_GENERAL
        seen.diagonal[n] = key - at->mask.shift - origin;
#endif
    }
    return seen;
}

/* Of all tiles of rows of a group's heads, one head after the other, the next from index on that has a listed pair. */
FN attune_i64 next_row_tile(parameters p, const options *given, const place *at, attune_interval keys,
                            attune_interval tiles_, attune_i64 end, attune_i64 index) {
#if ATTUNE_GENERAL
    for (; index < end; index++) {
        place of_head = *at;
        const attune_i64 tile = tiles_.begin + index % (tiles_.end - tiles_.begin);
        const attune_interval rows = attune_interval_cut(tile * WALKED, tile * WALKED + WALKED, 0, at->mask.rows);
        of_head.head += index / (tiles_.end - tiles_.begin);
        if (tile_is_listed(p, given, &of_head, rows, keys)) {
            break;
        }
    }
#endif
    return index;
}

/* dK = scale dS^T Q and dV = (P o Z)^T dO, summed over the group's query heads. A work-group has a tile of keys of one
 * key-value head. A key under the left padding or past the sequence's end has no row in dk and dv. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_backward_dkv(__constant const attune_opencl_attention *p, const attune_opencl_run run, __global uchar *workspace,
                    BACKWARD_OPERANDS) {
    LOCAL_TILES();
    LOCAL_ALIBI();
    const options given = BACKWARD_OPTIONS;
    const attune_i64 group = p->heads_q / p->heads_kv;
    const attune_i64 batch_head = get_group_id(0) / p->key_tiles;
    place at = find_place(p, &given, batch_head / p->heads_kv, batch_head % p->heads_kv * group);
    const attune_i64 first = get_group_id(0) % p->key_tiles * HELD;
    const attune_interval keys = attune_interval_cut(first, first + HELD, at.mask.leftpad, at.mask.keys);
    const attune_interval rows =
        keys.begin < keys.end ? attune_mask_rows(at.mask, keys.begin, keys.end - keys.begin) : interval(0, 0);
    const attune_interval row_tiles = attune_interval_tiles(rows, WALKED);
    const attune_i64 end = group * (row_tiles.end - row_tiles.begin);
    const vectors from_k = k_vectors(p, &given, &at, OPERAND(1, k), keys);
    const vectors from_v = v_vectors(p, &given, &at, OPERAND(2, v), keys);
    const vectors to_dk = key_vectors(&at, OPERAND(7, out), p->dk_dtype, &p->dk, p->head_dim, keys);
    const vectors to_dv = key_vectors(&at, OPERAND(8, out_v), p->dv_dtype, &p->dv, p->head_dim_v, keys);
    FLOATS sums[OUTS(ATTUNE_HEAD_DIM)];
    FLOATS sums_v[OUTS(ATTUNE_HEAD_DIM_V)];

    seen = hold_keys(&at, first, keys, row_tiles.begin * WALKED, seen);
    if (ATTUNE_RESIDENT) {
        load_held(&from_k, first, ATTUNE_HEAD_DIM, local_.held);
        load_held(&from_v, first, ATTUNE_HEAD_DIM_V, local_.held_v);
    }
    CLEAR(OUTS(ATTUNE_HEAD_DIM), sums);
    CLEAR(OUTS(ATTUNE_HEAD_DIM_V), sums_v);
    for (attune_i64 index = next_row_tile(p, &given, &at, keys, row_tiles, end, 0); index < end;
         index = next_row_tile(p, &given, &at, keys, row_tiles, end, index + 1)) {
        const attune_i64 first_row = (row_tiles.begin + index % (row_tiles.end - row_tiles.begin)) * WALKED;
        place of_head = at;
        of_head.head += index / (row_tiles.end - row_tiles.begin);
        const vectors from_q = q_vectors(p, &given, &of_head, OPERAND(0, q));
        const vectors from_dout = dout_vectors(p, &of_head, OPERAND(5, dout));
        FLOATS weight[SCORES];
        FLOATS grad[SCORES];
#if ATTUNE_GENERAL
        if (given.alibi_slopes != 0) {
            seen.head_slope =
                given.alibi_slopes[of_head.batch * p->alibi_slopes.axis[0] + of_head.head * p->alibi_slopes.axis[1]];
        }
#endif
        load_rows(p, &of_head, rows_of(&of_head, OPERAND(4, lse), &p->lse),
                  rests_of(p, &of_head, workspace + run.workspace), first_row, WALKED, &local_);
        make_pairs(p, &given, &run, &of_head, &seen, &from_q, &from_dout, first_row, &from_k, &from_v, &local_, false,
                   weight, grad);
        store_scores(weight, local_.score);
        BARRIER();
        WALK_ALL_COLUMNS(&from_dout, first_row, local_.found, ATTUNE_HEAD_DIM_V, local_.score, local_.walked, sums_v);
        store_scores(grad, local_.score);
        BARRIER();
        WALK_ALL_COLUMNS(&from_q, first_row, local_.found, ATTUNE_HEAD_DIM, local_.score, local_.walked, sums);
    }
    if (to_dk.data != 0) {
        STORE_ALL_COLUMNS(&to_dk, first, ATTUNE_HEAD_DIM, run.scale, local_.score, sums);
    }
    if (to_dv.data != 0) {
        STORE_ALL_COLUMNS(&to_dv, first, ATTUNE_HEAD_DIM_V, 1.0f, local_.score, sums_v);
    }
}

#if ATTUNE_GENERAL

/* ---- dbias = dA, summed over the axes that bias broadcasts: a tile of dbias walks all that it is the sum of ---- */

/* What an index along an axis of dbias stands for. */
FN attune_interval axis_of(attune_i64 shape, attune_i64 index, attune_i64 whole) {
    return shape == 1 ? interval(0, whole) : interval(index, index + 1);
}

/* sum += x, with what rounding loses kept in rest: nothing once the sum is not finite, as infinity less itself is NaN.
 * Source: Kahan, Further remarks on reducing truncation errors (1965). */
FN void add_exactly(FLOATS x, FLOATS *sum, FLOATS *rest) {
    const FLOATS y = x - *rest;
    const FLOATS t = *sum + y;
    *rest = select((FLOATS)0.0f, (t - *sum) - y, isfinite(t));
    *sum = t;
}

/* Elements of the tile of dbias, (walked key, held row); a row or key that is broadcast is index 0, the sum of all. */
FN void store_dbias(parameters p, __global uchar *dbias, attune_i64 index, attune_i64 first_row, attune_i64 first_key,
                    const tiles *local_) {
    const bool one_row = p->dbias_shape[2] == 1;
    const bool one_key = p->dbias_shape[3] == 1;
    for (int n = get_local_id(0); n < (one_row ? 1 : HELD) * (one_key ? 1 : WALKED); n += THREADS) {
        const int row = one_key ? n : n / WALKED;
        const int key = one_key ? 0 : n % WALKED;
        if (first_row + row < p->dbias_shape[2] && first_key + key < p->dbias_shape[3]) {
            float sum = 0.0f;
            for (int walked = key; walked < (one_key ? WALKED : key + 1); walked++) {
                for (int held = row; held < (one_row ? HELD : row + 1); held++) {
                    sum += local_->score[walked * HELD + held];
                }
            }
            store_element(dbias, index + (first_row + row) * p->dbias.axis[2] + (first_key + key) * p->dbias.axis[3],
                          p->dbias_dtype, sum);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_backward_dbias(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                      __global uchar *workspace, BACKWARD_OPERANDS) {
    LOCAL_TILES();
    LOCAL_ALIBI();
    const options given = BACKWARD_OPTIONS;
    const attune_i64 key_tiles = (p->dbias_shape[3] + WALKED - 1) / WALKED;
    const attune_i64 row_tiles = (p->dbias_shape[2] + HELD - 1) / HELD;
    const attune_i64 part = get_group_id(0) / key_tiles / row_tiles;
    const attune_i64 tile_key = get_group_id(0) % key_tiles;
    const attune_i64 tile_row = get_group_id(0) / key_tiles % row_tiles;
    const attune_interval batches = axis_of(p->dbias_shape[0], part / p->dbias_shape[1], p->batch);
    const attune_interval heads = axis_of(p->dbias_shape[1], part % p->dbias_shape[1], p->heads_q);
    const attune_interval rows = axis_of(p->dbias_shape[2], tile_row, p->row_tiles);
    const attune_interval keys = axis_of(p->dbias_shape[3], tile_key, (p->keys + WALKED - 1) / WALKED);
    FLOATS sum[SCORES];
    FLOATS lost[SCORES];
    CLEAR(SCORES, sum);
    CLEAR(SCORES, lost);

    for (attune_i64 batch = batches.begin; batch < batches.end; batch++) {
        for (attune_i64 head = heads.begin; head < heads.end; head++) {
            const place at = find_place(p, &given, batch, head);
            const vectors from_q = q_vectors(p, &given, &at, OPERAND(0, q));
            const vectors from_dout = dout_vectors(p, &at, OPERAND(5, dout));
            for (attune_i64 row_tile = rows.begin; row_tile < rows.end; row_tile++) {
                const attune_i64 first = row_tile * HELD;
                const attune_i64 count = attune_clamp(at.mask.rows - first, 0, HELD);
                const attune_interval sees = count > 0 ? attune_mask_keys(at.mask, first, count) : interval(0, 0);
                const attune_interval walks = attune_interval_tiles(
                    attune_interval_cut(keys.begin * WALKED, keys.end * WALKED, sees.begin, sees.end), WALKED);
                const vectors from_k = k_vectors(p, &given, &at, OPERAND(1, k), sees);
                const vectors from_v = v_vectors(p, &given, &at, OPERAND(2, v), sees);
                seen = hold_rows(p, &given, &at, first, count, walks.begin * WALKED, seen);
                load_rows(p, &at, rows_of(&at, OPERAND(4, lse), &p->lse), rests_of(p, &at, workspace + run.workspace),
                          first, HELD, &local_);
                if (ATTUNE_RESIDENT) {
                    load_held(&from_q, first, ATTUNE_HEAD_DIM, local_.held);
                    load_held(&from_dout, first, ATTUNE_HEAD_DIM_V, local_.held_v);
                }
                for (attune_i64 index = walks.begin; index < walks.end; index++) {
                    FLOATS weight[SCORES];
                    FLOATS grad[SCORES];
                    make_pairs(p, &given, &run, &at, &seen, &from_k, &from_v, index * WALKED, &from_q, &from_dout,
                               &local_, true, weight, grad);
                    FOR_BLOCKS
                    for (int n = 0; n < SCORES; n++) {
                        add_exactly(grad[n], &sum[n], &lost[n]);
                    }
                }
                BARRIER();
            }
        }
    }
    store_scores(sum, local_.score);
    BARRIER();
    const attune_i64 first = part / p->dbias_shape[1] * p->dbias.axis[0] + part % p->dbias_shape[1] * p->dbias.axis[1];
    store_dbias(p, OPERAND(7, out), first, tile_row * HELD, tile_key * WALKED, &local_);
}

#endif
