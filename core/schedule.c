/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/schedule.h"

#include <inttypes.h>
#include <string.h>

#include "attune/backend_util.h"
#include "core/split.h"
#include "core/status_internal.h"
#include "core/text.h"
#include "core/tile.h"

static bool is_attention(const attune_problem *problem) {
    return problem->op == ATTUNE_OP_FORWARD || problem->op == ATTUNE_OP_BACKWARD;
}

/* ---- Tile ---- */

/* The heads that could share a tile. */
static int64_t group_of(const attune_problem *problem, const attune_kernel_row *row) {
    bool can_pack = (row->features & ATTUNE_FEATURE_PACK) != 0 && problem->op == ATTUNE_OP_FORWARD;
    return can_pack && problem->heads_kv > 0 ? problem->heads_q / problem->heads_kv : 1;
}

static bool choose_tile(const attune_device_limits *limits, const attune_problem *problem, const attune_kernel_row *row,
                        const struct attune_request *request, struct attune_tile *out_tile,
                        char out_reason[ATTUNE_REASON_MAX]) {
    out_tile->rows = row->tile_rows;
    out_tile->keys = row->tile_keys;
    if ((row->features & ATTUNE_FEATURE_ANY_TILE) == 0 || !is_attention(problem)) {
        return true;
    }
    struct attune_tile_need need;
    memset(&need, 0, sizeof need);
    need.problem = problem;
    /* Past the longest side of a tile more rows make no difference. */
    need.packed_rows = attune_min(problem->rows, INT16_MAX) * attune_min(group_of(problem, row), INT16_MAX);
    need.may_exceed = limits->is_cpu;
    need.request.rows = request->tile_rows;
    need.request.keys = request->tile_keys;
    if (limits->shared_memory_bytes > 0) {
        need.memory_bytes = attune_max(1, limits->shared_memory_bytes - row->shared_bytes);
    }
    if (attune_tile_choose(&need, out_tile)) {
        return true;
    }
    attune_text_format(out_reason, ATTUNE_REASON_MAX,
                       "the least tile takes %" PRId64 " bytes of on-chip memory, the device has %" PRId64,
                       attune_tile_bytes_least(problem) + row->shared_bytes, limits->shared_memory_bytes);
    return false;
}

/* ---- Splits ---- */

static int32_t choose_splits(const attune_device_limits *limits, const attune_problem *problem,
                             const attune_kernel_row *row, const struct attune_request *request,
                             const attune_schedule *schedule) {
    /* probs are divided by the sum over all keys, which no split knows. */
    bool can_split = (row->features & ATTUNE_FEATURE_SPLITS) != 0 && problem->op == ATTUNE_OP_FORWARD &&
                     (problem->features & ATTUNE_FEATURE_PROBS) == 0 && schedule->tile_keys > 0;
    if (!can_split) {
        return 1;
    }
    if (request->splits > 0) {
        return attune_split_clamp(request->splits);
    }
    int64_t rows_of_tile = attune_ceil_div(schedule->tile_rows, schedule->pack);
    struct attune_split_need need;
    need.processors = limits->processors;
    need.work_groups = schedule->grid[0] * schedule->grid[2];
    need.key_tiles = attune_key_tiles_max(problem, rows_of_tile, schedule->tile_keys);
    return attune_split_choose(&need);
}

/* ---- Grid ---- */

/* The heads that work-groups are spread over. */
static int64_t heads_of(const attune_problem *problem) {
    return problem->op == ATTUNE_OP_APPEND ? problem->heads_kv : problem->heads_q;
}

static bool fill_grid(const attune_problem *problem, attune_schedule *schedule) {
    uint64_t packed_rows;
    uint64_t batch_heads;
    uint64_t work_groups;
    bool fits = attune_multiply_checked((uint64_t)problem->rows, (uint64_t)schedule->pack, &packed_rows) &&
                attune_multiply_checked((uint64_t)problem->batch, (uint64_t)heads_of(problem), &batch_heads) &&
                packed_rows <= INT64_MAX;
    if (!fits) {
        return false;
    }
    int64_t tile_rows = schedule->tile_rows > 0 ? schedule->tile_rows : 1;
    schedule->grid[0] = attune_ceil_div((int64_t)packed_rows, tile_rows);
    fits = attune_multiply_checked((uint64_t)schedule->grid[0], batch_heads, &work_groups) &&
           attune_multiply_checked(work_groups, ATTUNE_MERGE_PARTS_MAX, &work_groups) && work_groups <= INT64_MAX;
    schedule->grid[2] = fits ? (int64_t)batch_heads / schedule->pack : 0;
    return fits;
}

bool attune_schedule_make(const attune_device_limits *limits, const attune_problem *problem,
                          const attune_kernel_row *row, const struct attune_request *request,
                          attune_schedule *out_schedule, char out_reason[ATTUNE_REASON_MAX]) {
    struct attune_tile tile;
    memset(out_schedule, 0, sizeof *out_schedule);
    if (!choose_tile(limits, problem, row, request, &tile, out_reason)) {
        return false;
    }
    out_schedule->tile_rows = tile.rows;
    out_schedule->tile_keys = tile.keys;
    out_schedule->pack = 1;
    if (tile.rows > 0) {
        out_schedule->pack = attune_pack_choose(problem->rows, group_of(problem, row), tile.rows);
    }
    if (!fill_grid(problem, out_schedule)) {
        attune_text_format(out_reason, ATTUNE_REASON_MAX, "rows x heads x batches exceed 2^63 work-groups");
        return false;
    }
    out_schedule->splits = choose_splits(limits, problem, row, request, out_schedule);
    out_schedule->grid[1] = out_schedule->splits;
    return true;
}

/* ---- Workspace ---- */

static bool place(uint64_t bytes, attune_workspace_map *map, attune_workspace_region *out_region) {
    uint64_t end;
    out_region->offset = map->size_bytes;
    out_region->size_bytes = bytes;
    return attune_add_checked(map->size_bytes, bytes, &end) &&
           attune_round_up_checked(end, ATTUNE_WORKSPACE_ALIGNMENT, &map->size_bytes);
}

/* The states that splits leave: one f32 lse a row of each split, and Dv elements of o. */
static bool partial_rows(const attune_problem *problem, const attune_schedule *schedule, uint64_t *out_rows) {
    uint64_t rows = schedule->splits > 1 ? (uint64_t)schedule->splits : 0;
    return attune_multiply_checked(rows, (uint64_t)problem->batch, &rows) &&
           attune_multiply_checked(rows, (uint64_t)problem->heads_q, &rows) &&
           attune_multiply_checked(rows, (uint64_t)problem->rows, out_rows);
}

attune_status attune_workspace_map_make(const attune_problem *problem, const attune_schedule *schedule,
                                        uint64_t own_bytes, attune_workspace_map *out_map) {
    uint64_t lse_bytes;
    uint64_t o_bytes;
    memset(out_map, 0, sizeof *out_map);
    bool fits = partial_rows(problem, schedule, &lse_bytes) &&
                attune_multiply_checked(lse_bytes, sizeof(float), &lse_bytes) &&
                attune_multiply_checked(lse_bytes, (uint64_t)problem->head_dim_v, &o_bytes) &&
                place(o_bytes, out_map, &out_map->partial_o) && place(lse_bytes, out_map, &out_map->partial_lse) &&
                place(own_bytes, out_map, &out_map->own);
    if (!fits) {
        memset(out_map, 0, sizeof *out_map);
        return attune_fail(ATTUNE_OUT_OF_MEMORY,
                           "workspace: %" PRId32 " splits and %" PRIu64 " bytes of the kernel's own exceed 2^64 bytes",
                           schedule->splits, own_bytes);
    }
    return ATTUNE_OK;
}
