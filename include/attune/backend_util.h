/*
 * What host code of backends and core compute alike: checked arithmetic, the places of elements, what a tile takes, how
 * a grid is folded into one that a device can launch, what f32 makes of f64, names in any case of letters.
 * core/portable holds what device code needs too.
 *
 * Everything here is static inline, without a state, and compiles as C11 and C++17. On what a validated problem holds
 * nothing overflows.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BACKEND_UTIL_H
#define ATTUNE_BACKEND_UTIL_H

#include <float.h>

#include "attune/backend.h"

ATTUNE_EXTERN_C_BEGIN

/* The first fields of a struct attune_backend, in its initialiser. */
#define ATTUNE_BACKEND_HEADER(name, description, priority)                                                             \
    sizeof(attune_backend), ATTUNE_BACKEND_ABI_MAJOR, ATTUNE_BACKEND_ABI_MINOR, sizeof(attune_kernel_row), (name),     \
        (description), (priority)

/* Whether a host has the ABI of this backend; if not, it is told. For attune_backend_query, which then returns NULL. */
static inline bool attune_host_fits(const attune_host_services *host, int32_t host_abi_major) {
    if (host_abi_major != ATTUNE_BACKEND_ABI_MAJOR) {
        (void)(host->fail)(ATTUNE_INCOMPATIBLE, "the host speaks backend ABI %d, this backend %d", (int)host_abi_major,
                           ATTUNE_BACKEND_ABI_MAJOR);
        return false;
    }
    return true;
}

/* A line of a kernels.def as one attune_kernel_row of an array: #define ATTUNE_ROW ATTUNE_KERNEL_ROW, then include the
 * file. DTYPES_x, FEATURES_x and ISA_x say what the backend's tokens mean, ATTUNE_ROW_KERNEL(name, last) what the last
 * column does. */
#define ATTUNE_KERNEL_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,   \
                          tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, last)           \
    {#name,                                                                                                            \
     ATTUNE_OP_##op,                                                                                                   \
     DTYPES_##dtypes,                                                                                                  \
     FEATURES_##features,                                                                                              \
     head_dim,                                                                                                         \
     head_dim_v,                                                                                                       \
     multiple,                                                                                                         \
     rows,                                                                                                             \
     #architecture,                                                                                                    \
     tile_rows,                                                                                                        \
     tile_keys,                                                                                                        \
     stages,                                                                                                           \
     threads,                                                                                                          \
     shared,                                                                                                           \
     ATTUNE_DTYPE_##p_dtype,                                                                                           \
     spill,                                                                                                            \
     alignment,                                                                                                        \
     ISA_##isa,                                                                                                        \
     flushes,                                                                                                          \
     ATTUNE_ROW_KERNEL(name, last)},

/* What a row declares that takes every option of its operation. Some add what is a backend's own choice: tiles of any
 * size, splits, packing, and results in f64. */
#define ATTUNE_FEATURES_EVERY_SCORE                                                                                    \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SOFTCAP |                \
     ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_DROPOUT | \
     ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q |               \
     ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_LEFTPAD_K | ATTUNE_FEATURE_BLOCK_SPARSE | ATTUNE_FEATURE_DESCALE |      \
     ATTUNE_FEATURE_F32_OUT | ATTUNE_FEATURE_DETERMINISTIC)
#define ATTUNE_FEATURES_EVERY_FORWARD                                                                                  \
    (ATTUNE_FEATURES_EVERY_SCORE | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_PROBS |                  \
     ATTUNE_FEATURE_O_IS_Q)
#define ATTUNE_FEATURES_EVERY_BACKWARD                                                                                 \
    (ATTUNE_FEATURES_EVERY_SCORE | ATTUNE_FEATURE_DLSE | ATTUNE_FEATURE_DBIAS | ATTUNE_FEATURE_DSINK)
#define ATTUNE_FEATURES_EVERY_APPEND                                                                                   \
    (ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_DESCALE |                   \
     ATTUNE_FEATURE_ROTARY | ATTUNE_FEATURE_CONVERT | ATTUNE_FEATURE_DETERMINISTIC)
#define ATTUNE_FEATURES_EVERY_MERGE                                                                                    \
    (ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_CONVERT | ATTUNE_FEATURE_F32_OUT |                  \
     ATTUNE_FEATURE_DETERMINISTIC)
#define ATTUNE_FEATURES_EVERY_QUANTIZE (ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_DESCALE | ATTUNE_FEATURE_DETERMINISTIC)

/* ---- Arithmetic ---- */

static inline int64_t attune_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t attune_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* value 0 or more, divisor 1 or more. */
static inline int64_t attune_ceil_div(int64_t value, int64_t divisor) {
    return value / divisor + (value % divisor != 0);
}

/* False, with *out_sum untouched, if the sum does not fit. */
static inline bool attune_add_checked(uint64_t a, uint64_t b, uint64_t *out_sum) {
    if (a > UINT64_MAX - b) {
        return false;
    }
    *out_sum = a + b;
    return true;
}

/* False, with *out_product untouched, if the product does not fit. */
static inline bool attune_multiply_checked(uint64_t a, uint64_t b, uint64_t *out_product) {
    if (b != 0 && a > UINT64_MAX / b) {
        return false;
    }
    *out_product = a * b;
    return true;
}

/* The least multiple that is not below value; multiple 1 or more. False if that does not fit. */
static inline bool attune_round_up_checked(uint64_t value, uint64_t multiple, uint64_t *out_rounded) {
    uint64_t rest = value % multiple;
    return attune_add_checked(value, rest == 0 ? 0 : multiple - rest, out_rounded);
}

/* ---- Operands ---- */

/* The size of one element; 0 for ATTUNE_DTYPE_NONE and for values outside the enum. */
static inline int64_t attune_element_bytes(attune_dtype dtype) {
    switch (dtype) {
    case ATTUNE_DTYPE_NONE:
        return 0;
    case ATTUNE_DTYPE_E4M3:
    case ATTUNE_DTYPE_U8:
        return 1;
    case ATTUNE_DTYPE_F16:
    case ATTUNE_DTYPE_BF16:
        return 2;
    case ATTUNE_DTYPE_F32:
    case ATTUNE_DTYPE_I32:
    case ATTUNE_DTYPE_U32:
        return 4;
    case ATTUNE_DTYPE_U64:
    case ATTUNE_DTYPE_F64:
        return 8;
    }
    return 0;
}

static inline bool attune_problem_has(const attune_problem *problem, attune_operand operand) {
    return problem->operand[operand].dtype != ATTUNE_DTYPE_NONE;
}

/* The number of index tuples of a layout: 0 for an absent operand. */
static inline int64_t attune_layout_elements(const attune_layout *layout) {
    if (layout->dtype == ATTUNE_DTYPE_NONE) {
        return 0;
    }
    return layout->shape[0] * layout->shape[1] * layout->shape[2] * layout->shape[3];
}

/* Elements from the operand's first to the one at (i0, i1, i2, i3). Along an axis of stride 0 any index is legal. */
static inline int64_t attune_layout_offset(const attune_layout *layout, int64_t i0, int64_t i1, int64_t i2,
                                           int64_t i3) {
    return i0 * layout->stride[0] + i1 * layout->stride[1] + i2 * layout->stride[2] + i3 * layout->stride[3];
}

/* Where a pointer points, for a backend whose data are addresses. */
static inline void *attune_pointer_address(attune_pointer pointer) {
    return (char *)pointer.data + pointer.byte_offset;
}

/* The address of an operand's element likewise. */
static inline void *attune_element(const attune_problem *problem, const attune_bindings *bindings,
                                   attune_operand operand, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const attune_layout *layout = &problem->operand[operand];
    char *first = (char *)attune_pointer_address(bindings->operand[operand]);
    return first + attune_layout_offset(layout, i0, i1, i2, i3) * attune_element_bytes(layout->dtype);
}

/* ---- Numbers of f64 for kernels of f32 ---- */

/* The nearest finite number of f32: a scale may be any finite one of f64, and past f32 infinity * 0 would be NaN. */
static inline float attune_f32_saturated(double value) {
    return value > (double)FLT_MAX ? FLT_MAX : (value < -(double)FLT_MAX ? -FLT_MAX : (float)value);
}

/* The softcap for f32; 0: none. Within these bounds it is told from none and from infinity, its quotient and product
 * are finite, and past them no score changes any more. */
static inline float attune_f32_softcap(const attune_problem *problem) {
    const double least = 0x1p-120;
    const double most = 0x1p100;
    if (problem->softcap <= 0.0) {
        return 0.0F;
    }
    return (float)(problem->softcap < least ? least : (problem->softcap > most ? most : problem->softcap));
}

/* ---- Tiles ---- */

/* The on-chip memory that core reckons a tile of Br x Bc to take where it chooses the tile, for rows that declare
 * ATTUNE_FEATURE_ANY_TILE: in forward Q, K and V in their own dtype and S in f32; in backward dO, and dP in f32,
 * besides. Accumulators are taken to be in registers. This much, and the row's shared_bytes, fits in
 * shared_memory_bytes where that is a limit and not a cache.
 *
 * Source: Dao et al., FlashAttention (arXiv 2205.14135), algorithm 1. */
static inline int64_t attune_tile_bytes(const attune_problem *problem, int64_t tile_rows, int64_t tile_keys) {
    const int64_t head_dims = problem->head_dim + problem->head_dim_v;
    const int64_t score_bytes = 4 * tile_rows * tile_keys;
    if (problem->op == ATTUNE_OP_BACKWARD) {
        return attune_element_bytes(problem->dtype) * (tile_rows + tile_keys) * head_dims + 2 * score_bytes;
    }
    const int64_t elements = tile_rows * problem->head_dim + tile_keys * head_dims;
    return attune_element_bytes(problem->dtype) * elements + score_bytes;
}

/* ---- The grid ---- */

/* Folds a grid of any size into one whose axes do not exceed the device's; core/portable/work.h unfolds it. The last
 * work-groups of a folded grid may be idle. False if no folded grid is large enough. A grid that fits is kept; an empty
 * one is {0, 0, 0}.
 *
 * grid: extents that are 0 or more, with a product below 2^62. max: 1 or more along each axis. */
static inline bool attune_grid_fold(const int64_t grid[3], const int64_t max[3], int64_t out_folded[3]) {
    const int64_t total = grid[0] * grid[1] * grid[2];
    const bool is_kept = total == 0 || (grid[0] <= max[0] && grid[1] <= max[1] && grid[2] <= max[2]);
    const int64_t lines = attune_ceil_div(total, max[0]);
    const int64_t layers = attune_ceil_div(lines, max[1]);
    if (is_kept) {
        for (int axis = 0; axis < 3; axis++) {
            out_folded[axis] = total == 0 ? 0 : grid[axis];
        }
    } else if (layers <= max[2]) {
        out_folded[2] = layers;
        out_folded[1] = attune_ceil_div(lines, layers);
        out_folded[0] = attune_ceil_div(attune_ceil_div(total, layers), out_folded[1]);
    }
    return is_kept || layers <= max[2];
}

/* ---- Names ---- */

/* Only A to Z have another case: in some locales 'I' is no capital of 'i'. */
static inline char attune_lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter;
}

/* Whether text begins with beginning, in any case of letters. */
static inline bool attune_begins(const char *text, const char *beginning) {
    while (*beginning != '\0' && attune_lower(*text) == attune_lower(*beginning)) {
        text++;
        beginning++;
    }
    return *beginning == '\0';
}

/* Copies one of names that are separated by single blanks. False if there are not so many, or it does not fit. */
static inline bool attune_name_at(const char *names, int32_t index, char *out_name, size_t capacity) {
    for (; index > 0 && *names != '\0'; names++) {
        index -= *names == ' ';
    }
    size_t length = 0;
    for (; names[length] != '\0' && names[length] != ' ' && length < capacity; length++) {
        out_name[length] = names[length];
    }
    if (length == 0 || length == capacity) {
        return false;
    }
    out_name[length] = '\0';
    return true;
}

ATTUNE_EXTERN_C_END

#endif
