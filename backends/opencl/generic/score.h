/*
 * From products to scores: docs/semantics.md, "The score" and "Who sees whom", for the block of scores of a work-item.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_SCORE_H
#define ATTUNE_OPENCL_GENERIC_SCORE_H

#include "backends/opencl/generic/product.h"
#include "core/portable/philox.h"

/* What a work-group holds, in local memory: of each held position, which walked ones it sees. They count from
 * window.origin. */
typedef struct window {
    __local int *begin;
    __local int *end;
    attune_i64 origin;
    attune_interval common; /* walked positions that every held one sees, as far as lengths and windows say */
    bool held_is_keys;
    attune_i64 first_held;
#if ATTUNE_GENERAL
    __local float *slope;         /* ALiBi's, of each held row; not read if there are none */
    float head_slope;             /* the same for held keys */
    __local attune_i64 *diagonal; /* the walked position at distance 0, from origin */
#endif
} window;

/* The scores' vector number n of a work-item's block. */
FN int score_at(int h, int w, int i) {
    return (h * WALKED_BLOCKS + w) * LINES + i;
}

FN int relative(attune_i64 position, attune_i64 origin) {
    return (int)attune_clamp(position - origin, 0, 0x7FFFFFFF);
}

/* ---- Options that look at single pairs ---- */

#if ATTUNE_GENERAL

typedef struct pair {
    attune_i64 row, key, head;
} pair;

FN pair find_pair(parameters p, const place *at, const window *seen, attune_i64 held, attune_i64 walked) {
    pair found;
    found.row = seen->held_is_keys ? walked : held / PACK(p);
    found.key = seen->held_is_keys ? held : walked;
    found.head = at->head + (seen->held_is_keys ? 0 : held % PACK(p));
    return found;
}

FN attune_i64 list_entry(parameters p, const options *given, attune_i64 head, attune_i64 entry) {
    return given->block_row_ptr[head * p->block_row_ptr.axis[0] + entry * p->block_row_ptr.axis[1]];
}

/* The least listed block of keys that is not below wanted, or -1. */
FN attune_i64 listed_from(parameters p, const options *given, attune_i64 head, attune_i64 row, attune_i64 wanted) {
    attune_i64 low = list_entry(p, given, head, row / p->block_rows);
    const attune_i64 end = list_entry(p, given, head, row / p->block_rows + 1);
    attune_i64 high = end;
    while (low < high) {
        const attune_i64 middle = low + (high - low) / 2;
        if (given->block_col_idx[middle * p->block_col_idx.axis[0]] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < end ? given->block_col_idx[low * p->block_col_idx.axis[0]] : -1;
}

/* Whether some pair of a tile is listed; the same for all of a work-group. */
FN bool tile_is_listed(parameters p, const options *given, const place *at, attune_interval rows,
                       attune_interval keys) {
    if (p->block_rows == 0) {
        return true;
    }
    const attune_i64 heads = p->block_row_ptr.axis[0] == 0 ? 1 : PACK(p);
    for (attune_i64 row = rows.begin; row < rows.end; row = (row / p->block_rows + 1) * p->block_rows) {
        for (attune_i64 head = 0; head < heads; head++) {
            const attune_i64 block = listed_from(p, given, at->head + head, row, keys.begin / p->block_keys);
            if (block >= 0 && block * p->block_keys < keys.end) {
                return true;
            }
        }
    }
    return false;
}

FN attune_i64 pair_index(__constant const attune_opencl_strides *strides, attune_i64 batch, pair of) {
    return batch * strides->axis[0] + of.head * strides->axis[1] + of.row * strides->axis[2] +
           of.key * strides->axis[3];
}

/* bias, and -inf where the mask or the list of blocks hides the pair. */
FN float adjust_pair(parameters p, const options *given, const place *at, pair of, float score) {
    if (given->mask != 0 && given->mask[pair_index(&p->mask, at->batch, of)] == 0) {
        return -INFINITY;
    }
    if (p->block_rows != 0 &&
        listed_from(p, given, of.head, of.row, of.key / p->block_keys) != of.key / p->block_keys) {
        return -INFINITY;
    }
    if (given->bias != 0) {
        score += load_element(given->bias, pair_index(&p->bias, at->batch, of), p->bias_dtype);
    }
    return score;
}

/* Adjusts the pairs of a work-item's own scores, through its own place in local memory: private arrays are in
 * registers, which no variable may index. */
FN void adjust_pairs(parameters p, const options *given, const place *at, const window *seen, attune_i64 first_walked,
                     __local float *tile, FLOATS *score) {
    const int thread = get_local_id(0);
    const int offset = (int)(first_walked - seen->origin);
    if (given->bias == 0 && given->mask == 0 && p->block_rows == 0) {
        return;
    }
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        const int held = held_of(thread, h);
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            const int walked = walked_of(thread, w);
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                AT(tile + (walked + i) * HELD + held) = score[score_at(h, w, i)];
            }
#    pragma unroll 1
            for (int n = 0; n < LINES * VECTOR; n++) {
                const int line = walked + n / VECTOR;
                const int lane = held + n % VECTOR;
                /* Only of pairs that exist is anything read. */
                if (offset + line >= seen->begin[lane] && offset + line < seen->end[lane]) {
                    const pair of = find_pair(p, at, seen, seen->first_held + lane, first_walked + line);
                    tile[line * HELD + lane] = adjust_pair(p, given, at, of, tile[line * HELD + lane]);
                }
            }
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                score[score_at(h, w, i)] = AT(tile + (walked + i) * HELD + held);
            }
        }
    }
}

/* ---- Dropout ---- */

FN attune_dropout make_dropout(parameters p, const options *given, const attune_opencl_run *run) {
    attune_dropout dropout;
    dropout.seed = given->dropout_seed != 0 ? *given->dropout_seed : run->seed;
    dropout.offset = given->dropout_offset != 0 ? *given->dropout_offset : run->dropout_offset;
    dropout.threshold = p->dropout_threshold;
    dropout.batch_origin = p->batch_origin;
    dropout.head_origin = p->head_origin;
    dropout.row_origin = p->row_origin;
    dropout.key_origin = p->key_origin;
    dropout.heads_total = p->heads_total;
    return dropout;
}

/* Z of the work-item's own pairs, into its own place in the tile. The key runs fastest: a counter serves four. */
FN void fill_dropout(parameters p, const place *at, const window *seen, attune_dropout dropout, attune_i64 first_walked,
                     __local float *tile) {
    const int thread = get_local_id(0);
    const int inner = seen->held_is_keys ? VECTOR : LINES;
    for (int block = 0; block < HELD_BLOCKS * WALKED_BLOCKS; block++) {
        const int held = held_of(thread, block / WALKED_BLOCKS);
        const int walked = walked_of(thread, block % WALKED_BLOCKS);
        attune_philox_words words = {{0, 0, 0, 0}};
        attune_i64 counter = -1;
#    pragma unroll 1
        for (int n = 0; n < LINES * VECTOR; n++) {
            const int line = walked + (seen->held_is_keys ? n / inner : n % inner);
            const int lane = held + (seen->held_is_keys ? n % inner : n / inner);
            const pair of = find_pair(p, at, seen, seen->first_held + lane, first_walked + line);
            const attune_i64 position = dropout.key_origin + of.key;
            if (position / 4 != counter || n % inner == 0) {
                counter = position / 4;
                words = attune_dropout_words(dropout, at->batch, of.head, of.row, counter);
            }
            const uint even = position % 4 < 2 ? words.word[0] : words.word[2];
            const uint odd = position % 4 < 2 ? words.word[1] : words.word[3];
            const bool keeps = attune_dropout_keeps_word(dropout, position % 2 == 0 ? even : odd);
            tile[line * HELD + lane] = keeps ? p->dropout_rescale : 0.0f;
        }
    }
}

#endif

/* ---- As a tile ---- */

FN void store_scores(const FLOATS *score, __local float *tile) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                AT(tile + (walked_of(thread, w) + i) * HELD + held_of(thread, h)) = score[score_at(h, w, i)];
            }
        }
    }
}

/* ---- Who sees whom ---- */

/* Fills what the window says of each held position; sees gives the walked positions of one. */
FN void set_seen(const window *seen, int held, attune_interval sees) {
    seen->begin[held] = relative(sees.begin, seen->origin);
    seen->end[held] = relative(sees.end, seen->origin);
}

FN INTS ints_at(__local const int *from) {
    return *(__local const INTS *)from;
}

/* offset: of the first walked position from the origin. */
FN void hide_pairs(const window *seen, int offset, FLOATS *score) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        const INTS begin = ints_at(seen->begin + held_of(thread, h));
        const INTS end = ints_at(seen->end + held_of(thread, h));
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            FOR_BLOCKS
            for (int i = 0; i < LINES; i++) {
                const INTS walked = (INTS)(offset + walked_of(thread, w) + i);
                FLOATS *s = &score[score_at(h, w, i)];
                *s = select((FLOATS)-INFINITY, *s, walked >= begin & walked < end);
            }
        }
    }
}

FN void hide_unseen(const window *seen, attune_i64 first_walked, FLOATS *score) {
    if (first_walked < seen->common.begin || first_walked + WALKED > seen->common.end) {
        hide_pairs(seen, (int)(first_walked - seen->origin), score);
    }
}

/* ---- The score ---- */

/* From 10 on it is 1, of infinity too, which a device's own may miss by some units in the last place: then infinity
 * would not be let through by 0, but by what is left. */
FN FLOATS softcap_tanh(FLOATS x) {
    return select(tanh(x), copysign((FLOATS)1.0f, x), fabs(x) > 10.0f);
}

/* Scores in place of products; -inf where a pair is not seen. slope: 1 - tanh^2 of each; NULL if it is not wanted.
 * tile: of scores, where the work-item uses its own place. */
FN void finish_scores(parameters p, const options *given, const place *at, const window *seen, float scale,
                      attune_i64 first_walked, __local float *tile, FLOATS *score, FLOATS *slope) {
    FOR_BLOCKS
    for (int n = 0; n < SCORES; n++) {
        score[n] *= scale;
    }
#if ATTUNE_GENERAL
    const int thread = get_local_id(0);
    if (p->softcap > 0.0f) {
        FOR_BLOCKS
        for (int n = 0; n < SCORES; n++) {
            const FLOATS t = softcap_tanh(score[n] / p->softcap);
            score[n] = p->softcap * t;
            if (slope != 0) {
                slope[n] = 1.0f - t * t;
            }
        }
    }
    adjust_pairs(p, given, at, seen, first_walked, tile, score);
    if (given->alibi_slopes != 0) {
        FOR_BLOCKS
        for (int h = 0; h < HELD_BLOCKS; h++) {
            const FLOATS slopes = seen->held_is_keys ? (FLOATS)seen->head_slope : AT(seen->slope + held_of(thread, h));
            const LONGS diagonal = *(__local const LONGS *)(seen->diagonal + held_of(thread, h));
            FOR_BLOCKS
            for (int w = 0; w < WALKED_BLOCKS; w++) {
                FOR_BLOCKS
                for (int i = 0; i < LINES; i++) {
                    const LONGS walked = (LONGS)(first_walked - seen->origin + walked_of(thread, w) + i);
                    score[score_at(h, w, i)] -= slopes * TO_FLOATS(abs_diff(walked, diagonal));
                }
            }
        }
    }
#endif
    hide_unseen(seen, first_walked, score);
}

#endif
