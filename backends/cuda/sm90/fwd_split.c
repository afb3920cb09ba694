/*
 * The host's side of fwd_split.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend_util.h"
#include "backends/cuda/sm90/bind.h"
#include "backends/cuda/sm90/fwd_host.h"

/* ---- Cuts ---- */

static attune_sm90_cut make_cut(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, int32_t splits) {
    attune_sm90_cut cut;
    const int64_t pack = attune_sm90_forward_pack(row, problem);
    attune_sm90_cut_make(row, problem, pack, device->limits.processors, splits, &cut);
    return cut;
}

static int32_t choose_splits(const struct attune_cuda_device *device, const attune_kernel_row *row,
                             const attune_problem *problem, int32_t request) {
    const int64_t pack = attune_sm90_forward_pack(row, problem);
    return request == 0 ? attune_sm90_splits_choose(row, problem, pack, device->limits.processors)
                        : make_cut(device, row, problem, request).most;
}

/* ---- Plans ---- */

/* What all parts leave; the counter of tiles lies behind it. */
static uint64_t states_bytes(const attune_kernel_row *row, const attune_sm90_cut *cut) {
    const uint64_t warpgroups = (uint64_t)(row->tile_rows / ATTUNE_SM90_WARPGROUP_ROWS);
    const uint64_t state = ATTUNE_SM90_STATE_FLOATS((uint64_t)row->head_dim_v_max) * sizeof(float);
    return (uint64_t)cut->cut_tiles * (uint64_t)cut->most * warpgroups * state;
}

static uint64_t workspace_bytes(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    const attune_sm90_cut cut = make_cut(device, row, problem, schedule->splits);
    return states_bytes(row, &cut) + sizeof(int32_t);
}

static void prepare(struct attune_cuda_plan *plan) {
    plan->cut = make_cut(plan->device, plan->row, &plan->problem, plan->schedule.splits);
    plan->blocks = (unsigned)attune_min(plan->cut.units, plan->device->limits.processors);
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

/* ---- Launching ---- */

static void set_parts(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                      attune_sm90_forward_params *params) {
    const attune_problem *problem = &plan->problem;
    const attune_sm90_cut *cut = &plan->cut;
    const int64_t pack = attune_sm90_forward_pack(plan->row, problem);
    const int64_t row_tiles = attune_ceil_div(problem->rows, plan->row->tile_rows / pack);
    char *own = (char *)bindings->workspace.data + bindings->workspace.byte_offset + plan->workspace.own.offset;
    const attune_sm90_parts parts = {
        .key_tiles = cut->key_tiles,
        .most = cut->most,
        .units = cut->units,
        .work_groups = (int32_t)plan->blocks,
        .packs = (int32_t)(problem->heads_q / pack),
        .first_cut = cut->first_cut,
        .cut_row_tiles = (int32_t)row_tiles - cut->first_cut,
        .states = (float *)(void *)own,
    };
    params->parts = parts;
    params->direct_o = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_O);
    params->head_dim_v = (int32_t)problem->head_dim_v;
}

/* It begins while the parts are being computed, and waits for them itself. */
static attune_status merge_parts(const struct attune_cuda_plan *plan, CUstream stream,
                                 attune_sm90_forward_params *params) {
    const int32_t warpgroups = plan->row->tile_rows / ATTUNE_SM90_WARPGROUP_ROWS;
    const int32_t slices = plan->row->head_dim_v_max / ATTUNE_SM90_SLICE_COLUMNS;
    const struct attune_cuda_grid grid = {
        .function = plan->loaded.beside[0],
        .symbol = plan->kernel->symbol,
        .blocks = (unsigned)(plan->cut.cut_tiles * warpgroups * slices),
        .threads = ATTUNE_SM90_WARPGROUP,
        .waits_itself = true,
    };
    return attune_cuda_launch_grid(plan->device, &grid, stream, params);
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_sm90_forward_params params;
    if (plan->blocks == 0) {
        return ATTUNE_OK;
    }
    attune_status status = attune_sm90_forward_fill(plan, bindings, &params);
    if (status == ATTUNE_OK) {
        set_parts(plan, bindings, &params);
        const uint64_t counter = states_bytes(plan->row, &plan->cut);
        status = attune_sm90_forward_count(plan, stream, bindings, counter, &params);
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_launch(plan, stream, &params);
    }
    return status == ATTUNE_OK && plan->cut.most > 1 ? merge_parts(plan, stream, &params) : status;
}

const struct attune_cuda_family attune_cuda_hopper_split = {.accepts = attune_sm90_forward_accepts,
                                                            .beside = {"_merge"},
                                                            .workspace_bytes = workspace_bytes,
                                                            .splits = choose_splits,
                                                            .prepare = prepare,
                                                            .launch = launch};
