/*
 * The public merge: states that the caller has of the same rows over other keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/combine.h"
#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"

/* o and lse of a row may be those of the first part: all is read before anything is written. */
static void merge_row(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h) {
    const attune_layout *o = &run->problem->operand[ATTUNE_OPERAND_O];
    const attune_layout *part_o = &run->problem->operand[ATTUNE_OPERAND_PART_O];
    const attune_layout *part_lse = &run->problem->operand[ATTUNE_OPERAND_PART_LSE];
    const int64_t parts = run->problem->parts;
    struct generic_weights weights;
    attune_softmax state[ATTUNE_MERGE_PARTS_MAX] = {{0}};
    float part[ATTUNE_GENERIC_LENGTH_MAX];
    float sum[ATTUNE_GENERIC_LENGTH_MAX];
    for (int64_t n = 0; n < parts; n++) {
        const float *lse =
            (const float *)(void *)attune_reference_element(part_lse, run->bindings->part_lse[n], b, h, s);
        state[n] = attune_softmax_from_logit(*lse);
    }
    attune_generic_weigh_parts(state, parts, &weights);
    attune_generic_parts_begin(o->shape[3], sum);
    for (int64_t n = 0; n < parts; n++) {
        if (state[n].sum != 0.0f) { /* not by weight: 0 times what is not finite is NaN */
            attune_generic_load_array(part_o->dtype,
                                      attune_reference_element(part_o, run->bindings->part_o[n], b, s, h), o->shape[3],
                                      1.0f, part);
            attune_generic_parts_add(part, weights.weight[n], o->shape[3], sum);
        }
    }
    attune_generic_parts_finish(&weights, o->shape[3], sum);
    attune_generic_store_array(o->dtype, attune_reference_address(run, ATTUNE_OPERAND_O, b, s, h), o->shape[3], sum);
    if (attune_reference_has(run, ATTUNE_OPERAND_LSE)) {
        *(float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_LSE, b, h, s) = weights.lse;
    }
}

/* A unit is a row with all its heads. */
static void merge_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_O].shape;
    for (int64_t h = 0; h < shape[2]; h++) {
        merge_row(run, unit / shape[1], unit % shape[1], h);
    }
}

static void merge_execute(const struct attune_cpu_run *run) {
    const int64_t *shape = run->problem->operand[ATTUNE_OPERAND_O].shape;
    const int64_t units = shape[0] * shape[1];
    const double operations = (double)units * (double)shape[2] * (double)shape[3] * (double)run->problem->parts;
    attune_cpu_team_run(run->team, units, operations, merge_unit, run);
}

const struct attune_cpu_kernel attune_cpu_generic_merge = {.execute = merge_execute};
