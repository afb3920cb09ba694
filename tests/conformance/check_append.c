/*
 * attune_kvcache_append against its definition in f64: contiguous and paged, with and without rotation, e4m3 caches.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "attune/backend.h"
#include "block.h"
#include "operation.h"
#include "random.h"

#define BATCH      3
#define ROWS_NEW   3
#define ROWS_Q     2
#define HEADS_KV   2
#define HEADS_Q    4
#define DIM        14
#define DIM_V      10
#define ROTARY_DIM 8
#define COS_STEP   2   /* from pair to pair: in a table of complex numbers a sine would lie between */
#define CAPACITY   140 /* a descale block of 128 and a part of one */
#define PAGE_SIZE  5
#define COLUMNS    (CAPACITY / PAGE_SIZE)
#define PAGES      (BATCH * COLUMNS + 2)

static const int32_t used[BATCH] = {126, 0, 137}; /* across the blocks' border, at the start, to the very end */

enum rotation { ROTATION_NONE, ROTATION_HALVES, ROTATION_INTERLEAVED };
enum rotated_q { Q_ABSENT, Q_OUT, Q_IN_PLACE };
enum descales { DESCALES_NONE, DESCALES_ONE, DESCALES_HEADS, DESCALES_BLOCKS };

struct plan {
    attune_dtype cache;
    attune_dtype fresh;
    bool paged;
    bool lengths; /* seqused_k is given */
    enum rotation rotation;
    enum rotated_q q;
    enum descales descales;
};

static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16, ATTUNE_DTYPE_E4M3};

/* The digits of number are the options; false where they contradict each other. */
static bool read_plan(int64_t number, struct plan *out_plan) {
    out_plan->cache = dtypes[number % 4];
    out_plan->fresh = dtypes[number / 4 % 4];
    out_plan->paged = number / 16 % 2;
    out_plan->lengths = number / 32 % 2;
    out_plan->rotation = (enum rotation)(number / 64 % 3);
    out_plan->q = (enum rotated_q)(number / 192 % 3);
    out_plan->descales = (enum descales)(number / 576 % 4);
    bool is_e4m3 = out_plan->cache == ATTUNE_DTYPE_E4M3;
    return (is_e4m3 || out_plan->fresh == out_plan->cache) && (is_e4m3 || out_plan->descales == DESCALES_NONE) &&
           (out_plan->lengths || !out_plan->paged) && (out_plan->rotation != ROTATION_NONE || out_plan->q == Q_ABSENT);
}

static bool describe(int64_t number, struct conform_need *out_need, char out_name[CONFORM_NAME_MAX]) {
    static const char *const rotations[] = {"", ".rotary_halves", ".rotary_interleaved"};
    static const char *const qs[] = {"", ".q", ".q_in_place"};
    static const char *const descales[] = {"", ".descale_one", ".descale_bh", ".descale_blocks"};
    struct plan plan;
    if (!read_plan(number, &plan)) {
        return false;
    }
    snprintf(out_name, CONFORM_NAME_MAX, "%s.from_%s%s%s%s%s%s", attune_dtype_name(plan.cache),
             attune_dtype_name(plan.fresh), plan.paged ? ".paged" : "", plan.lengths ? ".used_k" : "",
             rotations[plan.rotation], qs[plan.q], descales[plan.descales]);
    *out_need = (struct conform_need){ATTUNE_OP_APPEND, plan.cache, 0, DIM, DIM_V};
    out_need->features |= plan.paged ? ATTUNE_FEATURE_PAGED : 0;
    out_need->features |= plan.lengths ? ATTUNE_FEATURE_SEQUSED_K : 0;
    out_need->features |= plan.rotation != ROTATION_NONE ? ATTUNE_FEATURE_ROTARY : 0;
    out_need->features |= plan.descales != DESCALES_NONE ? ATTUNE_FEATURE_DESCALE : 0;
    out_need->features |= plan.fresh != plan.cache ? ATTUNE_FEATURE_CONVERT : 0;
    return true;
}

/* ---- Making the call ---- */

struct call {
    struct plan plan;
    struct conform_block cache[2]; /* k, v */
    struct conform_block fresh[2];
    struct conform_block lengths;
    struct conform_block table;
    struct conform_block descale[2];
    struct conform_block cos;
    struct conform_block sin;
    struct conform_block q;
    struct conform_block q_out;
    int32_t page[BATCH][COLUMNS];
};

static int64_t first_position(const struct call *call, int64_t b) {
    return call->plan.lengths ? used[b] : 0;
}

/* Where a position of the cache lies: its first two indices. */
static void locate(const struct call *call, int64_t b, int64_t position, int64_t out_at[2]) {
    out_at[0] = call->plan.paged ? call->page[b][position / PAGE_SIZE] : b;
    out_at[1] = call->plan.paged ? position % PAGE_SIZE : position;
}

static bool make_caches(struct call *call, struct conform_context *context) {
    for (int n = 0; n < 2; n++) {
        int64_t width = n ? DIM_V : DIM;
        const int64_t shape[] = {call->plan.paged ? PAGES : BATCH, call->plan.paged ? PAGE_SIZE : CAPACITY, HEADS_KV,
                                 width};
        const int64_t fresh_shape[] = {BATCH, ROWS_NEW, HEADS_KV, width};
        if (!conform_block_make(context->subject, call->plan.cache, 4, shape, n, context->outcome, &call->cache[n]) ||
            !conform_block_make(context->subject, call->plan.fresh, 4, fresh_shape, 2 * n, context->outcome,
                                &call->fresh[n])) {
            return false;
        }
        conform_block_draw(&call->cache[n], context->seed + 1 + (uint64_t)n);
        conform_block_draw(&call->fresh[n], context->seed + 3 + (uint64_t)n);
        conform_block_set(&call->fresh[n], 0, 0, 0, 1, 1e4);  /* saturates e4m3 */
        conform_block_set(&call->fresh[n], 1, 1, 1, 2, 1e-5); /* vanishes in it */
    }
    return true;
}

/* Pages in reverse order; entries of other pages than those written to hold garbage. */
static bool make_table(struct call *call, struct conform_context *context) {
    const int64_t lengths_shape[] = {BATCH};
    const int64_t shape[] = {BATCH, COLUMNS};
    if (!conform_block_make(context->subject, ATTUNE_DTYPE_I32, 1, lengths_shape, 0, context->outcome,
                            &call->lengths) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_I32, 2, shape, 0, context->outcome, &call->table)) {
        return false;
    }
    for (int64_t b = 0; b < BATCH; b++) {
        conform_block_set_integer(&call->lengths, b, 0, used[b]);
        for (int64_t n = 0; n < COLUMNS; n++) {
            int64_t first = n * PAGE_SIZE;
            bool written = first < used[b] + ROWS_NEW && first + PAGE_SIZE > used[b];
            call->page[b][n] = (int32_t)(PAGES - 1 - b * COLUMNS - n);
            conform_block_set_integer(&call->table, b, n, written ? call->page[b][n] : INT32_MAX);
        }
    }
    return true;
}

static bool make_descales(struct call *call, struct conform_context *context) {
    static const int64_t shapes[][3] = {{1}, {1}, {BATCH, HEADS_KV}, {BATCH, HEADS_KV, (CAPACITY + 127) / 128}};
    int32_t rank = call->plan.descales == DESCALES_NONE ? 1 : (int32_t)call->plan.descales;
    for (int n = 0; n < 2; n++) {
        struct conform_block *block = &call->descale[n];
        if (!conform_block_make(context->subject, ATTUNE_DTYPE_F32, rank, shapes[call->plan.descales], 0,
                                context->outcome, block)) {
            return false;
        }
        for (int64_t b = 0; b < block->extent[0]; b++) {
            for (int64_t h = 0; h < block->extent[1]; h++) {
                for (int64_t m = 0; m < block->extent[2]; m++) {
                    conform_block_set(block, b, h, m, 0, 0.25 + 0.3 * (double)(b + 2 * h + 3 * m + n));
                }
            }
        }
    }
    return true;
}

static bool make_rotation(struct call *call, struct conform_context *context) {
    const int64_t cos_shape[] = {CAPACITY + 3, ROTARY_DIM / 2 * COS_STEP};
    const int64_t shape[] = {CAPACITY + 3, ROTARY_DIM / 2};
    const int64_t q_shape[] = {BATCH, ROWS_Q, HEADS_Q, DIM};
    if (!conform_block_make(context->subject, ATTUNE_DTYPE_F32, 2, cos_shape, 0, context->outcome, &call->cos) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_F32, 2, shape, 1, context->outcome, &call->sin) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_BF16, 4, q_shape, 3, context->outcome, &call->q) ||
        !conform_block_make(context->subject, ATTUNE_DTYPE_BF16, 4, q_shape, 0, context->outcome, &call->q_out)) {
        return false;
    }
    call->cos.view.shape[1] = ROTARY_DIM / 2;
    call->cos.view.stride[1] = COS_STEP;
    conform_block_draw(&call->q, context->seed + 5);
    for (int64_t p = 0; p < shape[0]; p++) {
        for (int64_t t = 0; t < ROTARY_DIM / 2; t++) {
            double angle = (double)p * pow(100, -(double)t / (ROTARY_DIM / 2.0));
            conform_block_set(&call->cos, p, t * COS_STEP, 0, 0, cos(angle));
            conform_block_set(&call->sin, p, t, 0, 0, sin(angle));
        }
    }
    return true;
}

/* What may be written: the new positions, and q. */
static void allow_writes(struct call *call) {
    for (int64_t b = 0; b < BATCH; b++) {
        for (int64_t i = 0; i < ROWS_NEW; i++) {
            int64_t at[2];
            locate(call, b, first_position(call, b) + i, at);
            for (int64_t h = 0; h < HEADS_KV; h++) {
                for (int64_t d = 0; d < DIM; d++) {
                    conform_block_allow(&call->cache[0], at[0], at[1], h, d);
                    if (d < DIM_V) {
                        conform_block_allow(&call->cache[1], at[0], at[1], h, d);
                    }
                }
            }
        }
    }
    if (call->plan.q != Q_ABSENT) {
        conform_block_allow_all(call->plan.q == Q_IN_PLACE ? &call->q : &call->q_out);
    }
}

static attune_kvcache_append_args make_args(const struct call *call, const char *kernel) {
    const struct plan *plan = &call->plan;
    attune_kvcache_append_args args = attune_kvcache_append_args_init();
    args.k_cache = call->cache[0].view;
    args.v_cache = call->cache[1].view;
    args.k_new = call->fresh[0].view;
    args.v_new = call->fresh[1].view;
    args.kernel = kernel;
    if (plan->lengths) {
        args.seqused_k = call->lengths.view;
    }
    if (plan->paged) {
        args.block_table = call->table.view;
        args.page_size = PAGE_SIZE;
    }
    if (plan->descales != DESCALES_NONE) {
        args.descale_k = call->descale[0].view;
        args.descale_v = call->descale[1].view;
    }
    if (plan->rotation != ROTATION_NONE) {
        args.rotary_cos = call->cos.view;
        args.rotary_sin = call->sin.view;
        args.rotary_interleaved = plan->rotation == ROTATION_INTERLEAVED;
    }
    if (plan->q != Q_ABSENT) {
        args.q = call->q.view;
        args.q_out = plan->q == Q_IN_PLACE ? call->q.view : call->q_out.view;
    }
    return args;
}

/* ---- The definition ---- */

/* Element d of a row at a position after rotation, in f64. size: what was added up; 0 where nothing was. */
static double rotated(const struct call *call, const struct conform_block *row, int64_t b, int64_t i, int64_t h,
                      int64_t d, double *out_size) {
    double x = conform_block_before(row, b, i, h, d);
    *out_size = 0;
    if (call->plan.rotation == ROTATION_NONE || d >= ROTARY_DIM) {
        return x;
    }
    bool interleaved = call->plan.rotation == ROTATION_INTERLEAVED;
    int64_t half = ROTARY_DIM / 2;
    int64_t t = interleaved ? d / 2 : d % half;
    bool second = interleaved ? d % 2 : d >= half;
    int64_t other = interleaved ? d + (second ? -1 : 1) : d + (second ? -half : half);
    double y = conform_block_before(row, b, i, h, other);
    double c = conform_block_before(&call->cos, first_position(call, b) + i, t * COS_STEP, 0, 0);
    double s = conform_block_before(&call->sin, first_position(call, b) + i, t, 0, 0);
    *out_size = fabs(x * c) + fabs(y * s);
    return x * c + (second ? y * s : -y * s);
}

static double descale_at(const struct call *call, int n, int64_t b, int64_t h, int64_t position) {
    const struct conform_block *block = &call->descale[n];
    switch (call->plan.descales) {
    case DESCALES_NONE:
        return 1;
    case DESCALES_ONE:
        return conform_block_before(block, 0, 0, 0, 0);
    case DESCALES_HEADS:
        return conform_block_before(block, b, h, 0, 0);
    default:
        return conform_block_before(block, b, h, position / 128, 0);
    }
}

static bool check_row(const struct call *call, int n, int64_t b, int64_t i, int64_t h,
                      struct conform_outcome *outcome) {
    int64_t position = first_position(call, b) + i;
    int64_t at[2];
    locate(call, b, position, at);
    for (int64_t d = 0; d < (n ? DIM_V : DIM); d++) {
        double size = 0;
        double exact =
            n ? conform_block_before(&call->fresh[1], b, i, h, d) : rotated(call, &call->fresh[0], b, i, h, d, &size);
        double descale = descale_at(call, n, b, h, position);
        double x = conform_block_after(&call->cache[n], at[0], at[1], h, d);
        size += call->plan.descales != DESCALES_NONE ? fabs(exact) : 0; /* a division */
        if (!conform_block_is_rounding(call->plan.cache, x, exact / descale, size / descale)) {
            return conform_outcome_fail(
                outcome, "%c_cache of batch %lld, position %lld, head %lld, %lld is %.9g, not %.9g", n ? 'v' : 'k',
                (long long)b, (long long)position, (long long)h, (long long)d, x, exact / descale);
        }
    }
    return true;
}

static bool check_caches(const struct call *call, struct conform_outcome *outcome) {
    bool right = true;
    for (int64_t n = 0; right && n < 2 * BATCH * ROWS_NEW * HEADS_KV; n++) {
        right = check_row(call, (int)(n % 2), n / 2 / ROWS_NEW / HEADS_KV, n / 2 / HEADS_KV % ROWS_NEW,
                          n / 2 % HEADS_KV, outcome);
    }
    return right;
}

static bool check_q(const struct call *call, struct conform_outcome *outcome) {
    const struct conform_block *out = call->plan.q == Q_IN_PLACE ? &call->q : &call->q_out;
    for (int64_t n = 0; call->plan.q != Q_ABSENT && n < BATCH * ROWS_Q * HEADS_Q * DIM; n++) {
        int64_t b = n / (ROWS_Q * HEADS_Q * DIM);
        int64_t i = n / (HEADS_Q * DIM) % ROWS_Q;
        int64_t h = n / DIM % HEADS_Q;
        double size;
        double exact = rotated(call, &call->q, b, i, h, n % DIM, &size);
        double x = conform_block_after(out, b, i, h, n % DIM);
        if (!conform_block_is_rounding(ATTUNE_DTYPE_BF16, x, exact, size)) {
            return conform_outcome_fail(outcome, "q_out at (%lld, %lld, %lld, %lld) is %.9g, not %.9g", (long long)b,
                                        (long long)i, (long long)h, (long long)(n % DIM), x, exact);
        }
    }
    return true;
}

static bool run(struct call *call, struct conform_context *context, const struct conform_need *need,
                const char *kernel) {
    struct conform_block *const blocks[] = {&call->cache[0], &call->cache[1], &call->fresh[0],   &call->fresh[1],
                                            &call->lengths,  &call->table,    &call->descale[0], &call->descale[1],
                                            &call->cos,      &call->sin,      &call->q,          &call->q_out};
    static const char *const names[] = {"k_cache",    "v_cache",     "k_new",     "v_new",
                                        "seqused_k",  "block_table", "descale_k", "descale_v",
                                        "rotary_cos", "rotary_sin",  "q",         "q_out"};
    const size_t count = sizeof blocks / sizeof blocks[0];
    bool right = true;
    for (size_t n = 0; right && n < count; n++) {
        right = conform_block_upload(blocks[n], context->outcome);
    }
    attune_kvcache_append_args args = make_args(call, kernel);
    right = right && conform_operation_explain(context, need, kernel, &args) &&
            conform_outcome_expect_ok(context->outcome, "attune_kvcache_append",
                                      attune_kvcache_append(context->subject->device, context->subject->stream, &args));
    for (size_t n = 0; right && n < count; n++) {
        right = conform_block_fetch(blocks[n], names[n], context->outcome);
    }
    return right && check_caches(call, context->outcome) && check_q(call, context->outcome);
}

static void free_call(struct call *call) {
    struct conform_block *const blocks[] = {&call->cache[0], &call->cache[1], &call->fresh[0],   &call->fresh[1],
                                            &call->lengths,  &call->table,    &call->descale[0], &call->descale[1],
                                            &call->cos,      &call->sin,      &call->q,          &call->q_out};
    for (size_t n = 0; n < sizeof blocks / sizeof blocks[0]; n++) {
        conform_block_free(blocks[n]);
    }
}

static void check(struct conform_context *context) {
    struct call call = {0};
    struct conform_need need = {0};
    const char *kernel;
    char name[CONFORM_NAME_MAX];
    int64_t number = conform_operation_number(context, &conform_append_cases, &kernel);
    describe(number, &need, name);
    read_plan(number, &call.plan);
    if (make_caches(&call, context) && make_table(&call, context) && make_descales(&call, context) &&
        make_rotation(&call, context)) {
        allow_writes(&call);
        (void)run(&call, context, &need, kernel);
    }
    free_call(&call);
}

const struct conform_family_of_cases conform_append_cases = {"append", 2304, describe, check};
