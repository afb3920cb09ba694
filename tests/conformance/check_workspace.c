/*
 * Plans: the workspace that is asked for is exactly what is used, and a plan serves every shorter length.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "judge.h"

#define CANARY       0xC5
#define CANARY_BYTES 256

/* Workspace with canaries on both sides. */
struct workspace {
    struct conform_context *context;
    void *data;
    uint64_t offset; /* of the workspace itself */
    uint64_t bytes;
};

static bool workspace_begin(struct conform_context *context, uint64_t bytes, struct workspace *out_workspace) {
    struct conform_subject *subject = context->subject;
    uint64_t padded = (bytes + CANARY_BYTES - 1) / CANARY_BYTES * CANARY_BYTES;
    *out_workspace = (struct workspace){context, NULL, 0, bytes};
    attune_status status =
        conform_subject_alloc_aligned(subject, padded + 2 * CANARY_BYTES, &out_workspace->data, &out_workspace->offset);
    if (status == ATTUNE_OK) {
        status = attune_memory_fill(subject->device, subject->stream, out_workspace->data, out_workspace->offset,
                                    bytes + 2 * CANARY_BYTES, CANARY);
    }
    out_workspace->offset += CANARY_BYTES;
    return conform_outcome_expect_ok(context->outcome, "the workspace", status);
}

static bool workspace_check(struct workspace *workspace) {
    struct conform_subject *subject = workspace->context->subject;
    uint64_t size = workspace->bytes + 2 * CANARY_BYTES;
    uint8_t *found = conform_alloc(size, 1);
    attune_status status = attune_memory_copy(subject->device, subject->stream, ATTUNE_COPY_DEVICE_TO_HOST, found, 0,
                                              workspace->data, workspace->offset - CANARY_BYTES, size);
    status = status == ATTUNE_OK ? attune_stream_synchronize(subject->device, subject->stream) : status;
    bool right = conform_outcome_expect_ok(workspace->context->outcome, "attune_memory_copy", status);
    for (uint64_t byte = 0; right && byte < size; byte++) {
        bool is_inside = byte >= CANARY_BYTES && byte < CANARY_BYTES + workspace->bytes;
        if (!is_inside && found[byte] != CANARY) {
            right =
                conform_outcome_fail(workspace->context->outcome, "byte %lld of a workspace of %llu bytes was written",
                                     (long long)byte - CANARY_BYTES, (unsigned long long)workspace->bytes);
        }
    }
    free(found);
    return right;
}

static void workspace_end(struct workspace *workspace) {
    conform_subject_wait(workspace->context->subject, workspace->context->subject->stream);
    attune_memory_free(workspace->context->subject->device, workspace->data);
}

/* ---- The exact workspace ---- */

static bool refuse_one_less(attune_plan *plan, struct conform_run *run, struct workspace *workspace) {
    struct conform_outcome *outcome = workspace->context->outcome;
    if (workspace->bytes == 0) {
        return true;
    }
    attune_status status =
        attune_plan_run(plan, run->stream, &run->args, workspace->data, workspace->offset, workspace->bytes - 1);
    return conform_outcome_expect(outcome, "attune_plan_run with one byte less", status, ATTUNE_INVALID_ARGUMENT) &&
           conform_run_fetch(run, outcome) && conform_run_check_untouched(run, outcome);
}

static bool run_exact(attune_plan *plan, struct conform_run *run, struct workspace *workspace) {
    struct conform_outcome *outcome = workspace->context->outcome;
    bool none = workspace->bytes == 0;
    attune_status status = attune_plan_run(plan, run->stream, &run->args, none ? NULL : workspace->data,
                                           none ? 0 : workspace->offset, workspace->bytes);
    return conform_outcome_expect_ok(outcome, "attune_plan_run", status) && conform_run_fetch(run, outcome) &&
           conform_run_check_guard(run, outcome) && workspace_check(workspace);
}

void conform_check_workspace(struct conform_context *context) {
    struct conform_outcome *outcome = context->outcome;
    struct conform_problem *problem = conform_problem_make(&context->test->options, context->seed);
    struct conform_oracle oracle;
    struct conform_run run = {0};
    struct workspace workspace = {.context = context};
    attune_plan *plan = NULL;
    uint64_t bytes = 0;
    attune_status status = conform_oracle_run(context->subject->cpu, problem, &oracle);
    if (conform_outcome_expect_ok(outcome, "the reference", status) &&
        conform_run_begin(context->subject, problem, &run, outcome) && conform_run_explain(&run, outcome) &&
        conform_outcome_expect_ok(
            outcome, "attune_plan_create",
            attune_plan_create(context->subject->device, problem->options.op, &run.args, &plan)) &&
        conform_outcome_expect_ok(outcome, "attune_plan_get_workspace", attune_plan_get_workspace(plan, &bytes)) &&
        workspace_begin(context, bytes, &workspace) && refuse_one_less(plan, &run, &workspace) &&
        run_exact(plan, &run, &workspace)) {
        (void)conform_judge_run(&oracle, &run, outcome);
    }
    workspace_end(&workspace);
    attune_plan_close(plan);
    conform_run_end(&run);
    conform_oracle_free(&oracle);
    conform_problem_free(problem);
}

/* ---- Capacities ---- */

/* A plan made before there is any data. */
static bool plan_without_data(struct conform_context *context, const struct conform_problem *problem,
                              attune_plan **out_plan) {
    void *no_data[CONFORM_OPERANDS] = {NULL};
    attune_attention_args args = conform_problem_args(problem, no_data);
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        conform_args_tensor(&args, (attune_operand)operand)->byte_offset = 0;
    }
    conform_forced_apply(&context->subject->forced, &args);
    attune_status status = attune_plan_create(context->subject->device, problem->options.op, &args, out_plan);
    if (status == ATTUNE_UNSUPPORTED) {
        return conform_outcome_skip(context->outcome, "%s", attune_last_error());
    }
    return conform_outcome_expect_ok(context->outcome, "attune_plan_create", status);
}

static bool run_lengths(struct conform_context *context, attune_plan *plan, uint64_t bytes, uint64_t seed) {
    struct conform_outcome *outcome = context->outcome;
    struct conform_problem *problem = conform_problem_make(&context->test->options, seed);
    struct conform_oracle oracle;
    struct conform_run run = {0};
    struct workspace workspace = {.context = context};
    attune_status status = conform_oracle_run(context->subject->cpu, problem, &oracle);
    bool right = conform_outcome_expect_ok(outcome, "the reference", status) &&
                 conform_run_begin(context->subject, problem, &run, outcome) && conform_run_explain(&run, outcome) &&
                 workspace_begin(context, bytes, &workspace) && run_exact(plan, &run, &workspace) &&
                 conform_judge_run(&oracle, &run, outcome);
    workspace_end(&workspace);
    conform_run_end(&run);
    conform_oracle_free(&oracle);
    conform_problem_free(problem);
    return right;
}

void conform_check_shorter(struct conform_context *context) {
    struct conform_problem *problem = conform_problem_make(&context->test->options, context->seed);
    attune_plan *plan = NULL;
    uint64_t bytes = 0;
    if (plan_without_data(context, problem, &plan) &&
        conform_outcome_expect_ok(context->outcome, "attune_plan_get_workspace",
                                  attune_plan_get_workspace(plan, &bytes))) {
        for (uint64_t turn = 0; turn < 3 && run_lengths(context, plan, bytes, context->seed + turn); turn++) {
        }
    }
    attune_plan_close(plan);
    conform_problem_free(problem);
}
