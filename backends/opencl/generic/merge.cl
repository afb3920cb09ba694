/*
 * The public merge: states that the caller has of the same rows over other keys. docs/semantics.md, "Splitting and
 * merging".
 *
 * A launch takes ATTUNE_OPENCL_PARTS_MAX parts at most. A work-item has a vector of columns of one row, and keeps its
 * own state between launches.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/run.h"

#include "backends/opencl/generic/merge.h"
#include "backends/opencl/generic/vector.h"

#if ATTUNE_OPENCL_PARTS_MAX != 8
#    error "the kernels' parameters are eight parts"
#endif

typedef __constant const attune_opencl_merge *parameters;

typedef struct parts {
    __global const uchar *o[ATTUNE_OPENCL_PARTS_MAX];
    __global const float *lse[ATTUNE_OPENCL_PARTS_MAX];
    int count;
} parts;

typedef struct item {
    attune_i64 index;
    attune_i64 batch, row, head;
    int column;
} item;

/* What is kept: m, l and o, not yet divided by l. */
typedef struct state {
    attune_softmax softmax;
    FLOATS o;
} state;

#define STATE_FLOATS (VECTOR + 2)

FN item find_item(parameters p) {
    item found;
    const attune_i64 across = (p->head_dim_v + VECTOR - 1) / VECTOR;
    found.index = get_global_id(0);
    found.column = (int)(found.index % across) * VECTOR;
    found.head = found.index / across % p->heads;
    found.row = found.index / across / p->heads % p->rows;
    found.batch = found.index / across / p->heads / p->rows;
    return found;
}

/* -0 leaves every first term as it is: with one part that is not empty, the result is that part's, bit for bit. */
FN state empty_state(void) {
    state empty;
    empty.softmax = attune_softmax_empty();
    empty.o = (FLOATS)-0.0f;
    return empty;
}

FN __global float *kept_of(parameters p, const item *at, __global uchar *workspace) {
    return (__global float *)(workspace + p->state) + at->index * STATE_FLOATS;
}

FN state load_state(__global const float *kept) {
    state loaded;
    loaded.softmax.max = kept[0];
    loaded.softmax.sum = kept[1];
    loaded.o = VLOAD(0, kept + 2);
    return loaded;
}

FN void store_state(const state *of, __global float *kept) {
    kept[0] = of->softmax.max;
    kept[1] = of->softmax.sum;
    VSTORE(of->o, 0, kept + 2);
}

FN void add_parts(parameters p, const parts *given, const item *at, state *sum) {
    const attune_i64 row_lse =
        at->batch * p->part_lse.axis[0] + at->head * p->part_lse.axis[1] + at->row * p->part_lse.axis[2];
    const attune_i64 row_o =
        at->batch * p->part_o.axis[0] + at->row * p->part_o.axis[1] + at->head * p->part_o.axis[2] + at->column;
    float max = -INFINITY;
#pragma unroll
    for (int n = 0; n < ATTUNE_OPENCL_PARTS_MAX; n++) {
        if (n < given->count) {
            max = fmax(max, given->lse[n][row_lse]);
        }
    }
    const float factor = attune_softmax_raise(&sum->softmax, max);
    sum->o *= factor;
#pragma unroll
    for (int n = 0; n < ATTUNE_OPENCL_PARTS_MAX; n++) {
        if (n < given->count) {
            const attune_softmax part = attune_softmax_from_logit(given->lse[n][row_lse]);
            const float weight = attune_softmax_weight(part.max, attune_softmax_base(sum->softmax.max));
            if (part.sum != 0.0f) { /* the o of an empty part may be anything, of a light one not */
                sum->o += weight * (at->column + VECTOR <= p->head_dim_v
                                        ? load_vector(given->o[n], row_o, p->part_dtype)
                                        : load_part(given->o[n], row_o, p->part_dtype, p->head_dim_v - at->column));
            }
            sum->softmax.sum += part.sum * weight;
        }
    }
}

FN void store_o(parameters p, const item *at, const state *sum, __global uchar *o) {
    const float inverse = attune_softmax_finish(sum->softmax).inverse;
    const attune_i64 row = at->batch * p->o.axis[0] + at->row * p->o.axis[1] + at->head * p->o.axis[2] + at->column;
    store_part(o, row, p->o_dtype, p->head_dim_v - at->column, inverse == 0.0f ? (FLOATS)0.0f : sum->o * inverse);
}

FN void store_lse(parameters p, const item *at, const state *sum, __global uchar *lse) {
    if (lse != 0 && at->column == 0) {
        ((__global float *)lse)[at->batch * p->lse.axis[0] + at->head * p->lse.axis[1] + at->row * p->lse.axis[2]] =
            attune_softmax_finish(sum->softmax).lse;
    }
}

#define PART_O(n)   __global const uchar *part_o##n
#define PART_LSE(n) __global const uchar *part_lse##n
#define PART_OPERANDS                                                                                                  \
    __global uchar *o, __global uchar *lse, PART_O(0), PART_O(1), PART_O(2), PART_O(3), PART_O(4), PART_O(5),          \
        PART_O(6), PART_O(7), PART_LSE(0), PART_LSE(1), PART_LSE(2), PART_LSE(3), PART_LSE(4), PART_LSE(5),            \
        PART_LSE(6), PART_LSE(7)

#define SET_PART(n)                                                                                                    \
    given.o[n] = part_o##n + run.part_o_offset[n];                                                                     \
    given.lse[n] = (__global const float *)(part_lse##n + run.part_lse_offset[n])

enum { IS_FIRST = 1, IS_LAST = 2, STORES_O = 4, STORES_LSE = 8 };

/* A launch. The last has what parts the others leave. */
#define MERGE_KERNEL(name, does)                                                                                       \
    __kernel void name(__constant const attune_opencl_merge *p, const attune_opencl_run run,                           \
                       __global uchar *workspace, PART_OPERANDS) {                                                     \
        const item at = find_item(p);                                                                                  \
        parts given;                                                                                                   \
        SET_PART(0);                                                                                                   \
        SET_PART(1);                                                                                                   \
        SET_PART(2);                                                                                                   \
        SET_PART(3);                                                                                                   \
        SET_PART(4);                                                                                                   \
        SET_PART(5);                                                                                                   \
        SET_PART(6);                                                                                                   \
        SET_PART(7);                                                                                                   \
        given.count = ATTUNE_OPENCL_PARTS_MAX;                                                                         \
        if (((does)&IS_LAST) != 0) {                                                                                   \
            given.count = (int)((p->parts - 1) % ATTUNE_OPENCL_PARTS_MAX) + 1;                                         \
        }                                                                                                              \
        if (at.batch < p->batch && (((does)&STORES_LSE) == 0 || at.column == 0 || ((does)&STORES_O) != 0)) {           \
            __global float *kept = kept_of(p, &at, workspace + run.workspace);                                         \
            state sum = ((does)&IS_FIRST) != 0 ? empty_state() : load_state(kept);                                     \
            add_parts(p, &given, &at, &sum);                                                                           \
            if (((does)&IS_LAST) == 0) {                                                                               \
                store_state(&sum, kept);                                                                               \
            }                                                                                                          \
            if (((does)&STORES_O) != 0) {                                                                              \
                store_o(p, &at, &sum, o + run.offset[0]);                                                              \
            }                                                                                                          \
            if (((does)&STORES_LSE) != 0) {                                                                            \
                store_lse(p, &at, &sum, lse == 0 ? 0 : lse + run.offset[1]);                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

/* The result may lie where the first part does: each element of o is read and written by one work-item, but a row's lse
 * is read by all that have a column of it, so it waits until they are done. */
MERGE_KERNEL(attune_merge_only_o, IS_FIRST | IS_LAST | STORES_O)
MERGE_KERNEL(attune_merge_only_lse, IS_FIRST | IS_LAST | STORES_LSE)
MERGE_KERNEL(attune_merge_first, IS_FIRST)
MERGE_KERNEL(attune_merge_next, 0)
MERGE_KERNEL(attune_merge_last, IS_LAST | STORES_O | STORES_LSE)
