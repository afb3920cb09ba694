/*
 * The host's side of bwd.cu: which problems it takes, and what a problem and its bindings are in the kernels' terms.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/bwd.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/cuda/sm90/bind.h"
#include "core/portable/mask.h"
#include "core/portable/softmax.h"

/* Axes of q and its kind. */
enum { AXIS_B, AXIS_S, AXIS_H, AXIS_D };

/* ---- What it takes ---- */

static bool refuse(char reason[ATTUNE_REASON_MAX], const char *what, int64_t value, int64_t most) {
    snprintf(reason, ATTUNE_REASON_MAX, "%s = %" PRId64 " is more than %" PRId64, what, value, most);
    return false;
}

/* Which share a tile of keys, as a cluster. */
static unsigned work_groups_of_tile(const attune_kernel_row *row) {
    return row->head_dim_max > 128 ? (unsigned)row->tile_keys / ATTUNE_SM90_WIDE_KEYS : 1;
}

/* False if a launch's tiles of both kinds are more than a grid has along x. */
static bool count_tiles(const attune_kernel_row *row, const attune_problem *problem, int32_t *out_row_tiles,
                        int32_t *out_key_tiles) {
    uint64_t row_tiles = (uint64_t)attune_ceil_div(problem->rows, row->tile_rows);
    uint64_t key_tiles = (uint64_t)attune_ceil_div(problem->keys, row->tile_keys);
    const bool fits = attune_multiply_checked(row_tiles, (uint64_t)problem->batch, &row_tiles) &&
                      attune_multiply_checked(row_tiles, (uint64_t)problem->heads_q, &row_tiles) &&
                      attune_multiply_checked(key_tiles, (uint64_t)problem->batch, &key_tiles) &&
                      attune_multiply_checked(key_tiles, (uint64_t)problem->heads_kv, &key_tiles) &&
                      row_tiles + key_tiles * work_groups_of_tile(row) <= INT32_MAX;
    *out_row_tiles = fits ? (int32_t)row_tiles : 0;
    *out_key_tiles = fits ? (int32_t)key_tiles : 0;
    return fits;
}

static bool is_general(const attune_kernel_row *row) {
    return (row->features & ATTUNE_FEATURE_SOFTCAP) != 0; /* which no lean row has */
}

/* Tiles of rows in the workspace. Packed sequences begin a tile of their own each. */
static uint64_t workspace_tiles(const attune_kernel_row *row, const attune_problem *problem) {
    int64_t tiles = problem->batch * attune_ceil_div(problem->rows, row->tile_rows);
    if ((problem->features & ATTUNE_FEATURE_VARLEN_Q) != 0) {
        tiles = problem->operand[ATTUNE_OPERAND_Q].shape[AXIS_S] / row->tile_rows + problem->batch;
    }
    return (uint64_t)(tiles * problem->heads_q);
}

static bool accepts_sizes(const attune_kernel_row *row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    int32_t row_tiles = 0;
    int32_t key_tiles = 0;
    if (problem->batch == 0) { /* which has a dsink all the same */
        snprintf(reason, ATTUNE_REASON_MAX, "it has no sequence");
        return false;
    }
    if (problem->rows > ATTUNE_SM90_LENGTH_MAX) {
        return refuse(reason, "rows", problem->rows, ATTUNE_SM90_LENGTH_MAX);
    }
    if (problem->keys > ATTUNE_SM90_LENGTH_MAX) {
        return refuse(reason, "keys", problem->keys, ATTUNE_SM90_LENGTH_MAX);
    }
    if (!count_tiles(row, problem, &row_tiles, &key_tiles)) {
        snprintf(reason, ATTUNE_REASON_MAX, "it has more than %d tiles of %d rows and of %d keys", INT32_MAX,
                 row->tile_rows, row->tile_keys);
        return false;
    }
    if (workspace_tiles(row, problem) > INT32_MAX) {
        return refuse(reason, "tiles of rows in the workspace", (int64_t)workspace_tiles(row, problem), INT32_MAX);
    }
    return true;
}

static bool accepts_layouts(const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    static const struct {
        attune_operand operand;
        const char *name;
    } by_chunks[] = {
        {ATTUNE_OPERAND_Q, "q"},       {ATTUNE_OPERAND_K, "k"},   {ATTUNE_OPERAND_V, "v"},   {ATTUNE_OPERAND_O, "o"},
        {ATTUNE_OPERAND_DOUT, "dout"}, {ATTUNE_OPERAND_DQ, "dq"}, {ATTUNE_OPERAND_DK, "dk"}, {ATTUNE_OPERAND_DV, "dv"},
    };
    for (size_t i = 0; i < sizeof by_chunks / sizeof by_chunks[0]; i++) {
        if (attune_problem_has(problem, by_chunks[i].operand) &&
            !attune_cuda_boxes_possible(&problem->operand[by_chunks[i].operand], by_chunks[i].name, reason)) {
            return false;
        }
    }
    return true;
}

static bool accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device;
    return accepts_sizes(row, problem, reason) && accepts_layouts(problem, reason);
}

/* ---- Plans ---- */

/* The workspace: of each tile of rows dq in f32, whole panels wide, then lse, then the row sums; then what work-groups
 * count and measure. */
static uint64_t dq_tile_floats(const attune_kernel_row *row) {
    return (uint64_t)row->tile_rows *
           (uint64_t)(attune_ceil_div(row->head_dim_max, ATTUNE_SM90_PANEL) * ATTUNE_SM90_PANEL);
}

static uint64_t row_values(const attune_kernel_row *row) {
    return (uint64_t)row->tile_rows + ATTUNE_SM90_ROW_MARKS;
}

/* If dq is deterministic, the work-groups that have begun, and turns of each tile of rows; with f16, what is largest.
 */
static uint64_t counted_values(const attune_kernel_row *row, const attune_problem *problem) {
    const uint64_t turns = problem->deterministic ? workspace_tiles(row, problem) * work_groups_of_tile(row) + 1 : 0;
    return turns + (problem->dtype == ATTUNE_DTYPE_F16 ? ATTUNE_SM90_LARGEST : 0);
}

static uint64_t workspace_bytes(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)schedule;
    const uint64_t tile_values = dq_tile_floats(row) + 2 * row_values(row);
    return (workspace_tiles(row, problem) * tile_values + counted_values(row, problem)) * sizeof(float);
}

static void prepare(struct attune_cuda_plan *plan) {
    int32_t row_tiles = 0;
    int32_t key_tiles = 0;
    (void)count_tiles(plan->row, &plan->problem, &row_tiles, &key_tiles);
    plan->cluster = work_groups_of_tile(plan->row);
    plan->blocks = (unsigned)key_tiles * plan->cluster;
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

/* ---- Parameters ---- */

/* Work-groups that run at a time walk over the same heads, whose q, dout and dq stay in the L2 cache. Where walks
 * differ in length, sections of several heads let the longest walks of all of them start first; the last section is to
 * have work-groups for the device one and a half times, so that short walks are left for its end. If dq is
 * deterministic, neighbours in a head wait for each other, the fewer the more heads there are; and there are to be two
 * sections, since only the last one begins with the longest. */
static int32_t section_heads(const struct attune_cuda_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const bool is_even = problem->window_left < 0 && problem->window_right < 0;
    if (is_even && !problem->deterministic) {
        return 1;
    }
    const int64_t heads = problem->heads_kv * problem->batch;
    const int64_t key_tiles = attune_max(1, attune_ceil_div(problem->keys, plan->row->tile_keys));
    const int64_t l2_bytes = INT64_C(32) << 20;
    const int64_t row_bytes = problem->head_dim * (attune_element_bytes(problem->dtype) + (int64_t)sizeof(float)) +
                              problem->head_dim_v * attune_element_bytes(problem->dtype);
    const int64_t head_bytes = attune_max(1, problem->rows * (problem->heads_q / problem->heads_kv) * row_bytes);
    const int64_t even_end =
        attune_ceil_div(3 * (int64_t)plan->device->processors / 2, key_tiles * work_groups_of_tile(plan->row));
    const int64_t most = is_even || !problem->deterministic ? heads : attune_ceil_div(heads, 2);
    const int64_t wanted = attune_clamp(attune_max(l2_bytes / head_bytes, even_end), 1, most);
    return (int32_t)attune_ceil_div(heads, heads / wanted); /* no small one is left for the end */
}

static attune_status encode(const struct attune_cuda_plan *plan, const attune_bindings *bindings, attune_operand which,
                            int64_t rows, CUtensorMap *out_map) {
    if (!attune_problem_has(&plan->problem, which)) {
        return ATTUNE_OK;
    }
    const struct attune_cuda_boxes boxes = attune_sm90_boxes(&plan->problem, bindings, which, rows);
    return attune_cuda_tensormap_encode(plan->device->api, &boxes, out_map);
}

static attune_status set_maps(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                              attune_sm90_backward_params *params) {
    const struct {
        attune_operand which;
        int64_t rows;
        CUtensorMap *map;
    } maps[] = {
        {ATTUNE_OPERAND_Q, plan->row->tile_rows, &params->q},
        {ATTUNE_OPERAND_DOUT, plan->row->tile_rows, &params->dout},
        {ATTUNE_OPERAND_K, ATTUNE_SM90_WARPGROUP_ROWS, &params->k},
        {ATTUNE_OPERAND_V, ATTUNE_SM90_WARPGROUP_ROWS, &params->v},
        {ATTUNE_OPERAND_DK, ATTUNE_SM90_WARPGROUP_ROWS, &params->dk},
        {ATTUNE_OPERAND_DV, ATTUNE_SM90_WARPGROUP_ROWS, &params->dv},
    };
    attune_status status = ATTUNE_OK;
    for (size_t i = 0; status == ATTUNE_OK && i < sizeof maps / sizeof maps[0]; i++) {
        status = encode(plan, bindings, maps[i].which, maps[i].rows, maps[i].map);
    }
    return status;
}

static void set_workspace(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                          attune_sm90_backward_params *params) {
    const uint64_t tiles = workspace_tiles(plan->row, &plan->problem);
    char *own = (char *)attune_pointer_address(bindings->workspace) + plan->workspace.own.offset;
    params->dq_sum = (float *)(void *)own;
    params->row_lse = params->dq_sum + tiles * dq_tile_floats(plan->row);
    params->row_sum = params->row_lse + tiles * row_values(plan->row);
    float *end = params->row_sum + tiles * row_values(plan->row);
    if (plan->problem.deterministic) {
        params->added = (int32_t *)(void *)end;
        end += tiles * work_groups_of_tile(plan->row);
        params->begun = (int32_t *)(void *)end;
        end += 1;
    }
    params->largest = plan->problem.dtype == ATTUNE_DTYPE_F16 ? end : NULL;
}

static void set_params(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                       attune_sm90_backward_params *params) {
    const attune_problem *problem = &plan->problem;
    params->direct_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_Q);
    params->direct_v = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_V);
    params->o = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_O);
    params->direct_dout = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DOUT);
    params->lse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_LSE);
    params->dlse = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DLSE);
    params->dq = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DQ);
    params->sink = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SINK);
    params->dsink = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DSINK);
    params->scale = attune_f32_saturated(bindings->scale);
    params->score_factor = attune_f32_saturated(bindings->scale * (double)ATTUNE_LOG2_E);
    params->heads_q = (int32_t)problem->heads_q;
    params->heads_kv = (int32_t)problem->heads_kv;
    params->group = (int32_t)(problem->heads_q / problem->heads_kv);
    params->batch = (int32_t)problem->batch;
    params->rows = (int32_t)problem->rows;
    params->keys = (int32_t)problem->keys;
    params->head_dim = (int32_t)problem->head_dim;
    params->head_dim_v = (int32_t)problem->head_dim_v;
    params->right = attune_sm90_right_side(problem);
    params->row_tiles = (int32_t)attune_ceil_div(problem->rows, plan->row->tile_rows);
    params->key_tiles = (int32_t)attune_ceil_div(problem->keys, plan->row->tile_keys);
    params->heads = (int32_t)(problem->batch * problem->heads_kv);
    params->section = section_heads(plan);
    params->has_dk = attune_problem_has(problem, ATTUNE_OPERAND_DK);
    params->has_dv = attune_problem_has(problem, ATTUNE_OPERAND_DV);
    params->q_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_Q);
    params->k_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_K);
    params->v_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_V);
    params->dout_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_DOUT);
    params->dk_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_DK);
    params->dv_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_DV);
}

static void set_general(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                        attune_sm90_backward_params *params) {
    const attune_problem *problem = &plan->problem;
    params->direct_dk = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DK);
    params->direct_dv = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DV);
    params->cu_seqlens_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_Q);
    params->cu_seqlens_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_CU_SEQLENS_K);
    params->seqused_q = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_Q);
    params->seqused_k = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_SEQUSED_K);
    if (problem->softcap > 0.0) {
        const double softcap = (double)attune_f32_softcap(problem);
        params->cap = attune_f32_saturated(softcap * (double)ATTUNE_LOG2_E);
        params->cap_factor = attune_f32_saturated(bindings->scale / softcap);
        params->is_capped = 1;
    }
    params->bottom_right = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT;
    params->diagonal = problem->diagonal;
    params->window_left = problem->window_left;
    params->window_right = problem->window_right;
}

/* ---- Launching ---- */

enum { BEFORE, AFTER, SINK };

static attune_status clear_counted(const struct attune_cuda_plan *plan, CUstream stream,
                                   const attune_sm90_backward_params *params) {
    const struct attune_cuda_api *api = plan->device->api;
    const uint64_t values = counted_values(plan->row, &plan->problem);
    if (values == 0) {
        return ATTUNE_OK;
    }
    const CUdeviceptr first =
        params->added != NULL ? (CUdeviceptr)(uintptr_t)params->added : (CUdeviceptr)(uintptr_t)params->largest;
    return attune_cuda_check(api, api->MemsetD8Async(first, 0, values * sizeof(float), stream), "cuMemsetD8Async");
}

/* With f16 there are work-groups for tiles of V, too. */
static attune_status launch_before(const struct attune_cuda_plan *plan, int32_t row_tiles, int32_t key_tiles,
                                   CUstream stream, attune_sm90_backward_params *params) {
    const unsigned blocks = (unsigned)row_tiles + (params->largest != NULL ? (unsigned)key_tiles : 0);
    return attune_cuda_launch_beside(plan, BEFORE, blocks, ATTUNE_SM90_BESIDE_THREADS, stream, params);
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    const attune_problem *problem = &plan->problem;
    int32_t row_tiles = 0;
    int32_t key_tiles = 0;
    (void)count_tiles(plan->row, problem, &row_tiles, &key_tiles);
    attune_sm90_backward_params params = {.rows = 0};
    set_params(plan, bindings, &params);
    set_workspace(plan, bindings, &params);
    if (is_general(plan->row)) {
        set_general(plan, bindings, &params);
    }
    attune_status status = set_maps(plan, bindings, &params);
    if (status == ATTUNE_OK) {
        status = clear_counted(plan, stream, &params);
    }
    if (status == ATTUNE_OK) {
        status = launch_before(plan, row_tiles, key_tiles, stream, &params);
    }
    if (status == ATTUNE_OK && attune_problem_has(problem, ATTUNE_OPERAND_DSINK)) {
        status = attune_cuda_launch_beside(plan, SINK, (unsigned)problem->heads_q, ATTUNE_SM90_BESIDE_THREADS, stream,
                                           &params);
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_launch(plan, stream, &params);
    }
    if (status == ATTUNE_OK && attune_problem_has(problem, ATTUNE_OPERAND_DQ)) {
        status =
            attune_cuda_launch_beside(plan, AFTER, (unsigned)row_tiles, ATTUNE_SM90_BESIDE_THREADS, stream, &params);
    }
    return status;
}

const struct attune_cuda_family attune_cuda_hopper_backward = {.accepts = accepts,
                                                               .beside = {"_before", "_after", "_sink"},
                                                               .workspace_bytes = workspace_bytes,
                                                               .prepare = prepare,
                                                               .launch = launch};
