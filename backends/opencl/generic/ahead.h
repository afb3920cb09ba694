/*
 * Products of tiles that come in slices: while one slice is multiplied, the next one is on its way from global memory
 * to registers, and from there to the other one of two places in local memory, so that a slice takes one barrier. A
 * work-item has 8 x 8 scores and up to 8 x 8 results, which is 16 floats from local memory for 64 multiply-adds. The
 * held side comes in slices too: the weights' tile lies where slices for scores lie, and takes what local memory there
 * is. ATTUNE_UNROLL: how many steps of a product the compiler is to put one after the other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_AHEAD_H
#define ATTUNE_OPENCL_GENERIC_AHEAD_H

#include "backends/opencl/generic/score.h"

#if ATTUNE_AHEAD

/* Lines in local memory, in floats, with one vector more than they need, so that lines do not meet in a bank. */
#    define PADDED(extent) ((extent) + VECTOR)
#    define HELD_LINE      PADDED(HELD)
#    define WALKED_LINE    PADDED(WALKED)
#    define WEIGHT_LINE    PADDED(HELD)

#    define SLICE_HELD   (DEPTH * HELD_LINE)
#    define SLICE_WALKED (DEPTH * WALKED_LINE)
#    define SLICE_OUT    (STEPS * COLUMNS)

/* Of what lies in one place after the other: slices for scores, then weights. */
#    define SLICES_SCORES (2 * (SLICE_HELD + SLICE_WALKED))
#    define TILE_WEIGHTS  (WALKED * WEIGHT_LINE)

/* Vectors as they are in memory, and in whole registers: what is on its way is taken apart when it has come. */
#    if ATTUNE_DTYPE == ATTUNE_OPENCL_F32
#        define CODE         float
#        define CODES        FLOATS
#        define PACKED       float4
#        define AS_CODES(x)  (x)
#        define AS_PACKED(x) (x)
#    elif ATTUNE_DTYPE == ATTUNE_OPENCL_E4M3
#        define CODE         uchar
#        define CODES        UCHARS
#        define PACKED       uint
#        define AS_CODES(x)  as_uchar4(x)
#        define AS_PACKED(x) as_uint(x)
#    else
#        define CODE         ushort
#        define CODES        USHORTS
#        define PACKED       uint2
#        define AS_CODES(x)  as_ushort4(x)
#        define AS_PACKED(x) as_uint2(x)
#    endif

/* A work-item's vectors of what is on its way. */
#    define PIECES(positions, length) ((positions) * (length) / (VECTOR * THREADS))

typedef struct ahead {
    PACKED held[PIECES(HELD, DEPTH)];
    PACKED walked[PIECES(WALKED, DEPTH)];
    PACKED out[PIECES(STEPS, COLUMNS)];
} ahead;

/* ---- Loading. Macros, as loops that index private arrays must be unrolled before anything is inlined ---- */

FN FLOATS decoded(PACKED packed) {
    const CODES code = AS_CODES(packed);
#    if ATTUNE_DTYPE == ATTUNE_OPENCL_F32
    return code;
#    elif ATTUNE_DTYPE == ATTUNE_OPENCL_F16
    return VLOAD_HALF(0, (const half *)&code);
#    elif ATTUNE_DTYPE == ATTUNE_OPENCL_BF16
    return AS_FLOATS(TO_UINTS(code) << 16);
#    else
    return from_e4m3(code);
#    endif
}

/* A tensor as a work-item reads it, slice by slice. */
typedef struct source {
    __global uchar *data; /* of the work-item's first piece of the slice at hand */
    int stride;           /* bytes between positions; the host sees to it that a tile's fit 32 bits */
    int length;           /* elements of a vector */
} source;

/* Which positions from a tile's first one on exist: of others nothing is read, and they are zeros. */
typedef struct extent {
    int begin;
    int end;
} extent;

/* length: elements of a position in a slice. */
#    define PIECE_POSITION(length) ((int)get_local_id(0) / ((length) / VECTOR))
#    define PIECE_ELEMENT(length)  ((int)get_local_id(0) % ((length) / VECTOR) * VECTOR)

/* A number that compilers know nothing of: else they load it anew in each slice, in front of what needs it. */
FN int kept(int number) {
    volatile int place = number;
    return place;
}

FN source make_source(const vectors *of, POSITION first, int length) {
    const int stride = of->stride * (int)sizeof(CODE);
    source made;
    made.stride = kept(stride);
    made.length = of->length;
    made.data = of->data + (attune_i64)(first + PIECE_POSITION(length)) * stride + PIECE_ELEMENT(length) * sizeof(CODE);
    return made;
}

/* To the slice so many positions and elements on. */
FN void move_on(source *from, int positions, int elements) {
    from->data += (attune_i64)from->stride * positions + elements * (int)sizeof(CODE);
}

/* The first count elements; zeros past them. */
FN CODES load_codes_part(__global const CODE *data, int count) {
    union {
        CODES vector;
        CODE lane[VECTOR];
    } part;
#    pragma unroll
    for (int n = 0; n < VECTOR; n++) {
        part.lane[n] = n < count ? data[n] : (CODE)0;
    }
    return part.vector;
}

/* The piece so many positions after the work-item's first. d: the slice's first element. */
FN PACKED piece_of(const source *from, int positions, int d, int length) {
    __global const CODE *data = (__global const CODE *)(from->data + (attune_i64)from->stride * positions);
    const int left = from->length - PIECE_ELEMENT(length) - d;
#    if ATTUNE_HEAD_DIM != 0
    return AS_PACKED(WHOLE(CODES, data, 0));
#    else
    return AS_PACKED(left >= VECTOR ? WHOLE(CODES, data, 0) : load_codes_part(data, left));
#    endif
}

FN extent make_extent(const vectors *of, POSITION first) {
    extent made;
    made.begin = of->exist_begin - first;
    made.end = of->exist_end - first;
    return made;
}

/* As the tile sees it that begins so many positions on. */
FN extent extent_from(extent of, int positions) {
    of.begin -= positions;
    of.end -= positions;
    return of;
}

FN bool covers(extent of, int positions) {
    return of.begin <= 0 && of.end >= positions;
}

/* Elements d to d + length - 1 of so many positions, which all exist. */
#    define FETCH(from, positions, d, length, piece)                                                                   \
        _Pragma("unroll") for (int n_ = 0; n_ < PIECES(positions, length); n_++) {                                     \
            (piece)[n_] = piece_of(from, n_ * (THREADS * VECTOR / (length)), d, length);                               \
        }

/* Of which some may not exist. */
#    define FETCH_PART(from, exist, positions, d, length, piece)                                                       \
        _Pragma("unroll") for (int n_ = 0; n_ < PIECES(positions, length); n_++) {                                     \
            const int at_ = PIECE_POSITION(length) + n_ * (THREADS * VECTOR / (length));                               \
            (piece)[n_] = (PACKED)0;                                                                                   \
            if (at_ >= (exist).begin && at_ < (exist).end) {                                                           \
                (piece)[n_] = piece_of(from, n_ * (THREADS * VECTOR / (length)), d, length);                           \
            }                                                                                                          \
        }

/* Into a slice by depth, of lines so long. */
#    define PUT_BY_DEPTH(piece, count, line, slice)                                                                    \
        _Pragma("unroll") for (int n_ = 0; n_ < (count); n_++) {                                                       \
            __local float *to_ = (slice) + thread % (DEPTH / VECTOR) * VECTOR * (line) + thread / (DEPTH / VECTOR) +   \
                                 n_ * (THREADS * VECTOR / DEPTH);                                                      \
            const FLOATS x_ = decoded((piece)[n_]);                                                                    \
            to_[0] = x_.x;                                                                                             \
            to_[line] = x_.y;                                                                                          \
            to_[2 * (line)] = x_.z;                                                                                    \
            to_[3 * (line)] = x_.w;                                                                                    \
        }

/* is_whole: whether all positions of both exist. */
FN void fetch_scores(const source *held, extent rows, const source *walked, extent keys, bool is_whole, int d,
                     ahead *next) {
    if (is_whole) {
        FETCH(held, HELD, d, DEPTH, next->held);
        FETCH(walked, WALKED, d, DEPTH, next->walked);
    } else {
        FETCH_PART(held, rows, HELD, d, DEPTH, next->held);
        FETCH_PART(walked, keys, WALKED, d, DEPTH, next->walked);
    }
}

FN void put_scores(const ahead *next, int place, __local float *slices) {
    const int thread = get_local_id(0);
    PUT_BY_DEPTH(next->held, PIECES(HELD, DEPTH), HELD_LINE, slices + place * SLICE_HELD);
    PUT_BY_DEPTH(next->walked, PIECES(WALKED, DEPTH), WALKED_LINE, slices + 2 * SLICE_HELD + place * SLICE_WALKED);
}

FN void fetch_out(const source *walked, extent keys, bool is_whole, ahead *next) {
    if (is_whole) {
        FETCH(walked, STEPS, 0, COLUMNS, next->out);
    } else {
        FETCH_PART(walked, keys, STEPS, 0, COLUMNS, next->out);
    }
}

FN void put_out(const ahead *next, int place, __local float *slices) {
    const int thread = get_local_id(0);
#    pragma unroll
    for (int n = 0; n < PIECES(STEPS, COLUMNS); n++) {
        AT(slices + place * SLICE_OUT + (thread + n * THREADS) * VECTOR) = decoded(next->out[n]);
    }
}

/* ---- Products ---- */

/* sum[0 to 3] += factor[0 to 3] * vector */
#    define ADD_FOUR(four, vector, sum)                                                                                \
        (sum)[0] += (four).x * (vector);                                                                               \
        (sum)[1] += (four).y * (vector);                                                                               \
        (sum)[2] += (four).z * (vector);                                                                               \
        (sum)[3] += (four).w * (vector);

/* sum(walked, held) += walked vector . held vector over a slice. */
FN void multiply_slice(__local const float *walked, __local const float *held, FLOATS *sum) {
    const int thread = get_local_id(0);
#    pragma unroll ATTUNE_UNROLL
    for (int d = 0; d < DEPTH; d++) {
        FLOATS x[HELD_BLOCKS];
#    pragma unroll
        for (int h = 0; h < HELD_BLOCKS; h++) {
            x[h] = AT(held + d * HELD_LINE + held_of(thread, h));
        }
#    pragma unroll
        for (int w = 0; w < WALKED_BLOCKS; w++) {
            const float4 four = *(__local const float4 *)(walked + d * WALKED_LINE + walked_of(thread, w));
#    pragma unroll
            for (int h = 0; h < HELD_BLOCKS; h++) {
                ADD_FOUR(four, x[h], sum + score_at(h, w, 0));
            }
        }
    }
}

/* out(held, column) += weight(walked, held) x walked vector over a slice. */
FN void multiply_weights(__local const float *weight, __local const float *values, FLOATS *out) {
    const int thread = get_local_id(0);
#    pragma unroll ATTUNE_UNROLL
    for (int n = 0; n < STEPS; n++) {
        FLOATS x[COLUMN_BLOCKS];
#    pragma unroll
        for (int c = 0; c < COLUMN_BLOCKS; c++) {
            x[c] = AT(values + n * COLUMNS + out_column_of(thread, c));
        }
#    pragma unroll
        for (int h = 0; h < OUT_BLOCKS; h++) {
            const float4 four = *(__local const float4 *)(weight + n * WEIGHT_LINE + out_held_of(thread, h));
#    pragma unroll
            for (int c = 0; c < COLUMN_BLOCKS; c++) {
                ADD_FOUR(four, x[c], out + (c * OUT_BLOCKS + h) * OUT_LINES);
            }
        }
    }
}

#endif
#endif
