/*
 * attune_merge against its definition in f64, what it does with empty states, bit for bit, and what is not finite.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/backend.h"
#include "block.h"
#include "number.h"
#include "operation.h"
#include "random.h"

#define BATCH 2
#define ROWS  7
#define HEADS 3
#define DIM   20

/* Which states are empty, and what is special about the others. */
enum pattern {
    PATTERN_MIXED,      /* one state in four is empty */
    PATTERN_NOT_FINITE, /* so, and NaN and infinity in heavy states, light ones, and the o of empty ones */
    PATTERN_ALL_EMPTY,
    PATTERN_FIRST_ONLY, /* all others are empty */
    PATTERN_LAST_ONLY,
    PATTERN_LOW, /* lse far below 0, and finite */
    PATTERN_COUNT
};

struct plan {
    enum pattern pattern;
    int32_t parts;
    attune_dtype part_dtype;
    attune_dtype dtype;
    bool packed;
    bool in_place;
    bool no_lse;
};

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16};
static const int32_t part_counts[] = {1, 2, 3, 9, ATTUNE_MERGE_PARTS_MAX};

#define PART_COUNTS 5
#define CASES       (PART_COUNTS * 3 * 3 * 2 * 2 * 2) /* of a pattern */
#define B006_BEGIN  (PATTERN_ALL_EMPTY * CASES)
#define B006_CASES  (PATTERN_COUNT * CASES - B006_BEGIN)

static bool read_plan(int64_t number, struct plan *out_plan) {
    out_plan->parts = part_counts[number % PART_COUNTS];
    out_plan->part_dtype = dtypes[number / 5 % 3];
    out_plan->dtype = dtypes[number / 15 % 3];
    out_plan->packed = number / 45 % 2;
    out_plan->in_place = number / 90 % 2;
    out_plan->no_lse = number / 180 % 2;
    out_plan->pattern = (enum pattern)(number / CASES);
    bool same = out_plan->dtype == out_plan->part_dtype;
    bool allowed = same || out_plan->dtype == ATTUNE_DTYPE_F32 || out_plan->part_dtype == ATTUNE_DTYPE_F32;
    bool is_plain = !out_plan->packed && !out_plan->in_place && !out_plan->no_lse;
    return allowed && (same || !out_plan->in_place) && (is_plain || out_plan->pattern != PATTERN_NOT_FINITE);
}

static bool describe(int64_t number, struct conform_need *out_need, char out_name[CONFORM_NAME_MAX]) {
    static const char *const patterns[] = {"mixed", "not_finite", "all_empty", "first_only", "last_only", "low"};
    struct plan plan;
    if (!read_plan(number, &plan)) {
        return false;
    }
    snprintf(out_name, CONFORM_NAME_MAX, "%s.parts%d.%s.out_%s%s%s%s", patterns[plan.pattern], plan.parts,
             attune_dtype_name(plan.part_dtype), attune_dtype_name(plan.dtype), plan.packed ? ".varlen" : "",
             plan.in_place ? ".in_place" : "", plan.no_lse ? ".no_lse" : "");
    *out_need = (struct conform_need){ATTUNE_OP_MERGE, plan.part_dtype, 0, 1, DIM};
    out_need->features |= plan.no_lse ? 0 : ATTUNE_FEATURE_LSE;
    out_need->features |=
        plan.dtype == ATTUNE_DTYPE_F32 && plan.part_dtype != ATTUNE_DTYPE_F32 ? ATTUNE_FEATURE_F32_OUT : 0;
    return true;
}

/* B006 are the patterns of empty states, of few parts. */
static bool describe_empty(int64_t number, struct conform_need *out_need, char out_name[CONFORM_NAME_MAX]) {
    return part_counts[number % PART_COUNTS] <= 3 && describe(number + B006_BEGIN, out_need, out_name);
}

/* ---- States ---- */

struct call {
    struct plan plan;
    struct conform_block part_o[ATTUNE_MERGE_PARTS_MAX];
    struct conform_block part_lse[ATTUNE_MERGE_PARTS_MAX];
    struct conform_block o;
    struct conform_block lse;
};

/* Indices of an element of o, whose packed form (total, H, Dv) has the batch in its rows. */
static void at_o(const struct plan *plan, int64_t b, int64_t i, int64_t h, int64_t d, int64_t out_at[4]) {
    const int64_t dense[4] = {b, i, h, d};
    const int64_t packed[4] = {b * ROWS + i, h, d, 0};
    memcpy(out_at, plan->packed ? packed : dense, sizeof dense);
}

static void at_lse(const struct plan *plan, int64_t b, int64_t i, int64_t h, int64_t out_at[4]) {
    const int64_t dense[4] = {b, h, i, 0};
    const int64_t packed[4] = {h, b * ROWS + i, 0, 0};
    memcpy(out_at, plan->packed ? packed : dense, sizeof dense);
}

static bool is_empty(const struct plan *plan, int32_t part, uint64_t key) {
    switch (plan->pattern) {
    case PATTERN_ALL_EMPTY:
        return true;
    case PATTERN_FIRST_ONLY:
        return part != 0;
    case PATTERN_LAST_ONLY:
        return part != plan->parts - 1;
    case PATTERN_LOW:
        return false;
    default:
        return key % 4 == 0;
    }
}

static double draw_lse(const struct plan *plan, int32_t part, uint64_t key) {
    if (is_empty(plan, part, conform_random_mix(key))) {
        return -INFINITY;
    }
    if (plan->pattern == PATTERN_LOW) {
        return part % 2 ? -1e30 : -1e30 * (1 + (double)(key % 2)); /* weights 0 and 1, or equal ones */
    }
    double lse = 3 * conform_random_normal(key);
    if (plan->pattern == PATTERN_NOT_FINITE) {
        const double light = lse - 200; /* a weight that f32 does not tell from 0 */
        const double odd[] = {NAN, INFINITY, light, light, light};
        uint64_t choice = conform_random_mix(key + 1) % 16;
        lse = choice < sizeof odd / sizeof odd[0] ? odd[choice] : lse;
    }
    return lse;
}

static double draw_o(const struct plan *plan, double lse, uint64_t key) {
    if (plan->pattern == PATTERN_NOT_FINITE && conform_random_mix(key) % 8 == 0) {
        return conform_random_mix(key + 1) % 2 ? NAN : INFINITY;
    }
    return lse == -INFINITY ? 0 : conform_random_normal(key);
}

static void draw_part(struct call *call, int32_t part, uint64_t seed) {
    for (int64_t n = 0; n < BATCH * ROWS * HEADS; n++) {
        int64_t at[4];
        int64_t b = n / (ROWS * HEADS);
        uint64_t key = conform_random_mix(seed + (uint64_t)(n * ATTUNE_MERGE_PARTS_MAX + part) * CONFORM_RANDOM_GAMMA);
        double lse = draw_lse(&call->plan, part, key);
        at_lse(&call->plan, b, n / HEADS % ROWS, n % HEADS, at);
        conform_block_set(&call->part_lse[part], at[0], at[1], at[2], at[3], lse);
        for (int64_t d = 0; d < DIM; d++) {
            at_o(&call->plan, b, n / HEADS % ROWS, n % HEADS, d, at);
            conform_block_set(&call->part_o[part], at[0], at[1], at[2], at[3],
                              draw_o(&call->plan, lse, key + 1 + (uint64_t)d));
        }
    }
}

static bool make_call(struct call *call, struct conform_context *context) {
    const struct plan *plan = &call->plan;
    const int64_t dense_o[] = {BATCH, ROWS, HEADS, DIM};
    const int64_t packed_o[] = {BATCH * ROWS, HEADS, DIM};
    const int64_t dense_lse[] = {BATCH, HEADS, ROWS};
    const int64_t packed_lse[] = {HEADS, BATCH * ROWS};
    const int64_t *o_shape = plan->packed ? packed_o : dense_o;
    const int64_t *lse_shape = plan->packed ? packed_lse : dense_lse;
    int32_t rank = plan->packed ? 3 : 4;
    struct conform_outcome *outcome = context->outcome;
    for (int32_t n = 0; n < plan->parts; n++) {
        if (!conform_block_make(context->subject, plan->part_dtype, rank, o_shape, 1, outcome, &call->part_o[n]) ||
            !conform_block_make(context->subject, ATTUNE_DTYPE_F32, rank - 1, lse_shape, 2, outcome,
                                &call->part_lse[n])) {
            return false;
        }
        draw_part(call, n, context->seed);
    }
    return conform_block_make(context->subject, plan->dtype, rank, o_shape, 0, outcome, &call->o) &&
           conform_block_make(context->subject, ATTUNE_DTYPE_F32, rank - 1, lse_shape, 0, outcome, &call->lse);
}

/* ---- The definition ---- */

static struct conform_block *result_o(struct call *call) {
    return call->plan.in_place ? &call->part_o[0] : &call->o;
}

static struct conform_block *result_lse(struct call *call) {
    return call->plan.in_place ? &call->part_lse[0] : &call->lse;
}

struct row {
    double lse[ATTUNE_MERGE_PARTS_MAX];
    double largest;
    double sum; /* of exp(lse - largest) */
    double merged;
    int32_t states; /* that are not empty */
    int32_t last;   /* of those */
};

static void read_row(const struct call *call, const int64_t at[4], struct row *out_row) {
    memset(out_row, 0, sizeof *out_row);
    out_row->largest = -INFINITY;
    for (int32_t n = 0; n < call->plan.parts; n++) {
        out_row->lse[n] = conform_block_before(&call->part_lse[n], at[0], at[1], at[2], at[3]);
        out_row->largest = fmax(out_row->largest, out_row->lse[n]);
        out_row->last = out_row->lse[n] != -INFINITY ? n : out_row->last;
        out_row->states += out_row->lse[n] != -INFINITY;
    }
    for (int32_t n = 0; n < call->plan.parts && out_row->states > 0; n++) {
        out_row->sum += exp(out_row->lse[n] - out_row->largest);
    }
    out_row->merged = out_row->states > 0 ? out_row->largest + log(out_row->sum) : -INFINITY;
}

static bool check_lse(struct call *call, const struct row *row, const int64_t at[4], struct conform_outcome *outcome) {
    double x = conform_block_after(result_lse(call), at[0], at[1], at[2], at[3]);
    bool exact = row->states <= 1; /* what is merged with empty states is itself */
    bool right = x == row->merged || (isnan(x) && isnan(row->merged)) ||
                 (!exact && fabs(x - row->merged) <= 1e-6 * fmax(1, fabs(row->merged)));
    return right || conform_outcome_fail(outcome, "lse at (%lld, %lld, %lld) is %.9g, not %.9g", (long long)at[0],
                                         (long long)at[1], (long long)at[2], x, row->merged);
}

/* What the parts of one element of o come to. */
struct merged_o {
    double exact;
    double size;        /* the sum of what is summed, without signs */
    bool has_light_inf; /* infinity at a weight that f32 may take for 0: then it gives NaN */
};

static struct merged_o merge_o(const struct call *call, const struct row *row, const int64_t at[4]) {
    struct merged_o sum = {0};
    for (int32_t n = 0; n < call->plan.parts; n++) {
        double part = conform_block_before(&call->part_o[n], at[0], at[1], at[2], at[3]);
        double weight = exp(row->lse[n] - row->largest) / row->sum;
        if (row->lse[n] != -INFINITY) {
            sum.exact += part * weight;
            sum.size += fabs(part) * weight;
            sum.has_light_inf |= isinf(part) && weight < 0x1p-126;
        }
    }
    if (row->states == 1 && !isnan(row->merged)) {
        double part = conform_block_before(&call->part_o[row->last], at[0], at[1], at[2], at[3]);
        sum.exact = conform_number_round(call->plan.dtype, part);
    }
    return sum;
}

static bool check_o(struct call *call, const struct row *row, const int64_t at[4], struct conform_outcome *outcome) {
    double x = conform_block_after(result_o(call), at[0], at[1], at[2], at[3]);
    struct merged_o sum = merge_o(call, row, at);
    bool right;
    if (!isfinite(sum.exact)) {
        right = x == sum.exact || (isnan(x) && (isnan(sum.exact) || sum.has_light_inf));
    } else if (row->states <= 1) {
        right = x == sum.exact;
    } else {
        /* exp of up to 20 in f32 */
        right = conform_block_is_rounding(call->plan.dtype, x, sum.exact, 12 * sum.size);
    }
    return right || conform_outcome_fail(outcome, "o at (%lld, %lld, %lld, %lld) is %.9g, not %.9g", (long long)at[0],
                                         (long long)at[1], (long long)at[2], (long long)at[3], x, sum.exact);
}

static bool check_results(struct call *call, struct conform_outcome *outcome) {
    for (int64_t n = 0; n < BATCH * ROWS * HEADS; n++) {
        int64_t at[4];
        struct row row;
        int64_t b = n / (ROWS * HEADS);
        at_lse(&call->plan, b, n / HEADS % ROWS, n % HEADS, at);
        read_row(call, at, &row);
        if (!call->plan.no_lse && !check_lse(call, &row, at, outcome)) {
            return false;
        }
        for (int64_t d = 0; d < DIM; d++) {
            at_o(&call->plan, b, n / HEADS % ROWS, n % HEADS, d, at);
            if (!check_o(call, &row, at, outcome)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- Running ---- */

static bool upload(struct call *call, struct conform_outcome *outcome) {
    bool right = conform_block_upload(&call->o, outcome) && conform_block_upload(&call->lse, outcome);
    for (int32_t n = 0; right && n < call->plan.parts; n++) {
        right = conform_block_upload(&call->part_o[n], outcome) && conform_block_upload(&call->part_lse[n], outcome);
    }
    return right;
}

static bool fetch(struct call *call, struct conform_outcome *outcome) {
    bool right = conform_block_fetch(&call->o, "o", outcome) && conform_block_fetch(&call->lse, "lse", outcome);
    for (int32_t n = 0; right && n < call->plan.parts; n++) {
        right = conform_block_fetch(&call->part_o[n], "part_o", outcome) &&
                conform_block_fetch(&call->part_lse[n], "part_lse", outcome);
    }
    return right;
}

static bool run(struct call *call, struct conform_context *context, const struct conform_need *need,
                const char *kernel) {
    attune_tensor part_o[ATTUNE_MERGE_PARTS_MAX];
    attune_tensor part_lse[ATTUNE_MERGE_PARTS_MAX];
    attune_merge_args args = attune_merge_args_init();
    for (int32_t n = 0; n < call->plan.parts; n++) {
        part_o[n] = call->part_o[n].view;
        part_lse[n] = call->part_lse[n].view;
    }
    args.parts = call->plan.parts;
    args.part_o = part_o;
    args.part_lse = part_lse;
    args.o = result_o(call)->view;
    args.kernel = kernel;
    conform_block_allow_all(result_o(call));
    if (!call->plan.no_lse) {
        args.lse = result_lse(call)->view;
        conform_block_allow_all(result_lse(call));
    }
    return upload(call, context->outcome) && conform_operation_explain(context, need, kernel, &args) &&
           conform_outcome_expect_ok(context->outcome, "attune_merge",
                                     attune_merge(context->subject->device, context->subject->stream, &args)) &&
           fetch(call, context->outcome) && check_results(call, context->outcome);
}

static void check_number(struct conform_context *context, int64_t number, const char *kernel) {
    struct call *call = conform_alloc(1, sizeof *call);
    struct conform_need need = {0};
    char name[CONFORM_NAME_MAX];
    describe(number, &need, name);
    read_plan(number, &call->plan);
    if (make_call(call, context)) {
        (void)run(call, context, &need, kernel);
    }
    for (int32_t n = 0; n < call->plan.parts; n++) {
        conform_block_free(&call->part_o[n]);
        conform_block_free(&call->part_lse[n]);
    }
    conform_block_free(&call->o);
    conform_block_free(&call->lse);
    free(call);
}

static void check_mixed(struct conform_context *context) {
    const char *kernel;
    int64_t number = conform_operation_number(context, &conform_merge_cases, &kernel);
    check_number(context, number, kernel);
}

static void check_empty(struct conform_context *context) {
    const char *kernel;
    int64_t number = conform_operation_number(context, &conform_empty_cases, &kernel);
    check_number(context, number + B006_BEGIN, kernel);
}

const struct conform_family_of_cases conform_merge_cases = {"merge", B006_BEGIN, describe, check_mixed};
const struct conform_family_of_cases conform_empty_cases = {"B006", B006_CASES, describe_empty, check_empty};
