/*
 * The rules of attune_kvcache_append.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/problem_internal.h"

#include <inttypes.h>

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/arguments.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static attune_status check_presence(const struct attune_arguments *arguments, int64_t page_size) {
    static const struct attune_pair pairs[] = {
        {ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_SEQUSED_K},
        {ATTUNE_OPERAND_ROTARY_COS, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_ROTARY_SIN},
        {ATTUNE_OPERAND_ROTARY_SIN, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_ROTARY_COS},
        {ATTUNE_OPERAND_Q, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_Q_OUT},
        {ATTUNE_OPERAND_Q_OUT, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_Q},
    };
    attune_status status = attune_arguments_check_pairs(arguments, pairs, COUNT(pairs));
    if (status == ATTUNE_OK) {
        status = attune_arguments_check_unit(arguments, ATTUNE_OPERAND_BLOCK_TABLE, "page_size", page_size);
    }
    return status;
}

static attune_status bind_shapes(struct attune_arguments *arguments, int64_t page_size) {
    attune_status status = attune_arguments_bind_pages(arguments, page_size);
    if (status == ATTUNE_OK) {
        status = attune_arguments_bind(arguments, ATTUNE_OPERAND_K);
    }
    if (status == ATTUNE_OK) {
        int64_t capacity = arguments->extents.value[ATTUNE_AXIS_SK];
        attune_extents_set(&arguments->extents, ATTUNE_AXIS_DESCALE_K, attune_ceil_div(capacity, 128), "the capacity");
        status = attune_arguments_bind_all(arguments);
    }
    return status;
}

/* What is too little whatever seqused_k holds. */
static attune_status check_room(const struct attune_arguments *arguments) {
    const int64_t *extent = arguments->extents.value;
    if (extent[ATTUNE_AXIS_SNEW] > extent[ATTUNE_AXIS_SK]) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "k_new has %" PRId64 " rows: must be at most the %" PRId64
                           " positions that the cache has room for",
                           extent[ATTUNE_AXIS_SNEW], extent[ATTUNE_AXIS_SK]);
    }
    if (arguments->tensor[ATTUNE_OPERAND_ROTARY_COS] == NULL) {
        return ATTUNE_OK;
    }
    if (2 * extent[ATTUNE_AXIS_ROTARY_PAIRS] > extent[ATTUNE_AXIS_D]) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "rotary_cos has %" PRId64 " columns, so that rotary_dim = %" PRId64
                           ": must be at most D, which is %" PRId64,
                           extent[ATTUNE_AXIS_ROTARY_PAIRS], 2 * extent[ATTUNE_AXIS_ROTARY_PAIRS],
                           extent[ATTUNE_AXIS_D]);
    }
    bool of_q = extent[ATTUNE_AXIS_SQ] > extent[ATTUNE_AXIS_SNEW];
    int64_t rows = of_q ? extent[ATTUNE_AXIS_SQ] : extent[ATTUNE_AXIS_SNEW];
    if (rows > extent[ATTUNE_AXIS_POSITIONS]) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "rotary_cos has %" PRId64 " positions: by %s must be %" PRId64 " or more, one for each row",
                           extent[ATTUNE_AXIS_POSITIONS], of_q ? "q" : "k_new", rows);
    }
    return ATTUNE_OK;
}

static attune_status check_args(const attune_kvcache_append_args *args, struct attune_arguments *out_arguments) {
    attune_status status = attune_arguments_collect(ATTUNE_OP_APPEND, args, false, out_arguments);
    if (status == ATTUNE_OK) {
        status = check_presence(out_arguments, args->page_size);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_check_dtypes(out_arguments, ATTUNE_OPERAND_K);
    }
    if (status == ATTUNE_OK) {
        status = bind_shapes(out_arguments, args->page_size);
    }
    return status == ATTUNE_OK ? check_room(out_arguments) : status;
}

static void set_options(const struct attune_arguments *arguments, const attune_kvcache_append_args *args,
                        struct attune_call *call) {
    attune_problem *problem = &call->problem;
    problem->rows = arguments->extents.value[ATTUNE_AXIS_SNEW];
    problem->rotary_dim = 2 * attune_arguments_extent(arguments, ATTUNE_AXIS_ROTARY_PAIRS, 0);
    problem->rotary_interleaved = args->rotary_interleaved && problem->rotary_dim != 0;
    if (arguments->tensor[ATTUNE_OPERAND_K_NEW]->dtype != problem->dtype) {
        problem->features |= ATTUNE_FEATURE_CONVERT;
    }
    call->request.kernel = args->kernel;
    call->request.check = args->check;
}

attune_status attune_call_make_append(const void *args, struct attune_call *out_call) {
    attune_kvcache_append_args known;
    struct attune_arguments arguments;
    attune_status status = attune_args_import("attune_kvcache_append_args", args, sizeof known, &known);
    if (status == ATTUNE_OK) {
        status = check_args(&known, &arguments);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_store(&arguments, ATTUNE_OPERAND_K, out_call);
    }
    if (status == ATTUNE_OK) {
        set_options(&arguments, &known, out_call);
    }
    return status;
}
