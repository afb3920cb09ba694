/*
 * kernels.def as rows. Its columns are those of attune_kernel_row, in that order: name, operation, dtypes, features,
 * largest head_dim and head_dim_v, their multiple, most rows, architecture, tile rows and keys, stages, threads, shared
 * bytes, P's dtype, spilled bytes, alignment, instruction set, whether subnormals are flushed; and the kernel's symbol.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/cpu/kernel.h"

/* ---- What the tokens mean ---- */

#define BIT(dtype)               (UINT64_C(1) << ATTUNE_DTYPE_##dtype)
#define DTYPES_f32_f16_bf16      (BIT(F32) | BIT(F16) | BIT(BF16))
#define DTYPES_f32_f16_bf16_e4m3 (DTYPES_f32_f16_bf16 | BIT(E4M3))

#define ISA_none ""

#define FEATURES_every_append   ATTUNE_FEATURES_EVERY_APPEND
#define FEATURES_every_merge    ATTUNE_FEATURES_EVERY_MERGE
#define FEATURES_every_quantize ATTUNE_FEATURES_EVERY_QUANTIZE

/* Only the reference computes in f64; only the others have tiles. */
#define FEATURES_reference_forward  (ATTUNE_FEATURES_EVERY_FORWARD | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_reference_backward (ATTUNE_FEATURES_EVERY_BACKWARD | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_reference_merge    (ATTUNE_FEATURES_EVERY_MERGE | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_tiled_forward                                                                                         \
    (ATTUNE_FEATURES_EVERY_FORWARD | ATTUNE_FEATURE_ANY_TILE | ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK)
#define FEATURES_tiled_backward (ATTUNE_FEATURES_EVERY_BACKWARD | ATTUNE_FEATURE_ANY_TILE)

/* ---- The rows ---- */

#define ATTUNE_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,          \
                   tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, symbol)                \
    extern const struct attune_cpu_kernel attune_cpu_##symbol;
#include "backends/cpu/kernels.def"
#undef ATTUNE_ROW

#define ATTUNE_ROW_KERNEL(name, symbol) &attune_cpu_##symbol
static const attune_kernel_row rows[] = {
#define ATTUNE_ROW ATTUNE_KERNEL_ROW
#include "backends/cpu/kernels.def"
#undef ATTUNE_ROW
};

const attune_kernel_row *attune_cpu_kernels(int32_t *out_count) {
    *out_count = (int32_t)(sizeof rows / sizeof *rows);
    return rows;
}
