/*
 * The golden quantisation to e4m3: docs/semantics.md, "FP8", and attune_quantize of kvcache.h.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/scale.h"
#include "backends/cpu/reference/store.h"
#include "core/portable/mask.h"

#define E4M3_LARGEST         448.0
#define POSITIONS_OF_DESCALE 128

/* The part of x that one descale serves. */
struct group {
    attune_interval batches;
    attune_interval positions;
    attune_interval heads;
};

/* index along an axis of descale that divides an axis of x into parts of a given size; an axis of 1 serves all. */
static attune_interval part_of(int64_t index, int64_t extent, int64_t part, int64_t whole) {
    return extent == 1 ? (attune_interval){0, whole} : attune_interval_cut(index * part, (index + 1) * part, 0, whole);
}

static struct group group_of(const attune_problem *problem, int64_t b, int64_t g, int64_t block) {
    const int64_t *x = problem->operand[ATTUNE_OPERAND_X].shape;
    const int64_t *descale = problem->operand[ATTUNE_OPERAND_DESCALE].shape;
    return (struct group){
        .batches = part_of(b, descale[0], 1, x[0]),
        .positions = part_of(block, descale[2], POSITIONS_OF_DESCALE, x[1]),
        .heads = part_of(g, descale[1], x[2] / descale[1], x[2]),
    };
}

static double largest_finite(double largest, attune_dtype dtype, const char *x, const attune_layout *layout) {
    for (int64_t d = 0; d < layout->shape[3]; d++) {
        const double magnitude = fabs(attune_reference_load(dtype, x, d * layout->stride[3]));
        if (isfinite(magnitude) && magnitude > largest) {
            largest = magnitude;
        }
    }
    return largest;
}

/* The largest finite |x| / 448, or 1 where there is nothing but 0, as it is stored. */
static double descale_for(const struct attune_cpu_run *run, struct group group) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_X];
    double largest = 0;
    for (int64_t b = group.batches.begin; b < group.batches.end; b++) {
        for (int64_t s = group.positions.begin; s < group.positions.end; s++) {
            for (int64_t h = group.heads.begin; h < group.heads.end; h++) {
                const char *x = attune_reference_address(run, ATTUNE_OPERAND_X, b, s, h);
                largest = largest_finite(largest, layout->dtype, x, layout);
            }
        }
    }
    return largest == 0 ? 1.0 : (double)(float)(largest / E4M3_LARGEST);
}

static void quantize_vector(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, double descale) {
    const attune_layout *from = &run->problem->operand[ATTUNE_OPERAND_X];
    const attune_layout *to = &run->problem->operand[ATTUNE_OPERAND_Y];
    const char *x = attune_reference_address(run, ATTUNE_OPERAND_X, b, s, h);
    char *y = attune_reference_address(run, ATTUNE_OPERAND_Y, b, s, h);
    for (int64_t d = 0; d < from->shape[3]; d++) {
        const double value = attune_reference_load(from->dtype, x, d * from->stride[3]);
        attune_reference_store(to->dtype, y, d * to->stride[3], attune_reference_descaled(value, descale));
    }
}

/* A unit is what one descale serves. */
static void quantize_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DESCALE].shape;
    const int64_t block = unit % shape[2];
    const int64_t g = unit / shape[2] % shape[1];
    const int64_t b = unit / shape[2] / shape[1];
    const struct group group = group_of(run->problem, b, g, block);
    float *descale = (float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_DESCALE, b, g, block);
    if (!run->problem->descale_given) {
        *descale = (float)descale_for(run, group);
    }
    for (int64_t n = group.batches.begin; n < group.batches.end; n++) {
        for (int64_t s = group.positions.begin; s < group.positions.end; s++) {
            for (int64_t h = group.heads.begin; h < group.heads.end; h++) {
                quantize_vector(run, n, s, h, (double)*descale);
            }
        }
    }
}

static void quantize_execute(const struct attune_cpu_run *run) {
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_DESCALE].shape;
    const int64_t *x = run->problem->operand[ATTUNE_OPERAND_X].shape;
    const double operations = (double)x[0] * (double)x[1] * (double)x[2] * (double)x[3];
    attune_cpu_team_run(run->team, shape[0] * shape[1] * shape[2], operations, quantize_unit, run);
}

const struct attune_cpu_kernel attune_cpu_reference_quantize = {.execute = quantize_execute};
