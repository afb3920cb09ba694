/*
 * docs/semantics.md, "Paged keys and values": new keys, rotated, and new values go into the cache; q is rotated in
 * place or elsewhere. Rotary is that of RoFormer (arXiv 2104.09864), section 3.4.2.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/run.h"

#include "backends/opencl/generic/append.h"
#include "backends/opencl/generic/divide.h"
#include "backends/opencl/generic/vector.h"

#pragma OPENCL FP_CONTRACT OFF

typedef __constant const attune_opencl_append *parameters;
typedef __constant const attune_opencl_moved *moved_pointer;

typedef struct tensors {
    __global const uchar *from;
    __global uchar *to;
    __global const int *seqused_k;   /* NULL: 0 */
    __global const int *block_table; /* NULL: not paged */
    __global const float *descale;   /* NULL: 1 */
    __global const float *cosine;
    __global const float *sine;
} tensors;

/* A work-item has a pair of elements that are rotated together, or one that is not. */
typedef struct item {
    attune_i64 batch, row, head;
    int first;
    int second; /* -1: none */
    int angle;
} item;

FN item find_item(parameters p, moved_pointer moved) {
    item found;
    const int pairs = moved->rotary_dim / 2;
    const int units = moved->length - pairs;
    const attune_i64 index = get_global_id(0);
    const int unit = (int)(index % units);
    found.head = index / units % moved->heads;
    found.row = index / units / moved->heads % moved->rows;
    found.batch = index / units / moved->heads / moved->rows;
    found.angle = unit;
    found.first = unit < pairs ? (p->is_interleaved != 0 ? 2 * unit : unit) : unit + pairs;
    found.second = unit < pairs ? found.first + (p->is_interleaved != 0 ? 1 : pairs) : -1;
    return found;
}

FN attune_i64 target_index(parameters p, moved_pointer moved, const tensors *given, const item *at,
                           attune_i64 position) {
    attune_i64 outer = at->batch;
    attune_i64 inner = position;
    if (given->block_table != 0) {
        outer =
            given->block_table[at->batch * p->block_table.axis[0] + position / p->page_size * p->block_table.axis[1]];
        inner = position % p->page_size;
    }
    return outer * moved->to.axis[0] + inner * moved->to.axis[1] + at->head * moved->to.axis[2];
}

/* value = stored * descale; a descale of 0 makes every value 0, and is stored as 0. */
FN float descaled(float x, float descale) {
    return descale == 1.0f ? x : (descale == 0.0f ? 0.0f : divide(x, descale));
}

/* is_cache: the target is a position of the cache, and no row of a tensor like the source. */
FN void move(parameters p, moved_pointer moved, const tensors *given, bool is_cache) {
    const item at = find_item(p, moved);
    if (at.batch >= p->batch) {
        return;
    }
    const attune_i64 used = given->seqused_k == 0 ? 0 : given->seqused_k[at.batch * p->seqused_k.axis[0]];
    const attune_i64 position = used + at.row;
    /* Whatever seqused_k holds, nothing outside of the tensors is read or written. */
    if (position < 0 || position >= p->positions || (is_cache && position >= p->capacity)) {
        return;
    }
    const attune_i64 from =
        at.batch * moved->from.axis[0] + at.row * moved->from.axis[1] + at.head * moved->from.axis[2];
    const attune_i64 to = target_index(p, moved, given, &at, is_cache ? position : at.row);
    float x = load_element(given->from, from + at.first, moved->from_dtype);
    float y = at.second < 0 ? 0.0f : load_element(given->from, from + at.second, moved->from_dtype);
    if (at.second >= 0) {
        const float cosine = given->cosine[position * p->rotary_cos.axis[0] + at.angle * p->rotary_cos.axis[1]];
        const float sine = given->sine[position * p->rotary_sin.axis[0] + at.angle * p->rotary_sin.axis[1]];
        const float turned = x * cosine - y * sine;
        y = x * sine + y * cosine;
        x = turned;
    }
    const float descale = given->descale == 0
                              ? 1.0f
                              : given->descale[at.batch * moved->descale.axis[0] + at.head * moved->descale.axis[1] +
                                               position / 128 * moved->descale.axis[2]];
    store_element(given->to, to + at.first, moved->to_dtype, descaled(x, descale));
    if (at.second >= 0) {
        store_element(given->to, to + at.second, moved->to_dtype, descaled(y, descale));
    }
}

#define APPEND_OPERANDS                                                                                                \
    __global uchar *from, __global uchar *to, __global uchar *seqused_k, __global uchar *block_table,                  \
        __global uchar *descale, __global uchar *rotary_cos, __global uchar *rotary_sin

#define OPERAND(n, type, pointer) ((pointer) == 0 ? 0 : (type)((pointer) + run.offset[n]))

#define APPEND_KERNEL(name, moved, is_cache)                                                                           \
    __kernel void name(__constant const attune_opencl_append *p, const attune_opencl_run run,                          \
                       __global uchar *workspace, APPEND_OPERANDS) {                                                   \
        tensors given;                                                                                                 \
        given.from = OPERAND(0, __global uchar *, from);                                                               \
        given.to = OPERAND(1, __global uchar *, to);                                                                   \
        given.seqused_k = OPERAND(2, __global const int *, seqused_k);                                                 \
        given.block_table = OPERAND(3, __global const int *, block_table);                                             \
        given.descale = OPERAND(4, __global const float *, descale);                                                   \
        given.cosine = OPERAND(5, __global const float *, rotary_cos);                                                 \
        given.sine = OPERAND(6, __global const float *, rotary_sin);                                                   \
        if (!(is_cache)) {                                                                                             \
            given.block_table = 0;                                                                                     \
        }                                                                                                              \
        move(p, &p->moved, &given, is_cache);                                                                          \
    }

APPEND_KERNEL(attune_append_k, k, true)
APPEND_KERNEL(attune_append_v, v, true)
APPEND_KERNEL(attune_append_q, q, false)
