/*
 * The host's side of decode.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/decode.h"

#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/sm80/host.h"
#include "backends/cuda/sm90/bind.h"

/* Rows of the copy engine's swizzle, which boxes of keys follow each other in whole. */
#define SWIZZLE_ROWS 8

/* Of a row's tile. */
#define TILE_ROWS_MOST 32

/* ---- What it takes ---- */

/* Of a head size the row of the largest tile takes what the others leave. */
static int64_t packed_rows_most(const attune_kernel_row *row) {
    return row->tile_rows < TILE_ROWS_MOST ? row->tile_rows : ATTUNE_CUDA_DECODE_PACKED_ROWS_MAX;
}

/* Keys that are copied at once: where they have several panels of columns so few that all panels of a key are asked of
 * memory soon one after the other, by 1 to 3% faster on an H200; else those of a stage. As many as lie in one page,
 * wherever that begins. */
static int64_t box_keys(const attune_kernel_row *row, const attune_problem *problem) {
    int64_t keys = row->head_dim_max > ATTUNE_SM90_PANEL ? 16 : row->tile_keys;
    while (problem->page_size % keys != 0) { /* keys: a power of 2 */
        keys /= 2;
    }
    return keys;
}

static bool accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device;
    if (box_keys(row, problem) < SWIZZLE_ROWS) {
        snprintf(reason, ATTUNE_REASON_MAX, "pages of %lld keys are no multiple of %d", (long long)problem->page_size,
                 SWIZZLE_ROWS);
        return false;
    }
    return attune_cuda_decode_sizes_fit(problem, packed_rows_most(row), reason) &&
           attune_cuda_decode_strides_fit(problem, ATTUNE_OPERAND_Q, "q", reason) &&
           attune_cuda_boxes_possible(&problem->operand[ATTUNE_OPERAND_K], "k", reason) &&
           attune_cuda_boxes_possible(&problem->operand[ATTUNE_OPERAND_V], "v", reason);
}

/* ---- Launching ---- */

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t *grid = plan->schedule.grid;
    plan->blocks = (unsigned)attune_min(grid[0] * grid[1] * grid[2], plan->device->processors);
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

static struct attune_cuda_boxes boxes_of(const attune_problem *problem, const attune_bindings *bindings,
                                         attune_operand which, int64_t keys) {
    struct attune_cuda_boxes made = attune_sm90_boxes(problem, bindings, which, keys);
    made.is_read_once = true;
    return made;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    const struct attune_cuda_api *api = plan->device->api;
    const attune_problem *problem = &plan->problem;
    const int64_t keys = box_keys(plan->row, problem);
    const struct attune_cuda_boxes k = boxes_of(problem, bindings, ATTUNE_OPERAND_K, keys);
    const struct attune_cuda_boxes v = boxes_of(problem, bindings, ATTUNE_OPERAND_V, keys);
    attune_sm90_decode_params params = {
        .k_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_K),
        .v_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_V),
        .box_keys = (int32_t)keys,
        .decode = attune_cuda_decode_fill(plan, bindings),
    };
    attune_status status = attune_cuda_tensormap_encode(api, &k, &params.k);
    if (status == ATTUNE_OK) {
        status = attune_cuda_tensormap_encode(api, &v, &params.v);
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_launch(plan, stream, &params);
    }
    if (status == ATTUNE_OK && params.decode.splits > 1) {
        status = attune_cuda_merge_splits(plan, stream, bindings);
    }
    return status;
}

const struct attune_cuda_family attune_cuda_hopper_decode = {.accepts = accepts, .prepare = prepare, .launch = launch};
