/*
 * What attune would do for a problem, as data.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/plan.h"

#include <inttypes.h>
#include <string.h>

#include "core/args.h"
#include "core/cost.h"
#include "core/describe.h"
#include "core/plan.h"
#include "core/status_internal.h"
#include "core/text.h"

/* The caller's array of refusals, emptied of what an earlier call counted; none if the caller's struct ends before. */
static attune_status read_refusal_list(const attune_explanation *caller, struct attune_refusal_list *out_list) {
    attune_explanation known = {0};
    size_t size = 0;
    const attune_status status = attune_args_read_size("out_explanation", caller, &size);
    if (status != ATTUNE_OK) {
        return status;
    }
    memcpy(&known, caller, size < sizeof known ? size : sizeof known);
    if (known.refusal_capacity < 0 || (known.refusals == NULL && known.refusal_capacity > 0)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "refusal_capacity = %" PRId32 ": must be the length of refusals, 0 if that is NULL",
                           known.refusal_capacity);
    }
    *out_list = (struct attune_refusal_list){.refusals = known.refusals, .capacity = known.refusal_capacity};
    return ATTUNE_OK;
}

static void fill_choice(const attune_problem *problem, const struct attune_choice *choice,
                        attune_explanation *explanation) {
    const attune_schedule *schedule = &choice->schedule;
    attune_text_format(explanation->kernel, sizeof explanation->kernel, "%s", choice->kernel.name);
    explanation->tile_rows = schedule->tile_rows;
    explanation->tile_keys = schedule->tile_keys;
    explanation->tile_is_tuned = choice->tile_is_tuned;
    explanation->splits = schedule->splits;
    explanation->pack = schedule->pack;
    memcpy(explanation->grid, schedule->grid, sizeof explanation->grid);
    explanation->alignment_bytes = problem->alignment_bytes;
}

static void fill_cost(const attune_device *device, const attune_problem *problem, attune_explanation *explanation) {
    struct attune_cost cost;
    struct attune_roofline roofline;
    attune_cost_estimate(problem, &cost);
    attune_roofline_estimate(&cost, &device->limits, &roofline);
    explanation->tensor_bytes = cost.tensor_bytes;
    explanation->visible_pairs = cost.visible_pairs;
    explanation->pairs_are_bound = cost.pairs_are_bound;
    explanation->flops = cost.flops;
    explanation->bytes = cost.bytes;
    explanation->intensity = roofline.intensity;
    explanation->seconds_at_peak = roofline.seconds;
    explanation->compute_bound = roofline.compute_bound;
}

static attune_status explain(const attune_device *device, const attune_problem *problem,
                             const struct attune_request *request, attune_explanation *out_explanation) {
    struct attune_refusal_list refusals;
    struct attune_choice choice;
    attune_workspace_map workspace;
    attune_explanation explanation = attune_explanation_init();
    attune_status status = read_refusal_list(out_explanation, &refusals);
    if (status == ATTUNE_OK) {
        status = attune_kernel_choose(device, problem, request, &refusals, &choice);
    }
    if (status == ATTUNE_OK && choice.row >= 0) {
        status = attune_plan_map_workspace(device, problem, &choice, &workspace);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_text_format(explanation.device, sizeof explanation.device, "%s", device->info.selector);
    attune_describe_problem(problem, explanation.problem, sizeof explanation.problem);
    fill_cost(device, problem, &explanation);
    explanation.status = ATTUNE_UNSUPPORTED;
    if (choice.row >= 0) {
        explanation.status = ATTUNE_OK;
        explanation.workspace_bytes = workspace.size_bytes;
        fill_choice(problem, &choice, &explanation);
    }
    explanation.refusals = refusals.refusals;
    explanation.refusal_capacity = refusals.capacity;
    explanation.refusal_count = refusals.count;
    return attune_args_export("attune_explanation", &explanation, sizeof explanation, out_explanation);
}

attune_status attune_explain(attune_device *device, attune_op op, const void *args,
                             attune_explanation *out_explanation) {
    struct attune_call call;
    attune_status status = attune_call_prepare(device, op, args, true, &call);
    return status == ATTUNE_OK ? explain(device, &call.problem, &call.request, out_explanation) : status;
}

attune_status attune_plan_explain(const attune_plan *plan, attune_explanation *out_explanation) {
    if (plan == NULL) {
        return attune_args_refuse_null("plan");
    }
    return explain(plan->device, &plan->problem, &plan->request, out_explanation);
}
