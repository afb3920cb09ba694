/*
 * The rules of attune_merge.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/problem_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/args.h"
#include "core/arguments.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"

static attune_status check_parts(const attune_merge_args *args) {
    if (args->parts < 1 || args->parts > ATTUNE_MERGE_PARTS_MAX) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "parts = %" PRId32 ": must be 1 to %d", args->parts,
                           ATTUNE_MERGE_PARTS_MAX);
    }
    if (args->part_o == NULL || args->part_lse == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = NULL: must point to %" PRId32 " tensors",
                           args->part_o == NULL ? "part_o" : "part_lse", args->parts);
    }
    return ATTUNE_OK;
}

static bool same_view(const attune_tensor *a, const attune_tensor *b) {
    bool same = a->dtype == b->dtype && a->memory == b->memory && a->rank == b->rank;
    for (int32_t k = 0; same && k < a->rank; k++) {
        same = a->shape[k] == b->shape[k] && (a->shape[k] < 2 || a->stride[k] == b->stride[k]);
    }
    return same;
}

static attune_status check_array(const char *argument, const attune_tensor *parts, int32_t count) {
    for (int32_t n = 1; n < count; n++) {
        char name[32];
        snprintf(name, sizeof name, "%s[%" PRId32 "]", argument, n);
        attune_status status = attune_tensor_check(name, &parts[n], false);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (!same_view(&parts[0], &parts[n])) {
            return attune_fail(
                ATTUNE_INVALID_ARGUMENT,
                "%s is %s of shape %s and stride %s, %s[0] is %s of %s and %s: parts must be alike", name,
                attune_dtype_name(parts[n].dtype), attune_shape_format(parts[n].rank, parts[n].shape).text,
                attune_shape_format(parts[n].rank, parts[n].stride).text, argument, attune_dtype_name(parts[0].dtype),
                attune_shape_format(parts[0].rank, parts[0].shape).text,
                attune_shape_format(parts[0].rank, parts[0].stride).text);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_args(const attune_merge_args *args, struct attune_arguments *out_arguments) {
    attune_status status = check_parts(args);
    if (status == ATTUNE_OK) {
        status = attune_arguments_collect(ATTUNE_OP_MERGE, args, false, out_arguments);
    }
    if (status == ATTUNE_OK) {
        status = check_array("part_o", args->part_o, args->parts);
    }
    if (status == ATTUNE_OK) {
        status = check_array("part_lse", args->part_lse, args->parts);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_check_dtypes(out_arguments, ATTUNE_OPERAND_PART_O);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    out_arguments->extents.packed_q = args->part_o[0].rank == 3;
    status = attune_arguments_bind(out_arguments, ATTUNE_OPERAND_PART_O);
    if (status == ATTUNE_OK) {
        status = attune_arguments_bind_all(out_arguments);
    }
    return status;
}

static void set_parts(const attune_merge_args *args, const struct attune_arguments *arguments,
                      struct attune_call *call) {
    enum attune_axis rows = arguments->extents.packed_q ? ATTUNE_AXIS_TOTAL_Q : ATTUNE_AXIS_SQ;
    call->problem.rows = arguments->extents.value[rows];
    call->problem.parts = args->parts;
    for (int32_t n = 0; n < args->parts; n++) {
        call->part_o[n] = attune_tensor_pointer(&args->part_o[n]);
        call->part_lse[n] = attune_tensor_pointer(&args->part_lse[n]);
    }
    call->bindings.part_o = call->part_o;
    call->bindings.part_lse = call->part_lse;
    call->request.kernel = args->kernel;
}

attune_status attune_call_make_merge(const void *args, struct attune_call *out_call) {
    attune_merge_args known;
    struct attune_arguments arguments;
    attune_status status = attune_args_import("attune_merge_args", args, sizeof known, &known);
    if (status == ATTUNE_OK) {
        status = check_args(&known, &arguments);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_store(&arguments, ATTUNE_OPERAND_PART_O, out_call);
    }
    if (status == ATTUNE_OK) {
        set_parts(&known, &arguments, out_call);
    }
    return status;
}
