/*
 * Tiles in local memory, and the products of two of them.
 *
 * A work-group holds ATTUNE_HELD positions of one side, rows or keys, and walks tiles of ATTUNE_WALKED positions of the
 * other. Scores are a matrix of (walked, held): a work-item has blocks of LINES walked by one vector of held positions.
 * Results are a matrix of (held, column): a work-item has blocks of OUT_LINES held by one vector of columns. On a GPU a
 * work-item has one block of scores, in registers, and the work-group shares a tile; on a CPU it is alone, and has all
 * blocks of a tile, in its cache. The build sets:
 *
 *   ATTUNE_HELD_THREADS x ATTUNE_WALKED_THREADS   work-items along scores
 *   ATTUNE_OUT_THREADS                            work-items along results' held positions; the others along columns
 *   ATTUNE_LINES, ATTUNE_OUT_LINES                lines of a block
 *   ATTUNE_DEPTH                                  elements of a vector that are loaded at once for scores
 *   ATTUNE_STEPS, ATTUNE_COLUMNS                  walked positions and columns that are loaded at once for results
 *   ATTUNE_AHEAD                                  whether ahead.h's products are used in place of those here
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_PRODUCT_H
#define ATTUNE_OPENCL_GENERIC_PRODUCT_H

#include "backends/opencl/generic/place.h"
#include "backends/opencl/generic/unseen.h"

#define HELD   ATTUNE_HELD
#define WALKED ATTUNE_WALKED
#define LINES  ATTUNE_LINES

#define THREADS        (ATTUNE_HELD_THREADS * ATTUNE_WALKED_THREADS)
#define COLUMN_THREADS (THREADS / ATTUNE_OUT_THREADS)

/* Blocks of a work-item. */
#define HELD_BLOCKS   (HELD / (ATTUNE_HELD_THREADS * VECTOR))
#define WALKED_BLOCKS (WALKED / (ATTUNE_WALKED_THREADS * LINES))
#define SCORES        (HELD_BLOCKS * WALKED_BLOCKS * LINES) /* vectors of scores */

#define OUT_LINES      ATTUNE_OUT_LINES
#define OUT_BLOCKS     (HELD / (ATTUNE_OUT_THREADS * OUT_LINES))
#define COLUMNS_ACROSS (COLUMN_THREADS * VECTOR) /* columns that a block of every work-item covers */
#define COLUMNS        ATTUNE_COLUMNS
#define COLUMN_BLOCKS  (COLUMNS / COLUMNS_ACROSS)

#define OUTS(columns) ((columns) / COLUMNS_ACROSS * OUT_BLOCKS * OUT_LINES) /* vectors of results */

#define DEPTH ATTUNE_DEPTH
#define STEPS ATTUNE_STEPS

/* Floats of each tile. */
#define TILE_WALKED (WALKED * DEPTH)
#define TILE_OUT    (STEPS * COLUMNS)
#define TILE_SCORES (WALKED * HELD)

/* A work-item that is alone waits for nobody. BARRIER_ALL: global memory counts, too. */
#if ATTUNE_IS_CPU
#    define BARRIER()
#    define BARRIER_ALL()
#else
#    define BARRIER()     barrier(CLK_LOCAL_MEM_FENCE)
#    define BARRIER_ALL() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#endif

/* Before a loop over blocks or lines: on a GPU they are registers, which only constants may index. On a CPU there are
 * many, in memory, and a loop is less to compile. */
#if ATTUNE_IS_CPU
#    define FOR_BLOCKS _Pragma("unroll 1")
#else
#    define FOR_BLOCKS _Pragma("unroll")
#endif

/* ---- Which block is whose ---- */

/* A work-item's place along a grid of work-items, across and down. */
#if ATTUNE_AHEAD
/* Each 32 of them, which a GPU runs as one, are 8 across by 4 down, and neighbours are so spread that of each two at
 * least, what they load from local memory is the same. */
FN int place_across(int thread, int width) {
    return thread / 32 % (width / 8) * 8 + ((thread & 1) | (thread >> 1 & 6));
}

FN int place_down(int thread, int width) {
    return thread / 32 / (width / 8) * 4 + ((thread >> 1 & 1) | (thread >> 3 & 2));
}
#else
FN int place_across(int thread, int width) {
    return thread % width;
}

FN int place_down(int thread, int width) {
    return thread / width;
}
#endif

FN int held_of(int thread, int block) {
    return (block * ATTUNE_HELD_THREADS + place_across(thread, ATTUNE_HELD_THREADS)) * VECTOR;
}

FN int walked_of(int thread, int block) {
    return (block * ATTUNE_WALKED_THREADS + place_down(thread, ATTUNE_HELD_THREADS)) * LINES;
}

FN int out_held_of(int thread, int block) {
    return (block * ATTUNE_OUT_THREADS + place_down(thread, COLUMN_THREADS)) * OUT_LINES;
}

FN int out_column_of(int thread, int block) {
    return (block * COLUMN_THREADS + place_across(thread, COLUMN_THREADS)) * VECTOR;
}

/* ---- Loading ---- */

/* A tile by depth has element d of line n at d * lines + n. On a GPU, groups of VECTOR lines change places with one
 * another, by d, so that work-items that store neighbouring d do not meet in a bank. */
FN int swizzle(int d, int lines) {
#if ATTUNE_IS_CPU
    return 0;
#else
    const int groups = lines / VECTOR < 8 ? lines / VECTOR : 8;
    return d / VECTOR % groups * VECTOR;
#endif
}

/* Elements first_d to first_d + depth - 1 of so many vectors, by depth. */
FN void load_by_depth(const vectors *of, POSITION first, int lines, int first_d, int depth, __local float *tile) {
    const int groups = depth / VECTOR;
    for (int n = get_local_id(0); n < lines * groups; n += THREADS) {
        const int d = n % groups * VECTOR;
        const int line = n / groups;
        lanes x;
        x.vector = load_from(of, first + line, first_d + d);
        __local float *to = tile + d * lines + (line ^ swizzle(d, lines));
        FOR_LANES
        for (int i = 0; i < VECTOR; i++) {
            to[i * lines] = x.lane[i];
        }
    }
}

/* The same elements, vector by vector. found: set where one is not finite; NULL if nobody asks. It is volatile because
 * PoCL 3.1 lets a work-item keep what it has read of another over a barrier. */
FN void load_by_line(const vectors *of, POSITION first, int lines, int first_d, int depth, volatile __local int *found,
                     __local float *tile) {
    const int groups = depth / VECTOR;
    for (int n = get_local_id(0); n < lines * groups; n += THREADS) {
        const int d = n % groups * VECTOR;
        const int line = n / groups;
        const FLOATS x = load_from(of, first + line, first_d + d);
        if (found != 0 && !all(isfinite(x))) {
            *found = 1;
        }
        AT(tile + line * depth + d) = x;
    }
}

/* The walked side of a product of scores: a CPU reads single elements of it, wherever they are. */
FN void load_walked(const vectors *of, POSITION first, int first_d, __local float *tile) {
#if ATTUNE_IS_CPU
    load_by_line(of, first, WALKED, first_d, DEPTH, 0, tile);
#else
    load_by_depth(of, first, WALKED, first_d, DEPTH, tile);
#endif
}

/* ---- Products ---- */

/* sum[i] += factor[i] * x, for i below a constant. A macro, as loops that index private arrays must be unrolled before
 * anything is inlined. */
#if ATTUNE_IS_CPU
#    define ADD_SCALED(factor, count, vector, sum)                                                                     \
        _Pragma("unroll") for (int i_ = 0; i_ < (count); i_++) {                                                       \
            (sum)[i_] += (factor)[i_] * (vector);                                                                      \
        }
#else
#    define ADD_SCALED(factor, count, vector, sum)                                                                     \
        _Pragma("unroll") for (int i_ = 0; i_ < (count) / 4 * 4; i_ += 4) {                                            \
            const float4 four_ = *(__local const float4 *)((factor) + i_);                                             \
            (sum)[i_] += four_.x * (vector);                                                                           \
            (sum)[i_ + 1] += four_.y * (vector);                                                                       \
            (sum)[i_ + 2] += four_.z * (vector);                                                                       \
            (sum)[i_ + 3] += four_.w * (vector);                                                                       \
        }                                                                                                              \
        _Pragma("unroll") for (int i_ = (count) / 4 * 4; i_ < (count); i_++) {                                         \
            (sum)[i_] += (factor)[i_] * (vector);                                                                      \
        }
#endif

/* The same over what is seen. */
#define ADD_SEEN(factor, count, vector, sum)                                                                           \
    _Pragma("unroll") for (int i_ = 0; i_ < (count); i_++) {                                                           \
        if (is_seen((factor)[i_])) {                                                                                   \
            (sum)[i_] += (factor)[i_] * (vector);                                                                      \
        }                                                                                                              \
    }

#define CLEAR(count, sum)                                                                                              \
    FOR_BLOCKS                                                                                                         \
    for (int n_ = 0; n_ < (count); n_++) {                                                                             \
        (sum)[n_] = (FLOATS)0.0f;                                                                                      \
    }

/* sum(walked, held) += walked vector . held vector, over depth elements. held: by depth. */
FN void multiply_block(__local const float *walked, __local const float *held, int line, int column, int depth,
                       FLOATS *sum) {
#if ATTUNE_IS_CPU
    FLOATS part[LINES];
#    pragma unroll
    for (int i = 0; i < LINES; i++) {
        part[i] = sum[i];
    }
    __local const float *factor = walked + line * DEPTH;
    for (int d = 0; d < depth; d++) {
        const FLOATS x = AT(held + d * HELD + column);
#    pragma unroll
        for (int i = 0; i < LINES; i++) {
            part[i] += factor[i * DEPTH + d] * x;
        }
    }
#    pragma unroll
    for (int i = 0; i < LINES; i++) {
        sum[i] = part[i];
    }
#else
#    pragma unroll 2
    for (int d = 0; d < DEPTH; d += VECTOR) {
        const int column_at = column ^ swizzle(d, HELD);
#    pragma unroll
        for (int i = 0; i < VECTOR; i++) {
            const FLOATS x = AT(held + (d + i) * HELD + column_at);
#    if LINES % VECTOR == 0
#        pragma unroll
            for (int j = 0; j < LINES; j += VECTOR) {
                ADD_SCALED(walked + (d + i) * WALKED + ((line + j) ^ swizzle(d, WALKED)), VECTOR, x, sum + j);
            }
#    else
            /* Fewer lines than the swizzle moves as one. */
            ADD_SCALED(walked + (d + i) * WALKED + ((line / VECTOR * VECTOR) ^ swizzle(d, WALKED)) + line % VECTOR,
                       LINES, x, sum);
#    endif
        }
    }
#endif
}

/* All blocks of the work-item. */
FN void multiply_scores(__local const float *walked, __local const float *held, int depth, FLOATS *sum) {
    const int thread = get_local_id(0);
    FOR_BLOCKS
    for (int h = 0; h < HELD_BLOCKS; h++) {
        FOR_BLOCKS
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            multiply_block(walked, held, walked_of(thread, w), held_of(thread, h), depth,
                           sum + (h * WALKED_BLOCKS + w) * LINES);
        }
    }
}

/* S = walked . held, over all elements of a vector: a tile of the walked side, and one of the held side unless that is
 * whole in local memory. */
FN void walk_depth(const vectors *walked, POSITION first_walked, const vectors *held, POSITION first_held,
                   bool is_resident, __local float *walked_tile, __local float *held_tile, FLOATS *sum) {
    CLEAR(SCORES, sum);
    for (int d = 0; d < walked->length; d += DEPTH) {
        load_walked(walked, first_walked, d, walked_tile);
        if (!is_resident) {
            load_by_depth(held, first_held, HELD, d, DEPTH, held_tile);
        }
        BARRIER();
        multiply_scores(walked_tile, held_tile + (is_resident ? d * HELD : 0),
                        walked->length - d < DEPTH ? walked->length - d : DEPTH, sum);
        BARRIER();
    }
}

/* On a CPU what is past the vector's end is left out; on a GPU it is zeros. */
#if ATTUNE_IS_CPU
#    define HAS_COLUMN(of, first, block) ((first) + (block)*VECTOR < (of)->length)
#else
#    define HAS_COLUMN(of, first, block) true
#endif

/* out(held, column) += weight(walked, held) x walked vector, for COLUMNS columns from first on, of a tile of walked
 * vectors. The tile's own sum is made first: one long sum of 2^16 terms would be off by several 1e-6. found: whether
 * anything that is not finite has been met; what is UNSEEN is then left out. NULL: nothing is UNSEEN. */
FN void walk_columns(const vectors *walked, POSITION first_walked, volatile __local int *found, int first,
                     __local const float *weight, __local float *tile, FLOATS *out) {
    const int thread = get_local_id(0);
    for (int step = 0; step < WALKED; step += STEPS) {
        load_by_line(walked, first_walked + step, STEPS, first, COLUMNS, found, tile);
        BARRIER();
        const bool all_count = found == 0 || *found == 0;
        FOR_BLOCKS
        for (int c = 0; c < COLUMN_BLOCKS && HAS_COLUMN(walked, first, c); c++) {
            FOR_BLOCKS
            for (int h = 0; h < OUT_BLOCKS; h++) {
                FLOATS part[OUT_LINES];
#pragma unroll
                for (int i = 0; i < OUT_LINES; i++) {
                    part[i] = (FLOATS)0.0f;
                }
                __local const float *factor = weight + step * HELD + out_held_of(thread, h);
                __local const float *values = tile + out_column_of(thread, c);
                if (all_count) {
#pragma unroll 4
                    for (int n = 0; n < STEPS; n++) {
                        const FLOATS line = AT(values + n * COLUMNS);
                        ADD_SCALED(factor + n * HELD, OUT_LINES, line, part);
                    }
                } else {
#pragma unroll 1
                    for (int n = 0; n < STEPS; n++) {
                        const FLOATS line = AT(values + n * COLUMNS);
                        ADD_SEEN(factor + n * HELD, OUT_LINES, line, part);
                    }
                }
#pragma unroll
                for (int i = 0; i < OUT_LINES; i++) {
                    out[(c * OUT_BLOCKS + h) * OUT_LINES + i] += part[i];
                }
            }
        }
        BARRIER();
    }
}

/* The same for all columns, a constant. */
#define WALK_ALL_COLUMNS(walked, first_walked, found, columns, weight, tile, out)                                      \
    FOR_BLOCKS                                                                                                         \
    for (int first_ = 0; first_ < (columns); first_ += COLUMNS) {                                                      \
        walk_columns(walked, first_walked, found, first_, weight, tile, (out) + OUTS(first_));                         \
    }

/* ---- Storing ---- */

/* Block c of columns, times scale. A work-item's results pass through local memory, its own place in a tile of scores,
 * so that the code that stores is there once, not for each register. */
FN void store_columns(const vectors *to, POSITION first_held, int c, float scale, __local float *tile,
                      const FLOATS *out) {
    const int thread = get_local_id(0);
    __local float *own = tile + thread * OUT_LINES * VECTOR;
    FOR_BLOCKS
    for (int h = 0; h < OUT_BLOCKS; h++) {
        FOR_BLOCKS
        for (int i = 0; i < OUT_LINES; i++) {
            AT(own + i * VECTOR) = out[h * OUT_LINES + i] * scale;
        }
#pragma unroll 1
        for (int i = 0; i < OUT_LINES; i++) {
            store_to(to, first_held + out_held_of(thread, h) + i, out_column_of(thread, c), AT(own + i * VECTOR));
        }
    }
}

#define STORE_ALL_COLUMNS(to, first_held, columns, scale, tile, out)                                                   \
    FOR_BLOCKS                                                                                                         \
    for (int c_ = 0; c_ < (columns) / COLUMNS_ACROSS; c_++) {                                                          \
        store_columns(to, first_held, c_, scale, tile, (out) + c_ * OUT_BLOCKS * OUT_LINES);                           \
    }

#endif
