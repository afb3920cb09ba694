/*
 * kernels.def as rows. Its columns are those of attune_kernel_row, in that order: name, operation, dtypes, features,
 * largest head_dim and head_dim_v, their multiple, most rows, architecture, tile rows and keys, stages, threads, shared
 * bytes, P's dtype, spilled bytes, alignment, instruction set, whether subnormals are flushed; and the storage type
 * that the kernel's source is compiled for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"

/* ---- What the tokens mean ---- */

#define DTYPES_f32  (UINT64_C(1) << ATTUNE_DTYPE_F32)
#define DTYPES_f16  (UINT64_C(1) << ATTUNE_DTYPE_F16)
#define DTYPES_bf16 (UINT64_C(1) << ATTUNE_DTYPE_BF16)
#define DTYPES_e4m3 (UINT64_C(1) << ATTUNE_DTYPE_E4M3)

#define DTYPES_f32_f16_bf16      (DTYPES_f32 | DTYPES_f16 | DTYPES_bf16)
#define DTYPES_f32_f16_bf16_e4m3 (DTYPES_f32_f16_bf16 | DTYPES_e4m3)

#define ISA_none ""

/* The lowest and highest compute capability that a row's image has code for; see cuda_code in meson.build. */
#define RUNS_ON_sm_80  80, 90
#define RUNS_ON_sm_90a 90, 90

#define FEATURES_general_forward ATTUNE_FEATURES_EVERY_FORWARD
#define FAMILY_general_forward   attune_cuda_general_forward

#define FEATURES_general_backward ATTUNE_FEATURES_EVERY_BACKWARD
#define FAMILY_general_backward   attune_cuda_general_backward

#define FEATURES_hopper_full                                                                                           \
    (ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_O_IS_Q | \
     ATTUNE_FEATURE_DETERMINISTIC)
#define FAMILY_hopper_full attune_cuda_hopper_forward

#define FEATURES_hopper_causal (FEATURES_hopper_full | ATTUNE_FEATURE_CAUSAL)
#define FAMILY_hopper_causal   attune_cuda_hopper_forward

#define FEATURES_hopper_general                                                                                        \
    (FEATURES_hopper_causal | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K |              \
     ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_F32_OUT)
#define FAMILY_hopper_general attune_cuda_hopper_forward

#define FEATURES_hopper_softcap (FEATURES_hopper_general | ATTUNE_FEATURE_SOFTCAP)
#define FAMILY_hopper_softcap   attune_cuda_hopper_forward

#define FEATURES_hopper_full_split (FEATURES_hopper_full | ATTUNE_FEATURE_OWN_SPLITS)
#define FAMILY_hopper_full_split   attune_cuda_hopper_split

#define FEATURES_hopper_split ((FEATURES_hopper_general & ~ATTUNE_FEATURE_WINDOW) | ATTUNE_FEATURE_OWN_SPLITS)
#define FAMILY_hopper_split   attune_cuda_hopper_split

#define FEATURES_decode                                                                                                \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SOFTCAP |                \
     ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_VARLEN_Q |                       \
     ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_LEFTPAD_K |        \
     ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_F32_OUT | ATTUNE_FEATURE_DETERMINISTIC |               \
     ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK)
#define FAMILY_decode attune_cuda_decode

#define FEATURES_hopper_decode FEATURES_decode
#define FAMILY_hopper_decode   attune_cuda_hopper_decode

#define FEATURES_hopper_backward                                                                                       \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_DSINK |                    \
     ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_DLSE | ATTUNE_FEATURE_DETERMINISTIC)
#define FAMILY_hopper_backward attune_cuda_hopper_backward

#define FEATURES_hopper_backward_general                                                                               \
    (FEATURES_hopper_backward | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_VARLEN_Q |             \
     ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K)
#define FAMILY_hopper_backward_general attune_cuda_hopper_backward

#define FEATURES_append ATTUNE_FEATURES_EVERY_APPEND
#define FAMILY_append   attune_cuda_append

#define FEATURES_merge ATTUNE_FEATURES_EVERY_MERGE
#define FAMILY_merge   attune_cuda_merge

#define FEATURES_quantize ATTUNE_FEATURES_EVERY_QUANTIZE
#define FAMILY_quantize   attune_cuda_quantize

/* ---- The rows ---- */

#define ATTUNE_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,          \
                   tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, storage)               \
    extern const unsigned char attune_cuda_image_##name[];                                                             \
    static const struct attune_cuda_kernel kernel_##name = {attune_cuda_image_##name, "attune_" #name,                 \
                                                            RUNS_ON_##architecture, &FAMILY_##features};
#include "backends/cuda/kernels.def"
#undef ATTUNE_ROW

#define ATTUNE_ROW_KERNEL(name, storage) &kernel_##name
static const attune_kernel_row rows[] = {
#define ATTUNE_ROW ATTUNE_KERNEL_ROW
#include "backends/cuda/kernels.def"
#undef ATTUNE_ROW
};

const attune_kernel_row *attune_cuda_kernels(int32_t *out_count) {
    *out_count = ATTUNE_CUDA_ROWS;
    return rows;
}

bool attune_cuda_row_runnable(void *handle, int32_t row, char reason[ATTUNE_REASON_MAX]) {
    const struct attune_cuda_device *device = handle;
    const struct attune_cuda_kernel *kernel = rows[row].kernel;
    if (kernel->image[0] == 0) {
        snprintf(reason, ATTUNE_REASON_MAX, "this build left its image out");
        return false;
    }
    if (device->compute_capability < kernel->compute_capability_min ||
        device->compute_capability > kernel->compute_capability_max) {
        snprintf(reason, ATTUNE_REASON_MAX, "it is compiled for sm_%d to sm_%d, the device is an sm_%d",
                 kernel->compute_capability_min, kernel->compute_capability_max, device->compute_capability);
        return false;
    }
    return true;
}

/* In f16 a weight 36 octaves under its row's largest is 0: an o of f32 shows it where heavier keys' values are 0. */
static bool weights_suffice(const attune_kernel_row *row, const attune_problem *problem,
                            char reason[ATTUNE_REASON_MAX]) {
    const bool suffice = row->p_dtype != ATTUNE_DTYPE_F16 || (problem->features & ATTUNE_FEATURE_F32_OUT) == 0;
    if (!suffice) {
        snprintf(reason, ATTUNE_REASON_MAX, "its weights are f16, which is too narrow for outputs of f32");
    }
    return suffice;
}

bool attune_cuda_row_accepts(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    const struct attune_cuda_kernel *kernel = rows[row].kernel;
    if (!weights_suffice(&rows[row], problem, reason)) {
        return false;
    }
    return kernel->family->accepts == NULL || kernel->family->accepts(device, &rows[row], problem, reason);
}

/* Of the softmax sums of what splits leave, beside the maxima in partial_lse: what is too much here is so there, and
 * core refuses it. */
static uint64_t sum_bytes(const attune_kernel_row *row, const attune_problem *problem,
                          const attune_schedule *schedule) {
    const uint64_t states = (uint64_t)(problem->batch * problem->heads_q * problem->rows);
    const bool leaves_any = schedule->splits > 1 && (row->features & ATTUNE_FEATURE_SPLITS) != 0;
    return leaves_any ? sizeof(float) * (uint64_t)schedule->splits * states : 0;
}

uint64_t attune_cuda_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                     const attune_schedule *schedule) {
    const struct attune_cuda_kernel *kernel = rows[row].kernel;
    const struct attune_cuda_family *family = kernel->family;
    return sum_bytes(&rows[row], problem, schedule) +
           (family->workspace_bytes == NULL ? 0 : family->workspace_bytes(device, &rows[row], problem, schedule));
}

int32_t attune_cuda_row_splits(void *device, int32_t row, const attune_problem *problem, int32_t request) {
    const struct attune_cuda_kernel *kernel = rows[row].kernel;
    return kernel->family->splits(device, &rows[row], problem, request);
}
