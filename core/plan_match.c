/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/plan_match.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "core/describe.h"
#include "core/operand.h"
#include "core/overlap.h"
#include "core/schedule.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"

static attune_status fail_integer(const char *argument, int64_t given, int64_t planned) {
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": must be %" PRId64 ", as the plan was made", argument,
                       given, planned);
}

/* ---- Requests ---- */

static attune_status match_request(const struct attune_request *planned, const struct attune_request *given) {
    const struct {
        const char *argument;
        int32_t planned;
        int32_t given;
    } numbers[] = {
        {"tile_rows", planned->tile_rows, given->tile_rows},
        {"tile_keys", planned->tile_keys, given->tile_keys},
        {"splits", planned->splits, given->splits},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].planned != numbers[i].given) {
            return fail_integer(numbers[i].argument, numbers[i].given, numbers[i].planned);
        }
    }
    const char *planned_kernel = planned->kernel == NULL ? "" : planned->kernel;
    const char *given_kernel = given->kernel == NULL ? "" : given->kernel;
    if (strcmp(planned_kernel, given_kernel) != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "kernel = \"%s\": must be \"%s\", as the plan was made",
                           given_kernel, planned_kernel);
    }
    return ATTUNE_OK;
}

/* ---- The problem ---- */

/* Under the names of args: where a size comes from a shape, the operand differs too and is named first. */
static const struct {
    const char *argument;
    size_t offset;
} integers[] = {
    {"batch", offsetof(attune_problem, batch)},
    {"max_seqlen_q", offsetof(attune_problem, rows)},
    {"max_seqlen_k", offsetof(attune_problem, keys)},
    {"heads_q", offsetof(attune_problem, heads_q)},
    {"heads_kv", offsetof(attune_problem, heads_kv)},
    {"head_dim", offsetof(attune_problem, head_dim)},
    {"head_dim_v", offsetof(attune_problem, head_dim_v)},
    {"page_size", offsetof(attune_problem, page_size)},
    {"block_rows", offsetof(attune_problem, block_rows)},
    {"block_keys", offsetof(attune_problem, block_keys)},
    {"parts", offsetof(attune_problem, parts)},
    {"rotary_dim", offsetof(attune_problem, rotary_dim)},
    {"diagonal", offsetof(attune_problem, diagonal)},
    {"window.left", offsetof(attune_problem, window_left)},
    {"window.right (0 if causal)", offsetof(attune_problem, window_right)},
    {"batch_origin", offsetof(attune_problem, batch_origin)},
    {"head_origin", offsetof(attune_problem, head_origin)},
    {"row_origin", offsetof(attune_problem, row_origin)},
    {"key_origin", offsetof(attune_problem, key_origin)},
    {"heads_total", offsetof(attune_problem, heads_total)},
};

static attune_status match_layout(const char *argument, const attune_layout *planned, const attune_layout *given) {
    if (planned->dtype != given->dtype) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.dtype = %s: must be %s, as the plan was made", argument,
                           attune_dtype_name(given->dtype), attune_dtype_name(planned->dtype));
    }
    if (planned->memory != given->memory) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.memory = %d: must be %d, as the plan was made", argument,
                           (int)given->memory, (int)planned->memory);
    }
    bool differs = memcmp(planned->shape, given->shape, sizeof planned->shape) != 0;
    const char *what = differs ? "shape" : "stride";
    const struct attune_shape_text of_plan =
        attune_shape_format(ATTUNE_RANK_MAX, differs ? planned->shape : planned->stride);
    const struct attune_shape_text of_call =
        attune_shape_format(ATTUNE_RANK_MAX, differs ? given->shape : given->stride);
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s has %s, on four axes, %s: must be %s, as the plan was made",
                       argument, what, of_call.text, of_plan.text);
}

static attune_status match_operands(const attune_problem *planned, const attune_problem *given) {
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (memcmp(&planned->operand[operand], &given->operand[operand], sizeof planned->operand[operand]) != 0) {
            return match_layout(attune_operand_name(planned->op, (attune_operand)operand), &planned->operand[operand],
                                &given->operand[operand]);
        }
    }
    return ATTUNE_OK;
}

static attune_status match_integers(const attune_problem *planned, const attune_problem *given) {
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        int64_t of_plan;
        int64_t of_call;
        memcpy(&of_plan, (const char *)planned + integers[i].offset, sizeof of_plan);
        memcpy(&of_call, (const char *)given + integers[i].offset, sizeof of_call);
        if (of_plan != of_call) {
            return fail_integer(integers[i].argument, of_call, of_plan);
        }
    }
    return ATTUNE_OK;
}

static attune_status match_options(const attune_problem *planned, const attune_problem *given) {
    if (planned->softcap != given->softcap) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "softcap = %g: must be %g, as the plan was made", given->softcap,
                           planned->softcap);
    }
    if (planned->dropout_rate != given->dropout_rate) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "dropout_rate = %g: must be %g, as the plan was made",
                           given->dropout_rate, planned->dropout_rate);
    }
    if (planned->align != given->align) {
        return fail_integer("align", given->align, planned->align);
    }
    if (planned->rotary_interleaved != given->rotary_interleaved) {
        return fail_integer("rotary_interleaved", given->rotary_interleaved, planned->rotary_interleaved);
    }
    if (planned->descale_given != given->descale_given) {
        return fail_integer("descale_given", given->descale_given, planned->descale_given);
    }
    if (planned->deterministic != given->deterministic) {
        return fail_integer("deterministic", given->deterministic, planned->deterministic);
    }
    char names[ATTUNE_REASON_MAX] = "";
    attune_describe_features(planned->features ^ given->features, names, sizeof names);
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s: must be given or not, as the plan was made", names);
}

/* Says what differs between two problems that are not the same bytes. */
static attune_status fail_difference(const attune_problem *planned, const attune_problem *given) {
    attune_status status = match_operands(planned, given);
    if (status == ATTUNE_OK) {
        status = match_integers(planned, given);
    }
    return status == ATTUNE_OK ? match_options(planned, given) : status;
}

attune_status attune_plan_match_call(const attune_plan *plan, const struct attune_call *call) {
    const attune_problem *planned = &plan->problem;
    attune_status status = match_request(&plan->request, &call->request);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (call->problem.alignment_bytes < planned->alignment_bytes) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "data of a tensor is aligned to %" PRId32 " bytes: must be to %" PRId32
                           ", as the plan was made",
                           call->problem.alignment_bytes, planned->alignment_bytes);
    }
    const uint64_t aliasing = call->problem.features & ~planned->features & ATTUNE_FEATURE_O_IS_Q;
    if ((aliasing & ~plan->choice.kernel.features) != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "o is q: must not be, as the plan's kernel, %s, cannot do that",
                           plan->choice.kernel.name);
    }
    attune_problem given;
    memcpy(&given, &call->problem, sizeof given);
    given.alignment_bytes = planned->alignment_bytes;
    given.features = (given.features & ~ATTUNE_FEATURE_O_IS_Q) | (planned->features & ATTUNE_FEATURE_O_IS_Q);
    return memcmp(planned, &given, sizeof given) == 0 ? ATTUNE_OK : fail_difference(planned, &given);
}

/* ---- The workspace ---- */

/* Bytes of one space. */
struct extent {
    uint64_t space;
    uint64_t begin;
    uint64_t end;
};

static bool extents_meet(const struct extent *a, const struct extent *b) {
    return a->space == b->space && a->begin < b->end && b->begin < a->end;
}

static attune_status locate(const attune_device *device, attune_pointer pointer, uint64_t bytes,
                            struct extent *out_extent) {
    attune_memory_range range = {0, 0, 0};
    attune_status status = device->backend->memory_range(device->handle, pointer.memory, pointer.data, &range);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (pointer.byte_offset > range.size_bytes || bytes > range.size_bytes - pointer.byte_offset) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "workspace_bytes = %" PRIu64 " from workspace_offset = %" PRIu64
                           " on: must end within its memory, %" PRIu64 " bytes",
                           bytes, pointer.byte_offset, range.size_bytes);
    }
    out_extent->space = range.space;
    out_extent->begin = range.offset + pointer.byte_offset;
    out_extent->end = out_extent->begin + bytes;
    return ATTUNE_OK;
}

static attune_status match_disjoint(const attune_plan *plan, const struct extent *workspace, attune_operand operand,
                                    attune_pointer pointer) {
    struct extent tensor = {0, 0, 0};
    const struct attune_strided strided = attune_strided_make(&plan->problem.operand[operand]);
    const uint64_t bytes = (uint64_t)attune_strided_span_bytes(&strided);
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    attune_status status = locate(plan->device, pointer, bytes, &tensor);
    if (status == ATTUNE_OK && extents_meet(workspace, &tensor)) {
        status = attune_fail(ATTUNE_INVALID_ARGUMENT, "workspace shares bytes with %s: must overlap no tensor",
                             attune_operand_name(plan->problem.op, operand));
    }
    return status;
}

static attune_status match_all_disjoint(const attune_plan *plan, const attune_bindings *bindings,
                                        const struct extent *workspace) {
    attune_status status = ATTUNE_OK;
    for (int operand = 0; status == ATTUNE_OK && operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (operand != ATTUNE_OPERAND_PART_O && operand != ATTUNE_OPERAND_PART_LSE) {
            status = match_disjoint(plan, workspace, (attune_operand)operand, bindings->operand[operand]);
        }
    }
    for (int64_t part = 0; status == ATTUNE_OK && part < plan->problem.parts; part++) {
        status = match_disjoint(plan, workspace, ATTUNE_OPERAND_PART_O, bindings->part_o[part]);
        if (status == ATTUNE_OK) {
            status = match_disjoint(plan, workspace, ATTUNE_OPERAND_PART_LSE, bindings->part_lse[part]);
        }
    }
    return status;
}

attune_status attune_plan_match_workspace(const attune_plan *plan, const struct attune_call *call,
                                          attune_pointer workspace, uint64_t workspace_bytes) {
    const uint64_t needed = plan->workspace.size_bytes;
    struct extent extent = {0, 0, 0};
    if (needed == 0) {
        return ATTUNE_OK;
    }
    if (workspace.data == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "workspace = NULL: must have the plan's %" PRIu64 " bytes", needed);
    }
    if (workspace_bytes < needed) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "workspace_bytes = %" PRIu64 ": must be the plan's %" PRIu64 " or more", workspace_bytes,
                           needed);
    }
    attune_status status = locate(plan->device, workspace, needed, &extent);
    if (status == ATTUNE_OK && extent.begin % ATTUNE_WORKSPACE_ALIGNMENT != 0) {
        status = attune_fail(ATTUNE_INVALID_ARGUMENT,
                             "workspace_offset = %" PRIu64 ": must leave the workspace aligned to %d bytes",
                             workspace.byte_offset, ATTUNE_WORKSPACE_ALIGNMENT);
    }
    return status == ATTUNE_OK ? match_all_disjoint(plan, &call->bindings, &extent) : status;
}
