/*
 * attune_quantize against its definition: descale shapes, given and computed, and numbers that are not ordinary.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "attune/backend.h"
#include "block.h"
#include "operation.h"

#define BATCH  2
#define ROWS   140 /* a descale block of 128 and a part of one */
#define HEADS  4
#define GROUPS 2
#define DIM    6

enum shape { SHAPE_ONE, SHAPE_HEADS, SHAPE_BLOCKS };
enum special { SPECIAL_NONE, SPECIAL_NOT_FINITE, SPECIAL_ZERO };

struct plan {
    attune_dtype dtype;
    enum shape shape;
    bool given;
    enum special special;
};

static void read_plan(int64_t number, struct plan *out_plan) {
    static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16};
    out_plan->dtype = dtypes[number % 3];
    out_plan->shape = (enum shape)(number / 3 % 3);
    out_plan->given = number / 9 % 2;
    out_plan->special = (enum special)(number / 18 % 3);
}

static bool describe(int64_t number, struct conform_need *out_need, char out_name[CONFORM_NAME_MAX]) {
    static const char *const shapes[] = {"descale_one", "descale_bh", "descale_blocks"};
    static const char *const specials[] = {"", ".not_finite", ".zero"};
    struct plan plan;
    read_plan(number, &plan);
    snprintf(out_name, CONFORM_NAME_MAX, "%s.%s.%s%s", attune_dtype_name(plan.dtype), shapes[plan.shape],
             plan.given ? "given" : "computed", specials[plan.special]);
    *out_need = (struct conform_need){ATTUNE_OP_QUANTIZE, plan.dtype, 0, DIM, 1};
    return true;
}

struct call {
    struct plan plan;
    struct conform_block x;
    struct conform_block y;
    struct conform_block descale;
};

/* Where the descale of an element lies. */
static void locate(const struct plan *plan, int64_t b, int64_t i, int64_t h, int64_t out_at[3]) {
    out_at[0] = plan->shape == SHAPE_ONE ? 0 : b;
    out_at[1] = plan->shape == SHAPE_ONE ? 0 : h / (HEADS / GROUPS);
    out_at[2] = plan->shape == SHAPE_BLOCKS ? i / 128 : 0;
}

static void draw(struct call *call, uint64_t seed) {
    conform_block_draw(&call->x, seed);
    for (int64_t i = 0; i < ROWS && call->plan.special == SPECIAL_ZERO; i++) {
        for (int64_t d = 0; d < DIM; d++) { /* a whole group, and a descale of 0 where one is given */
            conform_block_set(&call->x, 0, i, 0, d, 0);
            conform_block_set(&call->x, 0, i, 1, d, 0);
        }
    }
    if (call->plan.special == SPECIAL_NOT_FINITE) {
        conform_block_set(&call->x, 0, 3, 1, 2, NAN);
        conform_block_set(&call->x, 1, 7, 2, 0, INFINITY);
        conform_block_set(&call->x, 1, 139, 3, 5, -INFINITY);
    }
    const int64_t *extent = call->descale.extent;
    for (int64_t n = 0; n < extent[0] * extent[1] * extent[2] && call->plan.given; n++) {
        bool is_zero = n == 0 && call->plan.special == SPECIAL_ZERO;
        conform_block_set(&call->descale, n / (extent[1] * extent[2]), n / extent[2] % extent[1], n % extent[2], 0,
                          is_zero ? 0 : 0.003 * (double)(n + 1)); /* the smaller ones saturate */
    }
}

/* The largest finite |x| of the group / 448; 1 where that is 0. */
static double computed_descale(const struct call *call, const int64_t group[3]) {
    double largest = 0;
    for (int64_t n = 0; n < BATCH * ROWS * HEADS * DIM; n++) {
        int64_t at[3];
        int64_t b = n / (ROWS * HEADS * DIM);
        int64_t i = n / (HEADS * DIM) % ROWS;
        int64_t h = n / DIM % HEADS;
        locate(&call->plan, b, i, h, at);
        double x = fabs(conform_block_before(&call->x, b, i, h, n % DIM));
        if (at[0] == group[0] && at[1] == group[1] && at[2] == group[2] && isfinite(x)) {
            largest = fmax(largest, x);
        }
    }
    return largest > 0 ? largest / 448 : 1;
}

static bool check_descale(const struct call *call, struct conform_outcome *outcome) {
    const int64_t *extent = call->descale.extent;
    for (int64_t n = 0; n < extent[0] * extent[1] * extent[2]; n++) {
        const int64_t at[3] = {n / (extent[1] * extent[2]), n / extent[2] % extent[1], n % extent[2]};
        double found = conform_block_after(&call->descale, at[0], at[1], at[2], 0);
        double expected = computed_descale(call, at);
        if (!(fabs(found - expected) <= 0x1p-23 * expected)) {
            return conform_outcome_fail(outcome, "descale (%lld, %lld, %lld) is %.9g, not %.9g", (long long)at[0],
                                        (long long)at[1], (long long)at[2], found, expected);
        }
    }
    return true;
}

static bool check_y(const struct call *call, struct conform_outcome *outcome) {
    for (int64_t n = 0; n < BATCH * ROWS * HEADS * DIM; n++) {
        int64_t at[3];
        int64_t b = n / (ROWS * HEADS * DIM);
        int64_t i = n / (HEADS * DIM) % ROWS;
        int64_t h = n / DIM % HEADS;
        locate(&call->plan, b, i, h, at);
        double descale = conform_block_after(&call->descale, at[0], at[1], at[2], 0);
        double x = conform_block_before(&call->x, b, i, h, n % DIM);
        double exact = descale == 0 && !isnan(x) ? 0 : x / descale;
        double y = conform_block_after(&call->y, b, i, h, n % DIM);
        if (!conform_block_is_rounding(ATTUNE_DTYPE_E4M3, y, exact, isfinite(exact) ? fabs(exact) : 0)) {
            return conform_outcome_fail(outcome, "y at (%lld, %lld, %lld, %lld) is %.9g where x / descale is %.9g",
                                        (long long)b, (long long)i, (long long)h, (long long)(n % DIM), y, exact);
        }
    }
    return true;
}

static bool make_call(struct call *call, struct conform_context *context) {
    static const int64_t shape[] = {BATCH, ROWS, HEADS, DIM};
    static const int64_t one[] = {1};
    static const int64_t blocks[] = {BATCH, GROUPS, (ROWS + 127) / 128};
    int32_t rank = call->plan.shape == SHAPE_ONE ? 1 : call->plan.shape == SHAPE_HEADS ? 2 : 3;
    if (!conform_block_make(context->subject, call->plan.dtype, 4, shape, 1, context->outcome, &call->x) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_E4M3, 4, shape, 2, context->outcome, &call->y) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_F32, rank, rank == 1 ? one : blocks, 0, context->outcome,
                            &call->descale)) {
        return false;
    }
    draw(call, context->seed);
    conform_block_allow_all(&call->y);
    if (!call->plan.given) {
        conform_block_allow_all(&call->descale);
    }
    return true;
}

static bool run(struct call *call, struct conform_context *context, const struct conform_need *need,
                const char *kernel) {
    struct conform_outcome *outcome = context->outcome;
    attune_quantize_args args = attune_quantize_args_init();
    args.x = call->x.view;
    args.y = call->y.view;
    args.descale = call->descale.view;
    args.descale_given = call->plan.given;
    args.kernel = kernel;
    return conform_block_upload(&call->x, outcome) && conform_block_upload(&call->y, outcome) &&
           conform_block_upload(&call->descale, outcome) && conform_operation_explain(context, need, kernel, &args) &&
           conform_outcome_expect_ok(outcome, "attune_quantize",
                                     attune_quantize(context->subject->device, context->subject->stream, &args)) &&
           conform_block_fetch(&call->x, "x", outcome) && conform_block_fetch(&call->y, "y", outcome) &&
           conform_block_fetch(&call->descale, "descale", outcome) &&
           (call->plan.given || check_descale(call, outcome)) && check_y(call, outcome);
}

static void check(struct conform_context *context) {
    struct call call = {0};
    struct conform_need need = {0};
    const char *kernel;
    char name[CONFORM_NAME_MAX];
    int64_t number = conform_operation_number(context, &conform_quantize_cases, &kernel);
    describe(number, &need, name);
    read_plan(number, &call.plan);
    if (make_call(&call, context)) {
        (void)run(&call, context, &need, kernel);
    }
    conform_block_free(&call.x);
    conform_block_free(&call.y);
    conform_block_free(&call.descale);
}

const struct conform_family_of_cases conform_quantize_cases = {"quantize", 54, describe, check};
