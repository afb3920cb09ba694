/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/combine.h"

#include "backends/cpu/generic/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/scratch.h"
#include "core/portable/work.h"

/* ---- Weights ---- */

void attune_generic_weigh_parts(const attune_softmax *state, int64_t parts, struct generic_weights *out_weights) {
    attune_softmax whole = attune_softmax_empty();
    for (int64_t n = 0; n < parts; n++) {
        whole.max = attune_fmaxf(whole.max, state[n].max);
    }
    for (int64_t n = 0; n < parts; n++) {
        out_weights->weight[n] = attune_softmax_weight(state[n].max, attune_softmax_base(whole.max));
        whole.sum += state[n].sum * out_weights->weight[n];
    }
    const attune_softmax_result result = attune_softmax_finish(whole);
    out_weights->inverse = result.inverse;
    out_weights->lse = result.lse;
}

/* ---- Splits ---- */

uint64_t attune_generic_parts_bytes(const attune_problem *problem, const attune_schedule *schedule) {
    struct reference_scratch scratch = {.base = NULL};
    if (schedule->splits > 1) {
        (void)attune_reference_take(&scratch, schedule->splits * problem->batch, problem->heads_q * problem->rows,
                                    sizeof(float));
    }
    return scratch.used_bytes;
}

struct generic_part attune_generic_part(const struct attune_cpu_run *run, int64_t split, int64_t batch, int64_t head,
                                        int64_t row) {
    const attune_problem *problem = run->problem;
    const int64_t at = attune_partial_row(problem->batch, problem->heads_q, problem->rows, split, batch, head, row);
    return (struct generic_part){
        run->partial_o + at * problem->head_dim_v,
        run->partial_lse + at,
        (float *)(void *)run->workspace + at,
    };
}

static void combine_row(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                        int64_t row) {
    const struct reference_vectors o = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_O, head);
    const int64_t splits = run->schedule->splits;
    struct generic_weights weights;
    attune_softmax state[ATTUNE_MERGE_PARTS_MAX] = {{0}};
    float sum[ATTUNE_GENERIC_LENGTH_MAX];
    for (int64_t n = 0; n < splits; n++) {
        const struct generic_part part = attune_generic_part(run, n, sequence->batch, head, row);
        state[n] = (attune_softmax){*part.max, *part.sum};
    }
    attune_generic_weigh_parts(state, splits, &weights);
    attune_generic_parts_begin(o.length, sum);
    for (int64_t n = 0; n < splits; n++) {
        const float *part = attune_generic_part(run, n, sequence->batch, head, row).o;
        if (state[n].sum != 0.0f) {
            attune_generic_parts_add(part, weights.weight[n], o.length, sum);
        }
    }
    attune_generic_parts_finish(&weights, o.length, sum);
    attune_generic_store_vector(&o, row, sum);
    if (attune_reference_has(run, ATTUNE_OPERAND_LSE)) {
        *(float *)(void *)attune_reference_address(run, ATTUNE_OPERAND_LSE, sequence->batch, head,
                                                   sequence->first_row + row) = weights.lse;
    }
}

/* A unit is a row of a sequence, with all its heads. */
static void combine_unit(const void *context, int64_t unit, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    const int64_t row = unit % run->problem->rows;
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / run->problem->rows);
    for (int64_t head = 0; head < run->problem->heads_q && row < sequence.mask.rows; head++) {
        combine_row(run, &sequence, head, row);
    }
}

void attune_generic_combine(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const int64_t units = problem->batch * problem->rows;
    const double operations =
        (double)units * (double)problem->heads_q * (double)problem->head_dim_v * (double)run->schedule->splits;
    attune_cpu_team_run(run->team, units, operations, combine_unit, run);
}
