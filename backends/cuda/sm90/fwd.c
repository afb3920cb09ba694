/*
 * The host's side of fwd.cu: which problems it takes, and what a problem and its bindings are in the kernel's terms.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/fwd_host.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cuda/sm90/bind.h"
#include "core/portable/mask.h"
#include "core/portable/softmax.h"

/* Axes of q, k, v and o. */
enum { AXIS_B, AXIS_S, AXIS_H, AXIS_D };

/* ---- The four kinds of rows ---- */

static bool is_general(const attune_kernel_row *row) {
    return (row->features & ATTUNE_FEATURE_PAGED) != 0; /* which no lean row has */
}

/* Tiles of equal length are dealt out in turn; others are fetched from a counter in the workspace. */
static bool has_counter(const attune_kernel_row *row) {
    return is_general(row) || (row->features & ATTUNE_FEATURE_CAUSAL) != 0;
}

/* Head size 64 has a second general row, of tiles with more rows and fewer keys, for rows that see few. */
static bool is_for_few_keys(const attune_kernel_row *row) {
    return is_general(row) && row->tile_rows > 3 * ATTUNE_SM90_WARPGROUP_ROWS;
}

/* ---- Tiles ---- */

/* Query heads of a group that share a tile's rows: where sequences are short, all, so that a tile has more than a few
 * rows that exist, and K and V are read once for the group. */
static int64_t heads_to_pack(const attune_kernel_row *row, const attune_problem *problem) {
    const int64_t group = problem->heads_q / attune_max(1, problem->heads_kv);
    const attune_layout *q = &problem->operand[ATTUNE_OPERAND_Q];
    if (group <= 1 || group > row->tile_rows || q->stride[AXIS_H] == 0) {
        return 1;
    }
    int64_t rows = problem->rows;
    if ((problem->features & ATTUNE_FEATURE_VARLEN_Q) != 0) {
        rows = attune_min(rows, attune_ceil_div(q->shape[AXIS_S], attune_max(1, problem->batch)));
    }
    const int64_t tiles_apart = attune_ceil_div(rows, row->tile_rows) * group;
    const int64_t tiles_packed = attune_ceil_div(rows, row->tile_rows / group);
    return 10 * tiles_packed <= 7 * tiles_apart ? group : 1;
}

int64_t attune_sm90_forward_pack(const attune_kernel_row *row, const attune_problem *problem) {
    return is_general(row) ? heads_to_pack(row, problem) : 1;
}

/* False if they are more than an int32 counts, with a work-group's fetches past the last one. */
static bool count_tiles(const attune_kernel_row *row, const attune_problem *problem, int64_t pack, int32_t *out_tiles) {
    uint64_t tiles = (uint64_t)attune_ceil_div(problem->rows, row->tile_rows / pack);
    const bool fits = attune_multiply_checked(tiles, (uint64_t)problem->batch, &tiles) &&
                      attune_multiply_checked(tiles, (uint64_t)(problem->heads_q / pack), &tiles) &&
                      tiles <= INT32_MAX / 2;
    *out_tiles = fits ? (int32_t)tiles : 0;
    return fits;
}

/* ---- What it takes ---- */

static bool refuse(char reason[ATTUNE_REASON_MAX], const char *what, int64_t value, int64_t most) {
    snprintf(reason, ATTUNE_REASON_MAX, "%s = %" PRId64 " is more than %" PRId64, what, value, most);
    return false;
}

static bool accepts_sizes(const attune_kernel_row *row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    const int64_t group = problem->heads_q / attune_max(1, problem->heads_kv);
    const int64_t rows_max = ATTUNE_SM90_LENGTH_MAX / attune_max(1, group);
    int32_t tiles = 0;
    if (problem->rows > rows_max) {
        return refuse(reason, "rows", problem->rows, rows_max);
    }
    if (problem->keys > ATTUNE_SM90_LENGTH_MAX) {
        return refuse(reason, "keys", problem->keys, ATTUNE_SM90_LENGTH_MAX);
    }
    if (!count_tiles(row, problem, 1, &tiles)) {
        snprintf(reason, ATTUNE_REASON_MAX, "it has more than %d tiles of %d rows", INT32_MAX / 2, row->tile_rows);
        return false;
    }
    return true;
}

/* A thread writes two elements at once. */
static bool accepts_f32_output(const attune_layout *o, char reason[ATTUNE_REASON_MAX]) {
    for (int axis = AXIS_B; axis <= AXIS_H; axis++) {
        if (o->shape[axis] > 1 && o->stride[axis] % 2 != 0) {
            snprintf(reason, ATTUNE_REASON_MAX, "o has an odd stride of %" PRId64 " along axis %d", o->stride[axis],
                     axis);
            return false;
        }
    }
    return true;
}

static bool accepts_layouts(const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    const attune_layout *o = &problem->operand[ATTUNE_OPERAND_O];
    return attune_cuda_boxes_possible(&problem->operand[ATTUNE_OPERAND_Q], "q", reason) &&
           attune_cuda_boxes_possible(&problem->operand[ATTUNE_OPERAND_K], "k", reason) &&
           attune_cuda_boxes_possible(&problem->operand[ATTUNE_OPERAND_V], "v", reason) &&
           (o->dtype == ATTUNE_DTYPE_F32 ? accepts_f32_output(o, reason) : attune_cuda_boxes_possible(o, "o", reason));
}

/* Keys that a row sees on average at the most. */
static int64_t keys_seen(const attune_problem *problem) {
    int64_t keys = problem->keys;
    if ((problem->features & ATTUNE_FEATURE_VARLEN_K) != 0) {
        const int64_t all = problem->operand[ATTUNE_OPERAND_K].shape[AXIS_S];
        keys = attune_min(keys, attune_ceil_div(all, attune_max(1, problem->batch)));
    }
    if (problem->window_left < 0 && problem->window_right < 0) {
        return keys;
    }
    if (problem->window_left < 0 || problem->window_right < 0) {
        return keys / 2;
    }
    return attune_min(keys, attune_min(problem->window_left, keys) + attune_min(problem->window_right, keys) + 1);
}

/* Measured on an H200: 256 x 64 tiles are ahead of 192 x 128 up to 1,024 keys, or 2,048 of which half are seen. */
static bool accepts_keys(const attune_kernel_row *row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    const int64_t most = 1280;
    return !is_for_few_keys(row) || keys_seen(problem) <= most ||
           refuse(reason, "keys that a row sees", keys_seen(problem), most);
}

bool attune_sm90_forward_accepts(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                 const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device;
    if (!accepts_sizes(row, problem, reason) || !accepts_keys(row, problem, reason) ||
        !accepts_layouts(problem, reason)) {
        return false;
    }
    if ((row->features & ATTUNE_FEATURE_SOFTCAP) != 0 && (problem->features & ATTUNE_FEATURE_SOFTCAP) == 0) {
        snprintf(reason, ATTUNE_REASON_MAX, "scores are not capped, and this row caps them");
        return false;
    }
    if (!is_general(row) && heads_to_pack(row, problem) > 1) {
        snprintf(reason, ATTUNE_REASON_MAX, "%" PRId64 " rows fill its tiles badly; the general row packs heads",
                 problem->rows);
        return false;
    }
    return true;
}

/* ---- Plans ---- */

static uint64_t workspace_bytes(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)problem, (void)schedule;
    return has_counter(row) ? sizeof(int32_t) : 0;
}

static void prepare(struct attune_cuda_plan *plan) {
    int32_t tiles = 0;
    (void)count_tiles(plan->row, &plan->problem, attune_sm90_forward_pack(plan->row, &plan->problem), &tiles);
    plan->blocks = (unsigned)attune_min(tiles, plan->device->processors);
    plan->shared_bytes = (unsigned)plan->row->shared_bytes;
}

/* ---- Parameters ---- */

static void *address(const attune_bindings *bindings, attune_operand which) {
    return (char *)bindings->operand[which].data + bindings->operand[which].byte_offset;
}

attune_sm90_operand attune_sm90_operand_bind(const attune_problem *problem, const attune_bindings *bindings,
                                             attune_operand which) {
    attune_sm90_operand made = {.data = NULL};
    if (attune_problem_has(problem, which)) {
        made.data = address(bindings, which);
        for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
            made.stride[axis] = problem->operand[which].stride[axis];
        }
    }
    return made;
}

/* Boxes of a panel of columns and some rows of q, with the heads of a pack next to the columns. */
static struct attune_cuda_boxes boxes_of_packs(const attune_problem *problem, const attune_bindings *bindings,
                                               int64_t pack, int64_t places) {
    const attune_layout *q = &problem->operand[ATTUNE_OPERAND_Q];
    const struct attune_cuda_boxes made = {
        .dtype = q->dtype,
        .rank = 5,
        .data = address(bindings, ATTUNE_OPERAND_Q),
        .extent = {q->shape[AXIS_D], pack, q->shape[AXIS_S], q->shape[AXIS_H] / pack, q->shape[AXIS_B]},
        .stride = {1, q->stride[AXIS_H], q->stride[AXIS_S], pack * q->stride[AXIS_H], q->stride[AXIS_B]},
        .box = {ATTUNE_SM90_PANEL, pack, places, 1, 1},
    };
    return made;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static attune_status set_maps(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                              attune_sm90_forward_params *params) {
    const struct attune_cuda_api *api = plan->device->api;
    const attune_problem *problem = &plan->problem;
    const attune_kernel_row *row = plan->row;
    const int64_t keys = problem->page_size > 0 ? params->page_box : row->tile_keys;
    const struct attune_cuda_boxes q = is_general(row)
                                           ? boxes_of_packs(problem, bindings, params->pack, params->tile_places)
                                           : attune_sm90_boxes(problem, bindings, ATTUNE_OPERAND_Q, row->tile_rows);
    const struct attune_cuda_boxes k = attune_sm90_boxes(problem, bindings, ATTUNE_OPERAND_K, keys);
    const struct attune_cuda_boxes v = attune_sm90_boxes(problem, bindings, ATTUNE_OPERAND_V, keys);
    const struct attune_cuda_boxes o =
        attune_sm90_boxes(problem, bindings, ATTUNE_OPERAND_O, ATTUNE_SM90_WARPGROUP_ROWS);
    attune_status status = attune_cuda_tensormap_encode(api, &q, &params->q);
    if (status == ATTUNE_OK) {
        status = attune_cuda_tensormap_encode(api, &k, &params->k);
    }
    if (status == ATTUNE_OK) {
        status = attune_cuda_tensormap_encode(api, &v, &params->v);
    }
    if (status == ATTUNE_OK && params->o_is_f32 == 0) {
        status = attune_cuda_tensormap_encode(api, &o, &params->o);
    }
    return status;
}

/* tanh(x) / x up to |x| = reach as a polynomial in x^2: interpolated at CAP_NODES Chebyshev nodes, of which expansion
 * the first terms are kept. Source: Press et al., Numerical Recipes, 5.8, 5.10. */
#define CAP_NODES 10

static void fit_tanh(double reach, int terms, double out_term[ATTUNE_SM90_CAP_LONG]) {
    const double pi = 3.14159265358979323846;
    const double middle = reach * reach / 2.0;   /* x^2 = middle (1 + u), u in -1 to 1 */
    double before[ATTUNE_SM90_CAP_LONG] = {1.0}; /* T_(k-1) and T_k in powers of x^2 */
    double now[ATTUNE_SM90_CAP_LONG] = {-1.0, 1.0 / middle};
    memset(out_term, 0, ATTUNE_SM90_CAP_LONG * sizeof *out_term);
    for (int k = 0; k < terms; k++) {
        double weight = 0.0;
        for (int node = 0; node < CAP_NODES; node++) {
            const double angle = pi * (node + 0.5) / CAP_NODES;
            const double x = sqrt(middle * (1.0 + cos(angle)));
            weight += tanh(x) / x * cos(k * angle) * (k == 0 ? 1.0 : 2.0) / CAP_NODES;
        }
        double next[ATTUNE_SM90_CAP_LONG];
        for (int i = 0; i < ATTUNE_SM90_CAP_LONG; i++) {
            out_term[i] += weight * before[i];
            next[i] = 2.0 * ((i > 0 ? now[i - 1] / middle : 0.0) - now[i]) - before[i];
        }
        memcpy(before, now, sizeof now);
        memcpy(now, next, sizeof next);
    }
}

static void set_cap(double scale, double softcap, int terms, double reach, attune_sm90_cap *out_cap) {
    double term[ATTUNE_SM90_CAP_LONG];
    fit_tanh(reach, terms, term);
    const double slope = scale / softcap;
    double unit = scale * (double)ATTUNE_LOG2_E;
    for (int i = 0; i < ATTUNE_SM90_CAP_LONG; i++) {
        out_cap->term[i] = attune_f32_saturated(unit * term[i]); /* infinity times a score of 0 would be NaN */
        unit *= slope * slope;
    }
    out_cap->square = (float)fmin(pow(reach / slope, 2.0), FLT_MAX);
}

/* The first term left out is, times x: softcap 2 reach^5 / 15 / 8, and softcap reach^11 / 150,000 as measured. The
 * error of a score stays under 1e-4. */
static void set_caps(double scale, double softcap, attune_sm90_forward_params *params) {
    const double reach_short = pow(0.006 / softcap, 1.0 / 5.0);
    const double reach_long = pow(15.0 / softcap, 1.0 / 11.0);
    const double usual = 4.5; /* scores of usual data are within this */
    set_cap(scale, softcap, ATTUNE_SM90_CAP_SHORT, reach_short, &params->cap[0]);
    set_cap(scale, softcap, ATTUNE_SM90_CAP_LONG, reach_long, &params->cap[1]);
    params->first_cap = softcap * reach_short < usual;
}

/* The kernel multiplies scores by score_factor only where it takes differences to a row's reference, which needs a
 * factor above 0: sign, zero and softcap are applied before. */
static void set_score(double scale, double softcap, attune_sm90_forward_params *params) {
    const double factor = fabs(scale) * (double)ATTUNE_LOG2_E;
    params->score_change = ATTUNE_SM90_SCORE_AS_IS;
    params->change_factor = 1.0f;
    params->score_factor = attune_f32_saturated(factor);
    if (softcap > 0.0) {
        params->score_change = ATTUNE_SM90_SCORE_TANH;
        params->change_factor = attune_f32_saturated(scale / softcap);
        params->score_factor = attune_f32_saturated(softcap * (double)ATTUNE_LOG2_E);
        set_caps(scale, softcap, params);
    } else if (factor < (double)FLT_MIN) {
        params->score_change = ATTUNE_SM90_SCORE_TIMES;
        params->change_factor = (float)scale;
        params->score_factor = ATTUNE_LOG2_E;
    } else if (scale < 0.0) {
        params->score_change = ATTUNE_SM90_SCORE_TIMES;
        params->change_factor = -1.0f;
    }
}

/* Heads in whole groups, their K and V at most the half of the L2 cache that the rest of a launch leaves them. */
static int32_t section_heads(const attune_problem *problem, int32_t group) {
    const int64_t l2_bytes = INT64_C(32) << 20;
    const int64_t head_bytes =
        attune_max(1, problem->keys) * (problem->head_dim + problem->head_dim_v) * attune_element_bytes(problem->dtype);
    int64_t section = group;
    while (2 * section / group * head_bytes <= l2_bytes && section < problem->heads_q * problem->batch) {
        section *= 2;
    }
    return (int32_t)section;
}

static void set_pages(int32_t tile_keys, const attune_problem *problem, attune_sm90_forward_params *params) {
    const int32_t lanes = 32;
    params->page_size = (int32_t)problem->page_size;
    params->page_box = (int32_t)common_divisor(tile_keys, problem->page_size);
    params->page_boxes = tile_keys / params->page_box;
    params->page_tiles = (int32_t)attune_max(1, lanes / params->page_boxes);
    params->page_step = tile_keys % params->page_size;
    params->pages = (int32_t)problem->operand[ATTUNE_OPERAND_K].shape[AXIS_B];
}

static void set_general(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                        attune_sm90_forward_params *params) {
    const attune_problem *problem = &plan->problem;
    params->direct_o = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_O);
    params->cu_seqlens_q = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_CU_SEQLENS_Q);
    params->cu_seqlens_k = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_CU_SEQLENS_K);
    params->seqused_q = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_SEQUSED_Q);
    params->seqused_k = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_SEQUSED_K);
    params->block_table = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_BLOCK_TABLE);
    params->batch = (int32_t)problem->batch;
    params->head_dim_v = (int32_t)problem->head_dim_v;
    params->o_is_f32 = problem->operand[ATTUNE_OPERAND_O].dtype == ATTUNE_DTYPE_F32;
    params->pack = (int32_t)attune_sm90_forward_pack(plan->row, problem);
    params->tile_places = plan->row->tile_rows / params->pack;
    if (problem->page_size > 0) {
        set_pages(plan->row->tile_keys, problem, params);
    }
    params->bottom_right = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT;
    params->diagonal = problem->diagonal;
    params->window_left = problem->window_left;
    params->window_right = problem->window_right;
}

/* ---- Launching ---- */

attune_status attune_sm90_forward_fill(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                                       attune_sm90_forward_params *out_params) {
    const attune_problem *problem = &plan->problem;
    const int32_t group = (int32_t)(problem->heads_q / problem->heads_kv);
    const attune_sm90_forward_params params = {
        .lse = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_LSE),
        .sink = attune_sm90_operand_bind(problem, bindings, ATTUNE_OPERAND_SINK),
        .heads_q = (int32_t)problem->heads_q,
        .group = group,
        .rows = (int32_t)problem->rows,
        .keys = (int32_t)problem->keys,
        .right = attune_sm90_right_side(problem),
        .row_tiles = (int32_t)attune_ceil_div(problem->rows, plan->row->tile_rows),
        .section = section_heads(problem, group),
        .q_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_Q),
        .k_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_K),
        .v_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_V),
        .o_step = attune_sm90_steps_of(problem, ATTUNE_OPERAND_O),
    };
    *out_params = params;
    (void)count_tiles(plan->row, problem, 1, &out_params->tiles);
    set_score(bindings->scale, (double)attune_f32_softcap(problem), out_params);
    if (is_general(plan->row)) {
        set_general(plan, bindings, out_params);
    }
    return set_maps(plan, bindings, out_params);
}

attune_status attune_sm90_forward_count(const struct attune_cuda_plan *plan, CUstream stream,
                                        const attune_bindings *bindings, uint64_t offset,
                                        attune_sm90_forward_params *params) {
    char *workspace = (char *)bindings->workspace.data + bindings->workspace.byte_offset;
    params->tile_counter = (int32_t *)(void *)(workspace + plan->workspace.own.offset + offset);
    const struct attune_cuda_api *api = plan->device->api;
    return attune_cuda_check(
        api, api->MemsetD8Async((CUdeviceptr)(uintptr_t)params->tile_counter, 0, sizeof(int32_t), stream),
        "cuMemsetD8Async");
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    attune_sm90_forward_params params;
    if (plan->blocks == 0) {
        return ATTUNE_OK;
    }
    attune_status status = attune_sm90_forward_fill(plan, bindings, &params);
    if (status == ATTUNE_OK && has_counter(plan->row)) {
        status = attune_sm90_forward_count(plan, stream, bindings, 0, &params);
    }
    return status == ATTUNE_OK ? attune_cuda_launch(plan, stream, &params) : status;
}

const struct attune_cuda_family attune_cuda_hopper_forward = {
    .accepts = attune_sm90_forward_accepts, .workspace_bytes = workspace_bytes, .prepare = prepare, .launch = launch};
