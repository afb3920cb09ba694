/*
 * The columns of the row of kernels.def that this compilation is for, as constants, and what follows from them in any
 * kernel. ATTUNE_SYMBOL is the kernel's name, ATTUNE_STORAGE its element type, f16 or bf16.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_COLUMNS_H
#define ATTUNE_CUDA_SM90_COLUMNS_H

#include "backends/cuda/sm90/fwd.h"

#define INLINE __device__ __forceinline__

#define TEXT_OF(token) #token
#define TEXT(token)    TEXT_OF(token)
#define ELEMENT        TEXT(ATTUNE_STORAGE)

#define JOIN_OF(a, b) a##b
#define JOIN(a, b)    JOIN_OF(a, b)

namespace {

/* ---- Columns ---- */

#define ATTUNE_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,          \
                   tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, storage)               \
    struct columns_of_attune_##name {                                                                                  \
        static constexpr const char *FEATURES = #features;                                                             \
        static constexpr int HEAD_DIM = head_dim, HEAD_DIM_V = head_dim_v;                                             \
        static constexpr int TILE_ROWS = tile_rows, TILE_KEYS = tile_keys, STAGES = stages;                            \
        static constexpr int THREADS = threads, SHARED_BYTES = shared;                                                 \
    };
#include "backends/cuda/kernels.def"
#undef ATTUNE_ROW

using columns = JOIN(columns_of_, ATTUNE_SYMBOL);

constexpr bool is_same_text(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

constexpr bool IS_F16 = is_same_text(ELEMENT, "f16");
static_assert(IS_F16 || is_same_text(ELEMENT, "bf16"), "elements are f16 or bf16");

constexpr int HEAD_DIM = columns::HEAD_DIM;
constexpr int HEAD_DIM_V = columns::HEAD_DIM_V;
constexpr int TILE_ROWS = columns::TILE_ROWS;
constexpr int TILE_KEYS = columns::TILE_KEYS;
constexpr int STAGES = columns::STAGES;

/* ---- Threads ---- */

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = 0xFFFFFFFFu;
constexpr int WARPGROUP = ATTUNE_SM90_WARPGROUP;
constexpr int WARPGROUP_ROWS = ATTUNE_SM90_WARPGROUP_ROWS;

/* ---- Shared memory ---- */

constexpr int PANEL = ATTUNE_SM90_PANEL;
constexpr int PANEL_BYTES = 128; /* of one row */
constexpr int PANELS = (HEAD_DIM + PANEL - 1) / PANEL;
constexpr int PANELS_V = (HEAD_DIM_V + PANEL - 1) / PANEL;
constexpr int SHARED_BYTES_MAX = 227 * 1024; /* CUDA C++ Programming Guide, "Technical Specifications", 9.0 */

extern __shared__ __align__(1024) unsigned char shared[];

INLINE uint32_t shared_address(int offset) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared)) + offset;
}

} // namespace

#endif
