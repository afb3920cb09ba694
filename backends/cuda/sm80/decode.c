/*
 * The host's side of decode.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/decode.h"

#include <limits.h>
#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/host.h"

/* Past these a tile of more rows, which reads the keys less often, is sooner done. */
#define PACKED_ROWS_MAX 64
/* Key numbers, and what is added to them, stay within 32 bits. */
#define KEYS_MAX (INT32_C(1) << 30)

static bool strides_fit(const attune_layout *layout, const char *operand, char reason[ATTUNE_REASON_MAX]) {
    for (int axis = 0; axis < ATTUNE_RANK_MAX - 1; axis++) {
        if (layout->stride[axis] % 8 != 0) {
            snprintf(reason, ATTUNE_REASON_MAX, "%s has a stride of %lld elements, which is no multiple of 8", operand,
                     (long long)layout->stride[axis]);
            return false;
        }
    }
    return true;
}

static bool accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device;
    (void)row;
    const int64_t packed_rows = problem->rows * (problem->heads_q / problem->heads_kv);
    if (packed_rows > PACKED_ROWS_MAX) {
        snprintf(reason, ATTUNE_REASON_MAX, "%lld rows for a kv head, its query heads' together, are more than %d",
                 (long long)packed_rows, PACKED_ROWS_MAX);
        return false;
    }
    if (problem->keys > KEYS_MAX) {
        snprintf(reason, ATTUNE_REASON_MAX, "%lld keys are more than %d", (long long)problem->keys, KEYS_MAX);
        return false;
    }
    return strides_fit(&problem->operand[ATTUNE_OPERAND_Q], "q", reason) &&
           strides_fit(&problem->operand[ATTUNE_OPERAND_K], "k", reason) &&
           strides_fit(&problem->operand[ATTUNE_OPERAND_V], "v", reason);
}

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t *grid = plan->schedule.grid;
    plan->blocks = (unsigned)attune_min(grid[0] * grid[1] * grid[2], INT_MAX);
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

static float *region(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                     const attune_workspace_region *of) {
    char *workspace = (char *)bindings->workspace.data + bindings->workspace.byte_offset;
    return plan->schedule.splits > 1 ? (float *)(void *)(workspace + of->offset) : NULL;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_cuda_decode_params params = {
        .forward = attune_cuda_forward_fill(plan, bindings),
        .partial_o = region(plan, bindings, &plan->workspace.partial_o),
        .partial_max = region(plan, bindings, &plan->workspace.partial_lse),
        .partial_sum = region(plan, bindings, &plan->workspace.own),
        .splits = plan->schedule.splits,
        .pack = plan->schedule.pack,
    };
    params.forward.row_tiles = plan->schedule.grid[0];
    attune_status status = attune_cuda_launch(plan, stream, &params);
    if (status == ATTUNE_OK && params.splits > 1) {
        status = attune_cuda_merge_splits(plan, stream, bindings);
    }
    return status;
}

const struct attune_cuda_family attune_cuda_decode = {.accepts = accepts, .prepare = prepare, .launch = launch};
