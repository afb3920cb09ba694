/*
 * Where a work-group is in the problem, and where the vectors lie that it reads and writes. ATTUNE_GENERAL: built for
 * variable lengths, pages, descales and whatever else changes an address.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_PLACE_H
#define ATTUNE_OPENCL_GENERIC_PLACE_H

#include "backends/opencl/generic/vector.h"
#include "core/portable/mask.h"
#include "core/portable/work.h"

typedef __constant const attune_opencl_attention *parameters;

/* The dtype of q, k and v. */
FN int stored_dtype(parameters p) {
    return ATTUNE_DTYPE != 0 ? ATTUNE_DTYPE : p->dtype;
}

/* Query heads that share a tile. */
#if ATTUNE_GENERAL
#    define PACK(p) ((p)->pack)
#else
#    define PACK(p) 1
#endif

/* ---- Tensors of an option ---- */

/* Each is NULL where it is absent. */
typedef struct options {
    __global const float *sink;
#if ATTUNE_GENERAL
    __global const uchar *bias;
    __global const uchar *mask;
    __global const float *alibi_slopes;
    __global const int *cu_seqlens_q, *cu_seqlens_k, *seqused_q, *seqused_k, *leftpad_k;
    __global const int *block_table, *block_row_ptr, *block_col_idx;
    __global const float *descale_q, *descale_k, *descale_v;
    __global const ulong *dropout_seed;
    __global const uint *dropout_offset;
    __global float *probs;
#endif
} options;

/* ---- The sequence and head ---- */

typedef struct place {
    attune_i64 batch, head, head_kv; /* head: the first of those that share a tile */
    attune_i64 row_begin, key_begin; /* along axis s */
    attune_mask mask;
} place;

#if ATTUNE_GENERAL
FN attune_i64 length_at(__global const int *lengths, attune_i64 stride, attune_i64 index, attune_i64 absent) {
    return lengths == 0 ? absent : lengths[index * stride];
}
#endif

FN place find_place(parameters p, const options *given, attune_i64 batch, attune_i64 head) {
    place at;
    at.batch = batch;
    at.head = head;
    at.head_kv = head / (p->heads_q / p->heads_kv);
    at.row_begin = 0;
    at.key_begin = 0;
    at.mask.rows = p->rows;
    at.mask.keys = p->keys;
    at.mask.leftpad = 0;
#if ATTUNE_GENERAL
    at.row_begin = length_at(given->cu_seqlens_q, p->cu_seqlens_q.axis[0], batch, 0);
    at.key_begin = length_at(given->cu_seqlens_k, p->cu_seqlens_k.axis[0], batch, 0);
    at.mask.rows =
        length_at(given->cu_seqlens_q, p->cu_seqlens_q.axis[0], batch + 1, at.row_begin + p->rows) - at.row_begin;
    at.mask.keys =
        length_at(given->cu_seqlens_k, p->cu_seqlens_k.axis[0], batch + 1, at.key_begin + p->keys) - at.key_begin;
    at.mask.rows = length_at(given->seqused_q, p->seqused_q.axis[0], batch, at.mask.rows);
    at.mask.keys = length_at(given->seqused_k, p->seqused_k.axis[0], batch, at.mask.keys);
    /* A length that lies is cut to the capacity, past which nothing may be read. */
    at.mask.rows = attune_clamp(at.mask.rows, 0, p->rows);
    at.mask.keys = attune_clamp(at.mask.keys, 0, p->keys);
    at.mask.leftpad = attune_clamp(length_at(given->leftpad_k, p->leftpad_k.axis[0], batch, 0), 0, at.mask.keys);
#endif
    at.mask.shift = attune_mask_shift(p->bottom_right != 0, p->diagonal, at.mask.rows, at.mask.keys);
    at.mask.left = p->window_left;
    at.mask.right = p->window_right;
    return at;
}

/* ---- Vectors of one tensor, by position ---- */

/* A position is a row or a key of the sequence; with pack heads to a tile, row * pack + head. Where nothing but a plain
 * stride makes an address, positions and strides have 32 bits, for the sake of registers. */
#if ATTUNE_GENERAL
#    define POSITION attune_i64
#else
#    define POSITION int
#endif

typedef struct vectors {
    __global uchar *data; /* where position 0 begins */
    int dtype;
    int length;           /* of a vector */
    POSITION exist_begin; /* positions outside are not read or written, and taken as zeros */
    POSITION exist_end;
    POSITION stride;
#if ATTUNE_GENERAL
    attune_i64 pack;
    attune_i64 stride_head;
    __global const int *table; /* NULL: not paged */
    attune_i64 stride_table;
    attune_i64 stride_page;
    attune_i64 page_size;
    __global const float *descale; /* NULL: 1 */
    attune_i64 stride_descale;
#endif
} vectors;

FN __global uchar *advanced(__global uchar *data, attune_i64 elements, int dtype) {
    return data == 0 ? 0 : data + elements * element_bytes(dtype);
}

FN vectors make_vectors(__global uchar *data, int dtype, int length, attune_i64 first, attune_i64 stride,
                        attune_i64 exist_begin, attune_i64 exist_end) {
    vectors made;
    made.data = advanced(data, first, dtype);
    made.dtype = dtype;
    made.length = length;
    made.exist_begin = (POSITION)exist_begin;
    made.exist_end = (POSITION)exist_end;
    made.stride = (POSITION)stride;
#if ATTUNE_GENERAL
    made.pack = 1;
    made.stride_head = 0;
    made.table = 0;
    made.descale = 0;
#endif
    return made;
}

/* One for each row of the heads that share a tile, from the row that is first on. */
FN vectors packed_vectors(parameters p, const place *at, __global uchar *data, int dtype, int length, attune_i64 first,
                          attune_i64 stride, attune_i64 stride_head) {
    vectors made = make_vectors(data, dtype, length, first, stride, 0, at->mask.rows * PACK(p));
#if ATTUNE_GENERAL
    made.pack = p->pack;
    made.stride_head = stride_head;
#endif
    return made;
}

/* q, o and their kind. rows: that exist. */
FN vectors row_vectors(parameters p, const place *at, __global uchar *data, int dtype,
                       __constant const attune_opencl_strides *strides, int length) {
    const attune_i64 first =
        at->batch * strides->axis[0] + at->row_begin * strides->axis[1] + at->head * strides->axis[2];
    return packed_vectors(p, at, data, dtype, length, first, strides->axis[1], strides->axis[2]);
}

/* k, v and their kind. exist: of the sequence. */
FN vectors key_vectors(const place *at, __global uchar *data, int dtype,
                       __constant const attune_opencl_strides *strides, int length, attune_interval exist) {
    const attune_i64 first =
        at->batch * strides->axis[0] + at->key_begin * strides->axis[1] + at->head_kv * strides->axis[2];
    return make_vectors(data, dtype, length, first, strides->axis[1], exist.begin, exist.end);
}

#if ATTUNE_GENERAL
FN void set_descale(vectors *of, const place *at, __global const float *descale,
                    __constant const attune_opencl_strides *strides) {
    of->descale = descale == 0 ? 0 : descale + at->batch * strides->axis[0] + at->head_kv * strides->axis[1];
    of->stride_descale = strides->axis[2];
}

FN void set_pages(parameters p, const options *given, const place *at, vectors *of, __global uchar *data,
                  __constant const attune_opencl_strides *strides) {
    if (given->block_table != 0) {
        of->table = given->block_table + at->batch * p->block_table.axis[0];
        of->stride_table = p->block_table.axis[1];
        of->stride_page = strides->axis[0];
        of->page_size = p->page_size;
        of->data = advanced(data, at->head_kv * strides->axis[2], of->dtype);
    }
}
#endif

FN vectors q_vectors(parameters p, const options *given, const place *at, __global uchar *q) {
    vectors made = row_vectors(p, at, q, stored_dtype(p), &p->q, p->head_dim);
#if ATTUNE_GENERAL
    set_descale(&made, at, given->descale_q, &p->descale_q);
#endif
    return made;
}

FN vectors k_vectors(parameters p, const options *given, const place *at, __global uchar *k, attune_interval keys) {
    vectors made = key_vectors(at, k, stored_dtype(p), &p->k, p->head_dim, keys);
#if ATTUNE_GENERAL
    set_descale(&made, at, given->descale_k, &p->descale_k);
    set_pages(p, given, at, &made, k, &p->k);
#endif
    return made;
}

FN vectors v_vectors(parameters p, const options *given, const place *at, __global uchar *v, attune_interval keys) {
    vectors made = key_vectors(at, v, stored_dtype(p), &p->v, p->head_dim_v, keys);
#if ATTUNE_GENERAL
    set_descale(&made, at, given->descale_v, &p->descale_v);
    set_pages(p, given, at, &made, v, &p->v);
#endif
    return made;
}

/* From position 0, in elements. */
FN attune_i64 vector_index(const vectors *of, POSITION position) {
#if ATTUNE_GENERAL
    if (of->table != 0) {
        const attune_i64 page = of->table[position / of->page_size * of->stride_table];
        return page * of->stride_page + position % of->page_size * of->stride;
    }
    if (of->pack > 1) {
        return position / of->pack * of->stride + position % of->pack * of->stride_head;
    }
#endif
    return (attune_i64)position * of->stride;
}

FN float vector_descale(const vectors *of, POSITION position) {
#if ATTUNE_GENERAL
    if (of->descale != 0) {
        return of->descale[position / of->pack / 128 * of->stride_descale];
    }
#endif
    return 1.0f;
}

/* Elements d to d + VECTOR - 1 of the vector at a position, zeros for what does not exist. */
FN FLOATS load_from(const vectors *of, POSITION position, int d) {
    FLOATS x = (FLOATS)0.0f;
    if (position >= of->exist_begin && position < of->exist_end && d < of->length) {
        const attune_i64 index = vector_index(of, position) + d;
        if (ATTUNE_ALIGNED || d + VECTOR <= of->length) {
            x = load_vector(of->data, index, of->dtype);
        } else {
            x = load_part(of->data, index, of->dtype, of->length - d);
        }
#if ATTUNE_GENERAL
        if (of->descale != 0) {
            x *= vector_descale(of, position);
        }
#endif
    }
    return x;
}

FN void store_to(const vectors *of, POSITION position, int d, FLOATS x) {
    if (position >= of->exist_begin && position < of->exist_end && d < of->length) {
        store_part(of->data, vector_index(of, position) + d, of->dtype, of->length - d, x);
    }
}

#endif
