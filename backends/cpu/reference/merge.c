/*
 * The golden merge: docs/semantics.md, "Splitting and merging". Parts in index order, in f64.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/attention.h"
#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/store.h"

/* One row of one head. Its parts' lse, then their weights, are kept here: o and lse may be the first part itself. */
struct merge_row {
    double weight[ATTUNE_MERGE_PARTS_MAX]; /* exp(lse_n - m) */
    bool empty[ATTUNE_MERGE_PARTS_MAX];    /* lse_n is -inf: the part is passed over, whatever its o holds */
    double max;                            /* m; a NaN is passed over, as its weight tells */
    double sum;                            /* 0: all parts are empty */
};

static void row_weigh(const struct attune_cpu_run *run, int64_t b, int64_t s, int64_t h, struct merge_row *row) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_PART_LSE];
    row->max = -INFINITY;
    row->sum = 0;
    for (int64_t n = 0; n < run->problem->parts; n++) {
        const char *at = attune_reference_element(layout, run->bindings->part_lse[n], b, h, s);
        const double lse = attune_reference_load(layout->dtype, at, 0);
        row->weight[n] = lse;
        row->empty[n] = lse == -INFINITY;
        row->max = lse > row->max ? lse : row->max;
    }
    for (int64_t n = 0; n < run->problem->parts; n++) {
        row->weight[n] = row->empty[n] ? 0.0 : exp(row->weight[n] - row->max);
        row->sum += row->weight[n];
    }
}

/* sum_n o_n exp(lse_n - lse) of one element. It begins at -0, which adding leaves every first term as it is: with one
 * part that is not empty, o is that part's, bit for bit. */
static double merged_element(const struct attune_cpu_run *run, const struct merge_row *row, int64_t b, int64_t s,
                             int64_t h, int64_t d) {
    const attune_layout *layout = &run->problem->operand[ATTUNE_OPERAND_PART_O];
    double sum = -0.0;
    for (int64_t n = 0; n < run->problem->parts; n++) {
        if (!row->empty[n]) {
            const char *o = attune_reference_element(layout, run->bindings->part_o[n], b, s, h);
            sum += row->weight[n] * attune_reference_load(layout->dtype, o, d * layout->stride[3]);
        }
    }
    return row->sum == 0 ? 0.0 : sum / row->sum;
}

/* A unit is a row with all its heads. */
static void merge_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const attune_layout *o = &run->problem->operand[ATTUNE_OPERAND_O];
    const int64_t b = unit / o->shape[1];
    const int64_t s = unit % o->shape[1];
    for (int64_t h = 0; h < o->shape[2]; h++) {
        struct merge_row row;
        row_weigh(run, b, s, h, &row);
        char *out = attune_reference_address(run, ATTUNE_OPERAND_O, b, s, h);
        for (int64_t d = 0; d < o->shape[3]; d++) {
            attune_reference_store(o->dtype, out, d * o->stride[3], merged_element(run, &row, b, s, h, d));
        }
        if (attune_reference_has(run, ATTUNE_OPERAND_LSE)) {
            char *lse = attune_reference_address(run, ATTUNE_OPERAND_LSE, b, h, s);
            attune_reference_store(run->problem->operand[ATTUNE_OPERAND_LSE].dtype, lse, 0, row.max + log(row.sum));
        }
    }
}

static void merge_execute(const struct attune_cpu_run *run) {
    const attune_layout *o = &run->problem->operand[ATTUNE_OPERAND_O];
    const int64_t units = o->shape[0] * o->shape[1];
    const double operations = (double)units * (double)o->shape[2] * (double)o->shape[3] * (double)run->problem->parts;
    attune_cpu_team_run(run->team, units, operations, merge_unit, run);
}

const struct attune_cpu_kernel attune_cpu_reference_merge = {.execute = merge_execute};
