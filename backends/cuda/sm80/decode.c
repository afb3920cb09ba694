/*
 * The host's side of decode.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/decode.h"

#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/host.h"
#include "core/portable/mask.h"

/* A tile's number is 32 bits, and that of the one after the next in a work-group. */
#define TILES_MAX INT32_MAX

bool attune_cuda_decode_strides_fit(const attune_problem *problem, attune_operand which, const char *operand,
                                    char reason[ATTUNE_REASON_MAX]) {
    const attune_layout *layout = &problem->operand[which];
    for (int axis = 0; axis < ATTUNE_RANK_MAX - 1; axis++) {
        if (layout->stride[axis] % 8 != 0) {
            snprintf(reason, ATTUNE_REASON_MAX, "%s has a stride of %lld elements, which is no multiple of 8", operand,
                     (long long)layout->stride[axis]);
            return false;
        }
    }
    return true;
}

bool attune_cuda_decode_sizes_fit(const attune_problem *problem, int64_t packed_rows_most,
                                  char reason[ATTUNE_REASON_MAX]) {
    const int64_t packed_rows = problem->rows * (problem->heads_q / problem->heads_kv);
    if (packed_rows > packed_rows_most) {
        snprintf(reason, ATTUNE_REASON_MAX, "%lld rows for a kv head, its query heads' together, are more than %lld",
                 (long long)packed_rows, (long long)packed_rows_most);
        return false;
    }
    if (problem->keys > ATTUNE_CUDA_DECODE_KEYS_MAX) {
        snprintf(reason, ATTUNE_REASON_MAX, "%lld keys are more than %d", (long long)problem->keys,
                 ATTUNE_CUDA_DECODE_KEYS_MAX);
        return false;
    }
    /* Each has a tile in every split. */
    const int64_t rows = attune_max(1, problem->heads_q * problem->rows);
    if (problem->batch > TILES_MAX / ATTUNE_MERGE_PARTS_MAX / rows) {
        snprintf(reason, ATTUNE_REASON_MAX, "%lld batches of %lld rows in up to %d splits are more than %d tiles",
                 (long long)problem->batch, (long long)rows, ATTUNE_MERGE_PARTS_MAX, TILES_MAX);
        return false;
    }
    return true;
}

static bool accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device;
    (void)row;
    return attune_cuda_decode_sizes_fit(problem, ATTUNE_CUDA_DECODE_PACKED_ROWS_MAX, reason) &&
           attune_cuda_decode_strides_fit(problem, ATTUNE_OPERAND_Q, "q", reason) &&
           attune_cuda_decode_strides_fit(problem, ATTUNE_OPERAND_K, "k", reason) &&
           attune_cuda_decode_strides_fit(problem, ATTUNE_OPERAND_V, "v", reason);
}

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t *grid = plan->schedule.grid;
    plan->blocks = (unsigned)(grid[0] * grid[1] * grid[2]);
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

static float *region(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                     const attune_workspace_region *of) {
    char *workspace = (char *)bindings->workspace.data + bindings->workspace.byte_offset;
    return plan->schedule.splits > 1 ? (float *)(void *)(workspace + of->offset) : NULL;
}

static int32_t side(int64_t key) {
    return (int32_t)attune_clamp(key, -ATTUNE_CUDA_DECODE_SIDE_MAX, ATTUNE_CUDA_DECODE_SIDE_MAX);
}

static void set_sides(const attune_problem *problem, attune_cuda_decode_params *params) {
    const int64_t shift = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT ? 0 : problem->diagonal;
    params->seen_from = side(problem->window_left < 0 ? INT64_MIN : shift - problem->window_left);
    params->seen_to = side(problem->window_right < 0 ? INT64_MAX : shift + problem->window_right + 1);
}

attune_cuda_decode_params attune_cuda_decode_fill(const struct attune_cuda_plan *plan,
                                                  const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    const int64_t *grid = plan->schedule.grid;
    attune_cuda_decode_params params = {
        .forward = attune_cuda_forward_fill(plan, bindings),
        .partial_o = region(plan, bindings, &plan->workspace.partial_o),
        .partial_max = region(plan, bindings, &plan->workspace.partial_lse),
        .partial_sum = region(plan, bindings, &plan->workspace.own),
        .tiles = (uint32_t)(grid[0] * grid[1] * grid[2]),
        .packs = (uint32_t)grid[2],
        .splits = (uint32_t)plan->schedule.splits,
        .group = (uint32_t)(problem->heads_q / problem->heads_kv),
        .pack = (uint32_t)plan->schedule.pack,
    };
    params.forward.row_tiles = grid[0];
    set_sides(problem, &params);
    return params;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_cuda_decode_params params = attune_cuda_decode_fill(plan, bindings);
    attune_status status = attune_cuda_launch(plan, stream, &params);
    if (status == ATTUNE_OK && params.splits > 1) {
        status = attune_cuda_merge_splits(plan, stream, bindings);
    }
    return status;
}

const struct attune_cuda_family attune_cuda_decode = {.accepts = accepts, .prepare = prepare, .launch = launch};
