/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/gradient.h"
#include "attune/backend_util.h"

#include "backends/cpu/generic/softmax.h"
#include "backends/cpu/reference/operand.h"

#define LANES   ATTUNE_GENERIC_LANES
#define VECTORS ATTUNE_GENERIC_VECTORS

/* ---- dlse_i - D_i ---- */

/* Rows of q in all: in a packed batch those of the tensor. */
static int64_t rows_in_all(const attune_problem *problem) {
    return problem->operand[ATTUNE_OPERAND_Q].shape[0] * problem->operand[ATTUNE_OPERAND_Q].shape[1];
}

uint64_t attune_generic_rests_bytes(const attune_problem *problem) {
    struct reference_scratch scratch = {.base = NULL};
    (void)attune_reference_take(&scratch, rows_in_all(problem), problem->heads_q, sizeof(float));
    return scratch.used_bytes;
}

float *attune_generic_rest_at(const struct attune_cpu_run *run, const struct reference_sequence *sequence, int64_t head,
                              int64_t row) {
    const bool packed = attune_reference_has(run, ATTUNE_OPERAND_CU_SEQLENS_Q);
    const int64_t before = packed ? sequence->first_row : sequence->batch * run->problem->rows;
    return (float *)(void *)run->workspace + (before + row) * run->problem->heads_q + head;
}

/* ---- Loading ---- */

struct generic_gradient attune_generic_gradient_take(struct reference_scratch *scratch, const attune_problem *problem,
                                                     int64_t rows, int64_t keys) {
    const int64_t strips = attune_generic_panels(rows);
    const int64_t lines = attune_generic_round_up(keys);
    return (struct generic_gradient){
        .strip = attune_reference_take(scratch, strips, 1, sizeof(struct generic_strip)),
        .q = attune_generic_take_panels(scratch, rows, problem->head_dim),
        .dout = attune_generic_take_panels(scratch, rows, problem->head_dim_v),
        .lse = attune_generic_take_lines(scratch, strips),
        .rest = attune_generic_take_lines(scratch, strips),
        .k = attune_generic_take_matrix(scratch, keys, problem->head_dim),
        .v = attune_generic_take_matrix(scratch, keys, problem->head_dim_v),
        .slope = problem->softcap > 0 ? attune_generic_take_lines(scratch, lines) : NULL,
        .dropout = problem->dropout_rate > 0 ? attune_generic_take_lines(scratch, lines) : NULL,
    };
}

void attune_generic_gradient_load(const struct generic_tile *tile, const struct generic_gradient *gradient) {
    attune_generic_tile_load(tile, ATTUNE_OPERAND_Q, gradient->q);
    attune_generic_tile_load(tile, ATTUNE_OPERAND_DOUT, gradient->dout);
    for (int64_t n = 0; n < tile->strips * LANES; n++) {
        const struct generic_strip *strip = &tile->strip[n / LANES];
        const int64_t lane = n % LANES;
        gradient->lse[n] = -ATTUNE_INFINITY;
        gradient->rest[n] = 0.0f;
        if (lane < strip->lanes) {
            gradient->lse[n] =
                *(const float *)(void *)attune_generic_lane_address(tile, strip, lane, ATTUNE_OPERAND_LSE);
            gradient->rest[n] =
                *attune_generic_rest_at(tile->run, &tile->first.sequence, strip->head[lane], strip->row[lane]);
        }
    }
}

/* ---- A strip of rows and a span of keys ---- */

/* P in weight, from scores, and dA in grad, from dP. dropout: NULL, or Z. */
static void weigh(struct generic_span span, const float *lse, const float *rest, const float *dropout, float *weight,
                  float *grad) {
    for (int64_t n = span.begin * VECTORS; n < span.end * VECTORS; n++) {
        generic_vector *p = (generic_vector *)weight + n;
        generic_vector *da = (generic_vector *)grad + n;
        const generic_vector row_lse = ((const generic_vector *)lse)[n % VECTORS];
        const generic_vector row_rest = ((const generic_vector *)rest)[n % VECTORS];
        const generic_bits seen = (*p != -ATTUNE_INFINITY) & (row_lse != -ATTUNE_INFINITY);
        const generic_vector all = attune_generic_exp_difference(*p, row_lse);
        const generic_vector z = dropout == NULL ? attune_generic_all(1.0f) : ((const generic_vector *)dropout)[n];
        *da = (generic_vector)((generic_bits)(all * (z * *da + row_rest)) & seen);
        *p = (generic_vector)(((generic_bits)(all * z) & seen) | (~seen & INT32_MIN)); /* -0 */
    }
}

/* dS from dA. 0 stays 0: the slope of a pair that is not seen may be NaN, where a row or key is not finite. */
static void scale_lines(struct generic_span span, const float *slope, float *lines) {
    for (int64_t n = span.begin * LANES; n < span.end * LANES; n++) {
        lines[n] = lines[n] == 0.0f ? 0.0f : lines[n] * slope[n];
    }
}

void attune_generic_gradient_strip(const struct generic_tile *tile, int64_t s, struct generic_span span,
                                   const struct generic_gradient *gradient, bool wants_da, float *out_weight,
                                   float *out_grad) {
    const struct attune_cpu_run *run = tile->run;
    const struct generic_strip *strip = &tile->strip[s];
    const int64_t head_dim = run->problem->head_dim;
    const int64_t head_dim_v = run->problem->head_dim_v;
    /* S = Q K^T, mask. */
    attune_generic_multiply(gradient->k, span.begin, span.end, attune_generic_panel(gradient->q, s, head_dim), head_dim,
                            LANES, attune_f32_saturated(run->bindings->scale), out_weight);
    if (gradient->slope != NULL && !wants_da) {
        attune_generic_score_slope(run->problem, span, out_weight, gradient->slope);
    }
    attune_generic_score(tile, strip, span, out_weight);

    /* dP = dO V^T. */
    attune_generic_multiply(gradient->v, span.begin, span.end, attune_generic_panel(gradient->dout, s, head_dim_v),
                            head_dim_v, LANES, 1.0f, out_grad);

    /* P and dA, and dS. */
    if (gradient->dropout != NULL) {
        attune_generic_dropout(tile, strip, span, gradient->dropout);
    }
    weigh(span, gradient->lse + s * LANES, gradient->rest + s * LANES, gradient->dropout, out_weight, out_grad);
    if (gradient->slope != NULL && !wants_da) {
        scale_lines(span, gradient->slope, out_grad);
    }
}
