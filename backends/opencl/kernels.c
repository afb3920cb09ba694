/*
 * kernels.def as rows. Its columns are those of attune_kernel_row, in that order: name, operation, dtypes, features,
 * largest head_dim and head_dim_v, their multiple, most rows, architecture, tile rows and keys, stages, threads, shared
 * bytes, P's dtype, spilled bytes, alignment, instruction set, whether subnormals are flushed; and the source, which
 * the driver compiles for each device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/kernel.h"

/* ---- What the tokens mean ---- */

#define BIT(dtype)          (UINT64_C(1) << ATTUNE_DTYPE_##dtype)
#define DTYPES_f32_f16_bf16 (BIT(F32) | BIT(F16) | BIT(BF16))

#define DTYPES_f32_f16_bf16_e4m3 (DTYPES_f32_f16_bf16 | BIT(E4M3))

#define ISA_none ""

#define FEATURES_every_forward (ATTUNE_FEATURES_EVERY_FORWARD | ATTUNE_FEATURE_SPLITS | ATTUNE_FEATURE_PACK)
#define FEATURES_plain_forward                                                                                         \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_DIAGONAL | ATTUNE_FEATURE_SINK |                   \
     ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_F32_OUT | ATTUNE_FEATURE_DETERMINISTIC | ATTUNE_FEATURE_LSE |                 \
     ATTUNE_FEATURE_O_IS_Q | ATTUNE_FEATURE_SPLITS)
#define FEATURES_every_backward ATTUNE_FEATURES_EVERY_BACKWARD
/* All that changes no single score. */
#define FEATURES_dense_backward                                                                                        \
    (FEATURES_every_backward &                                                                                         \
     ~(ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK |                     \
       ATTUNE_FEATURE_DROPOUT | ATTUNE_FEATURE_BLOCK_SPARSE | ATTUNE_FEATURE_DBIAS))
#define FEATURES_every_append   ATTUNE_FEATURES_EVERY_APPEND
#define FEATURES_every_merge    ATTUNE_FEATURES_EVERY_MERGE
#define FEATURES_every_quantize ATTUNE_FEATURES_EVERY_QUANTIZE

#define FAMILY_every_forward  attune_opencl_forward_family
#define FAMILY_plain_forward  attune_opencl_forward_family
#define FAMILY_every_backward attune_opencl_backward_family
#define FAMILY_dense_backward attune_opencl_backward_chunks_family
#define FAMILY_every_append   attune_opencl_append_family
#define FAMILY_every_merge    attune_opencl_merge_family
#define FAMILY_every_quantize attune_opencl_quantize_family

/* ---- The rows ---- */

#define ATTUNE_ROW(name, op, dtypes, features, head_dim, head_dim_v, multiple, rows, architecture, tile_rows,          \
                   tile_keys, stages, threads, shared, p_dtype, spill, alignment, isa, flushes, source)                \
    extern const struct attune_opencl_family FAMILY_##features;                                                        \
    extern const char attune_opencl_source_##source[];                                                                 \
    static const struct attune_opencl_kernel kernel_##name = {attune_opencl_source_##source, &FAMILY_##features};
#include "backends/opencl/kernels.def"
#undef ATTUNE_ROW

#define ATTUNE_ROW_KERNEL(name, source) &kernel_##name
static const attune_kernel_row rows[] = {
#define ATTUNE_ROW ATTUNE_KERNEL_ROW
#include "backends/opencl/kernels.def"
#undef ATTUNE_ROW
};

const attune_kernel_row *attune_opencl_kernels(int32_t *out_count) {
    *out_count = (int32_t)(sizeof rows / sizeof *rows);
    return rows;
}

/* A row's architecture: any, or the kind of device that it is made for. */
bool attune_opencl_row_runnable(void *handle, int32_t row, char reason[ATTUNE_REASON_MAX]) {
    const struct attune_opencl_device *device = handle;
    const char *kind = device->is_cpu ? "cpu" : "gpu";
    const bool is_runnable = strcmp(rows[row].architecture, "any") == 0 || strcmp(rows[row].architecture, kind) == 0;
    if (!is_runnable) {
        snprintf(reason, ATTUNE_REASON_MAX, "it is for a %s, the device is a %s", rows[row].architecture, kind);
    }
    return is_runnable;
}

static bool is_any_shared(const attune_problem *problem) {
    bool is_shared = false;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const attune_layout *layout = &problem->operand[operand];
        is_shared = is_shared || (layout->dtype != ATTUNE_DTYPE_NONE && layout->memory == ATTUNE_MEMORY_SVM);
    }
    return is_shared;
}

bool attune_opencl_row_accepts(void *handle, int32_t row, const attune_problem *problem,
                               char reason[ATTUNE_REASON_MAX]) {
    const struct attune_opencl_device *device = handle;
    const struct attune_opencl_kernel *kernel = rows[row].kernel;
    if (!device->has_svm && is_any_shared(problem)) {
        snprintf(reason, ATTUNE_REASON_MAX, "%s has no shared virtual memory", device->name);
        return false;
    }
    return kernel->family->accepts == NULL || kernel->family->accepts(device, &rows[row], problem, reason);
}

uint64_t attune_opencl_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                       const attune_schedule *schedule) {
    const struct attune_opencl_kernel *kernel = rows[row].kernel;
    return kernel->family->workspace_bytes == NULL
               ? 0
               : kernel->family->workspace_bytes(device, &rows[row], problem, schedule);
}
