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

/* Whatever a score, a sequence or a sharing of heads may be. */
#define FEATURES_every_score                                                                                           \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SOFTCAP |                \
     ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_DROPOUT | \
     ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q |               \
     ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_LEFTPAD_K | ATTUNE_FEATURE_BLOCK_SPARSE | ATTUNE_FEATURE_DESCALE)
/* Results in f32 where q is not, and the same bits each time. */
#define FEATURES_every_result (ATTUNE_FEATURE_F32_OUT | ATTUNE_FEATURE_DETERMINISTIC)

/* All that each operation has. */
#define FEATURES_every_forward                                                                                         \
    (FEATURES_every_score | FEATURES_every_result | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_PROBS | \
     ATTUNE_FEATURE_O_IS_Q)
#define FEATURES_every_backward                                                                                        \
    (FEATURES_every_score | FEATURES_every_result | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_DLSE | ATTUNE_FEATURE_DBIAS |  \
     ATTUNE_FEATURE_DSINK)
#define FEATURES_every_append                                                                                          \
    (ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_DESCALE |                   \
     ATTUNE_FEATURE_ROTARY | ATTUNE_FEATURE_CONVERT | ATTUNE_FEATURE_DETERMINISTIC)
#define FEATURES_every_merge                                                                                           \
    (FEATURES_every_result | ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_CONVERT)
#define FEATURES_every_quantize (ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_DESCALE | ATTUNE_FEATURE_DETERMINISTIC)

/* Only the reference computes in f64; only the others have tiles. */
#define FEATURES_reference_forward  (FEATURES_every_forward | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_reference_backward (FEATURES_every_backward | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_reference_merge    (FEATURES_every_merge | ATTUNE_FEATURE_F64_OUT)
#define FEATURES_tiled_forward                                                                                         \
    (FEATURES_every_forward | ATTUNE_FEATURE_ANY_TILE | ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK)
#define FEATURES_tiled_backward (FEATURES_every_backward | ATTUNE_FEATURE_ANY_TILE)

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
