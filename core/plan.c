/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/plan.h"

#include <inttypes.h>
#include <string.h>

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/check.h"
#include "core/cost.h"
#include "core/describe.h"
#include "core/host.h"
#include "core/log_internal.h"
#include "core/memory_check.h"
#include "core/operand.h"
#include "core/plan_match.h"
#include "core/problem.h"
#include "core/schedule.h"
#include "core/status_internal.h"

/* ---- From args to a call ---- */

static void apply_settings(const struct attune_settings *settings, struct attune_call *call) {
    struct attune_request *request = &call->request;
    bool has_order = call->problem.op == ATTUNE_OP_FORWARD || call->problem.op == ATTUNE_OP_BACKWARD;
    if (settings->deterministic && has_order) {
        call->problem.deterministic = true;
        call->problem.features |= ATTUNE_FEATURE_DETERMINISTIC;
    }
    if (request->tile_rows == 0 && request->tile_keys == 0) {
        request->tile_rows = settings->tile_rows;
        request->tile_keys = settings->tile_keys;
    }
    request->check = request->check || settings->check;
}

attune_status attune_call_prepare(attune_device *device, attune_op op, const void *args, bool allow_null,
                                  struct attune_call *out_call) {
    if (device == NULL) {
        return attune_args_refuse_null("device");
    }
    attune_status status = attune_call_make(op, args, out_call);
    if (status == ATTUNE_OK) {
        apply_settings(&device->settings, out_call);
        status = attune_call_check_memory(device, out_call, allow_null);
    }
    return status;
}

/* ---- From a call to a plan ---- */

attune_status attune_plan_map_workspace(const attune_device *device, const attune_problem *problem,
                                        const struct attune_choice *choice, attune_workspace_map *out_map) {
    const attune_backend *backend = device->backend;
    uint64_t own_bytes = 0;
    if (backend->workspace_bytes != NULL) {
        own_bytes = backend->workspace_bytes(device->handle, choice->row, problem, &choice->schedule);
    }
    attune_schedule schedule = choice->schedule;
    if ((choice->kernel.features & ATTUNE_FEATURE_OWN_SPLITS) != 0) {
        schedule.splits = 1; /* own_bytes has what they leave */
    }
    return attune_workspace_map_make(problem, &schedule, own_bytes, out_map);
}

/* Sets the plan's choice and its workspace. */
static attune_status decide(attune_plan *plan, const struct attune_request *request) {
    struct attune_refusal_list uncollected = {NULL, 0, 0};
    attune_status status = attune_kernel_choose(plan->device, &plan->problem, request, &uncollected, &plan->choice);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (plan->choice.row < 0) {
        return attune_kernel_fail_unsupported(plan->device, &plan->problem, request);
    }
    return attune_plan_map_workspace(plan->device, &plan->problem, &plan->choice, &plan->workspace);
}

static void log_plan(const attune_plan *plan) {
    char problem[ATTUNE_REASON_MAX];
    const attune_schedule *schedule = &plan->choice.schedule;
    attune_log_write_once(ATTUNE_LOG_INFO, "%s %s: %s on %s", attune_op_name(plan->problem.op),
                          attune_dtype_name(plan->problem.dtype), plan->choice.kernel.name,
                          plan->device->info.selector);
    attune_describe_problem(&plan->problem, problem, sizeof problem);
    attune_log_write(ATTUNE_LOG_DEBUG,
                     "plan: %s: %s on %s, tile %" PRId32 "x%" PRId32 ", splits %" PRId32 ", pack %" PRId32
                     ", workspace %" PRIu64 " bytes",
                     problem, plan->choice.kernel.name, plan->device->info.selector, schedule->tile_rows,
                     schedule->tile_keys, schedule->splits, schedule->pack, plan->workspace.size_bytes);
}

attune_status attune_plan_build(attune_device *device, const struct attune_call *call, attune_plan **out_plan) {
    attune_plan *plan = attune_host_alloc(sizeof *plan);
    if (plan == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "plan: no host memory for %zu bytes", sizeof *plan);
    }
    plan->device = device;
    memcpy(&plan->problem, &call->problem, sizeof plan->problem); /* with its padding: problems are compared as bytes */
    plan->request = call->request;
    struct attune_cost cost;
    attune_cost_estimate(&plan->problem, &cost);
    plan->tensor_bytes = cost.tensor_bytes;
    attune_status status = decide(plan, &call->request);
    if (status == ATTUNE_OK) {
        /* The caller's string may go at once; the row's stays. */
        plan->request.kernel = call->request.kernel == NULL ? NULL : plan->choice.kernel.name;
        const attune_plan_request request = {&plan->problem, plan->choice.row, plan->choice.schedule, plan->workspace};
        status = device->backend->plan_build(device->handle, &request, &plan->handle);
    }
    if (status != ATTUNE_OK) {
        attune_host_free(plan);
        return status;
    }
    log_plan(plan);
    *out_plan = plan;
    return ATTUNE_OK;
}

attune_status attune_plan_create(attune_device *device, attune_op op, const void *args, attune_plan **out_plan) {
    struct attune_call call;
    if (out_plan == NULL) {
        return attune_args_refuse_null("out_plan");
    }
    attune_status status = attune_call_prepare(device, op, args, true, &call);
    return status == ATTUNE_OK ? attune_plan_build(device, &call, out_plan) : status;
}

void attune_plan_close(attune_plan *plan) {
    if (plan != NULL) {
        plan->device->backend->plan_release(plan->device->handle, plan->handle);
        attune_host_free(plan);
    }
}

attune_status attune_plan_get_workspace(const attune_plan *plan, uint64_t *out_bytes) {
    if (plan == NULL || out_bytes == NULL) {
        return attune_args_refuse_null(plan == NULL ? "plan" : "out_bytes");
    }
    *out_bytes = plan->workspace.size_bytes;
    return ATTUNE_OK;
}

/* ---- Running ---- */

/* Of a cache only the new rows are written. */
static bool has_work_of_append(const attune_problem *problem) {
    return attune_layout_elements(&problem->operand[ATTUNE_OPERAND_K_NEW]) > 0 ||
           attune_layout_elements(&problem->operand[ATTUNE_OPERAND_V_NEW]) > 0 ||
           attune_layout_elements(&problem->operand[ATTUNE_OPERAND_Q_OUT]) > 0;
}

/* Whether a run writes any element. */
static bool has_work(const attune_problem *problem) {
    if (problem->op == ATTUNE_OP_APPEND) {
        return has_work_of_append(problem);
    }
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (attune_layout_elements(&problem->operand[operand]) > 0 &&
            attune_problem_writes(problem, (attune_operand)operand)) {
            return true;
        }
    }
    return false;
}

attune_status attune_plan_launch(const attune_plan *plan, attune_stream *stream, void *stream_handle,
                                 struct attune_call *call, attune_pointer workspace, uint64_t lent_bytes) {
    attune_device *device = plan->device;
    if (call->request.check) {
        attune_status status = attune_call_check_values(device, stream, call);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    if (!has_work(&plan->problem)) {
        return ATTUNE_OK;
    }
    attune_memory_account_run(&device->memory, plan->tensor_bytes, lent_bytes);
    call->bindings.workspace = workspace;
    return device->backend->execute(device->handle, plan->handle, stream_handle, &call->bindings);
}

attune_status attune_plan_run(attune_plan *plan, attune_stream *stream, const void *args, void *workspace,
                              uint64_t workspace_offset, uint64_t workspace_bytes) {
    struct attune_call call;
    void *stream_handle;
    if (plan == NULL) {
        return attune_args_refuse_null("plan");
    }
    const attune_pointer scratch = {workspace, workspace_offset, ATTUNE_MEMORY_DEFAULT};
    attune_status status = attune_stream_resolve(plan->device, stream, &stream_handle);
    if (status == ATTUNE_OK) {
        status = attune_call_prepare(plan->device, plan->problem.op, args, false, &call);
    }
    if (status == ATTUNE_OK) {
        status = attune_plan_match_call(plan, &call);
    }
    if (status == ATTUNE_OK) {
        status = attune_plan_match_workspace(plan, &call, scratch, workspace_bytes);
    }
    return status == ATTUNE_OK
               ? attune_plan_launch(plan, stream, stream_handle, &call, scratch, plan->workspace.size_bytes)
               : status;
}
