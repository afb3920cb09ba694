/*
 * The rules of attune_quantize.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/problem_internal.h"

#include <inttypes.h>

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/arguments.h"
#include "core/status_internal.h"

static attune_status check_args(const attune_quantize_args *args, struct attune_arguments *out_arguments) {
    attune_status status = attune_arguments_collect(ATTUNE_OP_QUANTIZE, args, args->descale_given, out_arguments);
    if (status == ATTUNE_OK) {
        status = attune_arguments_check_dtypes(out_arguments, ATTUNE_OPERAND_X);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_bind(out_arguments, ATTUNE_OPERAND_X);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    int64_t rows = out_arguments->extents.value[ATTUNE_AXIS_SQ];
    attune_extents_set(&out_arguments->extents, ATTUNE_AXIS_DESCALE_Q, attune_ceil_div(rows, 128), "x");
    status = attune_arguments_bind_all(out_arguments);
    if (status != ATTUNE_OK) {
        return status;
    }
    int64_t heads = out_arguments->extents.value[ATTUNE_AXIS_HQ];
    int64_t groups = attune_arguments_extent(out_arguments, ATTUNE_AXIS_HKV, 1);
    if (heads % groups != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "descale has %" PRId64 " groups and x has %" PRId64
                           " heads: the heads must be a multiple of the groups",
                           groups, heads);
    }
    return ATTUNE_OK;
}

attune_status attune_call_make_quantize(const void *args, struct attune_call *out_call) {
    attune_quantize_args known;
    struct attune_arguments arguments;
    attune_status status = attune_args_import("attune_quantize_args", args, sizeof known, &known);
    if (status == ATTUNE_OK) {
        status = check_args(&known, &arguments);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_store(&arguments, ATTUNE_OPERAND_X, out_call);
    }
    if (status == ATTUNE_OK) {
        out_call->problem.heads_kv = attune_arguments_extent(&arguments, ATTUNE_AXIS_HKV, 1);
        out_call->problem.descale_given = known.descale_given;
        out_call->request.kernel = known.kernel;
    }
    return status;
}
