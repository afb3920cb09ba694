/*
 * Quantisation to e4m3: docs/semantics.md, "FP8", and attune_quantize of kvcache.h. A cell is what is scaled alike at
 * the least: 128 positions of a sequence's heads that share a descale. Each cell's largest is found, then those of a
 * descale are put together, then each cell is stored: as many threads as there are cells, and one result.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/scratch.h"

#define E4M3_LARGEST      448.0f
#define POSITIONS_OF_CELL 128

/* ---- Cells ---- */

/* Cells along each axis of descale: every batch, group of heads and 128 positions. */
struct grid {
    int64_t batches;
    int64_t groups;
    int64_t blocks;
};

static struct grid grid_of(const attune_problem *problem) {
    const int64_t *x = problem->operand[ATTUNE_OPERAND_X].shape;
    return (struct grid){
        .batches = x[0],
        .groups = problem->operand[ATTUNE_OPERAND_DESCALE].shape[1],
        .blocks = attune_ceil_div(x[1], POSITIONS_OF_CELL),
    };
}

static int64_t cells_of(const attune_problem *problem) {
    const struct grid grid = grid_of(problem);
    return grid.batches * grid.groups * grid.blocks;
}

static uint64_t quantize_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                         int32_t threads) {
    (void)schedule, (void)threads;
    struct reference_scratch scratch = {.base = NULL};
    (void)attune_reference_take(&scratch, cells_of(problem), 1, sizeof(float));
    return problem->descale_given ? 0 : scratch.used_bytes;
}

static float *largest_of(const struct attune_cpu_run *run) {
    return (float *)(void *)run->workspace;
}

/* Calls visit for each vector of a cell. */
typedef void (*visit_vector)(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, float *value);

static void visit_cell(const struct attune_cpu_run *run, int64_t cell, visit_vector visit, float *value) {
    const struct grid grid = grid_of(run->problem);
    const int64_t *x = run->problem->operand[ATTUNE_OPERAND_X].shape;
    const int64_t heads = x[2] / grid.groups;
    const int64_t first = cell % grid.blocks * POSITIONS_OF_CELL;
    const int64_t group = cell / grid.blocks % grid.groups;
    for (int64_t s = first; s < attune_min(first + POSITIONS_OF_CELL, x[1]); s++) {
        for (int64_t h = group * heads; h < (group + 1) * heads; h++) {
            visit(run, cell / grid.blocks / grid.groups, s, h, value);
        }
    }
}

/* The descale that serves a cell; an axis of 1 serves all. */
static float *descale_of(const struct attune_cpu_run *run, int64_t cell) {
    const struct grid grid = grid_of(run->problem);
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DESCALE].shape;
    const int64_t b = shape[0] == 1 ? 0 : cell / grid.blocks / grid.groups;
    const int64_t block = shape[2] == 1 ? 0 : cell % grid.blocks;
    return (float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_DESCALE, b, cell / grid.blocks % grid.groups,
                                                     block);
}

/* ---- The largest ---- */

static void load_x(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, float *out) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_X];
    attune_generic_load_array(layout->dtype, attune_reference_address(run, ATTUNE_OPERAND_X, b, s, h), layout->shape[3],
                              1.0f, out);
}

/* Numbers that are not finite are passed over. */
static void find_largest(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, float *value) {
    float x[ATTUNE_GENERIC_LENGTH_MAX];
    load_x(run, b, s, h, x);
    for (int64_t d = 0; d < run->problem->operand[ATTUNE_OPERAND_X].shape[3]; d++) {
        const float magnitude = fabsf(x[d]);
        if (magnitude > *value && magnitude < INFINITY) {
            *value = magnitude;
        }
    }
}

static void largest_unit(const void *context, int64_t cell, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    float *largest = &largest_of(run)[cell];
    *largest = 0.0f;
    visit_cell(run, cell, find_largest, largest);
}

static float *descale_at(const struct attune_cpu_run *run, int64_t index) {
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DESCALE].shape;
    return (float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_DESCALE, index / shape[2] / shape[1],
                                                     index / shape[2] % shape[1], index % shape[2]);
}

/* The largest / 448, or 1 where there is nothing but 0. */
static void set_descales(const struct attune_cpu_run *run) {
    const int64_t descales = attune_layout_elements(&run->problem->operand[ATTUNE_OPERAND_DESCALE]);
    const int64_t cells = cells_of(run->problem);
    for (int64_t index = 0; index < descales; index++) {
        *descale_at(run, index) = 0.0f;
    }
    for (int64_t cell = 0; cell < cells; cell++) {
        float *descale = descale_of(run, cell);
        *descale = fmaxf(*descale, largest_of(run)[cell]);
    }
    for (int64_t index = 0; index < descales; index++) {
        float *descale = descale_at(run, index);
        *descale = *descale == 0.0f ? 1.0f : *descale / E4M3_LARGEST;
    }
}

/* ---- Storing ---- */

static void store_y(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, float *descale) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_Y];
    float x[ATTUNE_GENERIC_LENGTH_MAX];
    load_x(run, b, s, h, x);
    for (int64_t d = 0; d < layout->shape[3]; d++) {
        x[d] = *descale == 0.0f ? 0.0f : x[d] / *descale;
    }
    attune_generic_store_array(layout->dtype, attune_reference_address(run, ATTUNE_OPERAND_Y, b, s, h),
                               layout->shape[3], x);
}

static void store_unit(const void *context, int64_t cell, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    visit_cell(run, cell, store_y, descale_of(run, cell));
}

static void quantize_execute(const struct attune_cpu_run *run) {
    const double operations = (double)attune_layout_elements(&run->problem->operand[ATTUNE_OPERAND_X]);
    const int64_t cells = cells_of(run->problem);
    if (!run->problem->descale_given) {
        attune_cpu_team_run(run->team, cells, operations, largest_unit, run);
        set_descales(run);
    }
    attune_cpu_team_run(run->team, cells, operations, store_unit, run);
}

const struct attune_cpu_kernel attune_cpu_generic_quantize = {
    .workspace_bytes = quantize_workspace_bytes,
    .execute = quantize_execute,
};
