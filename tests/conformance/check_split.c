/*
 * The keys of a problem split by hand, each part attended to alone, and the parts merged: the whole.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "check.h"
#include "judge.h"

#define PARTS_MAX 8

struct parts {
    struct conform_context *context;
    int64_t count;
    void *o_data[PARTS_MAX];
    void *lse_data[PARTS_MAX];
    attune_tensor o[PARTS_MAX];
    attune_tensor lse[PARTS_MAX];
};

static bool allocate(struct parts *parts, const struct conform_run *run) {
    attune_device *device = parts->context->subject->device;
    for (int64_t n = 0; n < parts->count; n++) {
        parts->o[n] = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 4, run->args.o.shape);
        parts->lse[n] = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 3, run->args.lse.shape);
        uint64_t o_bytes = (uint64_t)(parts->o[n].shape[0] * parts->o[n].stride[0]) * sizeof(float);
        uint64_t lse_bytes = (uint64_t)(parts->lse[n].shape[0] * parts->lse[n].stride[0]) * sizeof(float);
        attune_status status = attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, o_bytes, &parts->o_data[n]);
        if (status == ATTUNE_OK) {
            status = attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, lse_bytes, &parts->lse_data[n]);
        }
        if (!conform_outcome_expect_ok(parts->context->outcome, "attune_memory_alloc", status)) {
            return false;
        }
        parts->o[n].data = parts->o_data[n];
        parts->lse[n].data = parts->lse_data[n];
    }
    return true;
}

/* Keys first to end of a tensor (B, Sk, Hkv, D). */
static void cut_keys(attune_tensor *tensor, int64_t first, int64_t end) {
    tensor->byte_offset += (uint64_t)(first * tensor->stride[1]) * attune_dtype_size_bytes(tensor->dtype);
    tensor->shape[1] = end - first;
}

static bool attend(struct parts *parts, const struct conform_run *run) {
    int64_t keys = run->args.k.shape[1];
    for (int64_t n = 0; n < parts->count; n++) {
        attune_attention_args args = run->args;
        cut_keys(&args.k, keys * n / parts->count, keys * (n + 1) / parts->count);
        cut_keys(&args.v, keys * n / parts->count, keys * (n + 1) / parts->count);
        args.o = parts->o[n];
        args.lse = parts->lse[n];
        attune_status status = attune_forward(parts->context->subject->device, run->stream, &args);
        if (status == ATTUNE_UNSUPPORTED) {
            return conform_outcome_skip(parts->context->outcome, "%s", attune_last_error());
        }
        if (!conform_outcome_expect_ok(parts->context->outcome, "attune_forward", status)) {
            return false;
        }
    }
    return true;
}

static bool merge(struct parts *parts, const struct conform_run *run) {
    attune_merge_args args = attune_merge_args_init();
    args.parts = (int32_t)parts->count;
    args.part_o = parts->o;
    args.part_lse = parts->lse;
    args.o = run->args.o;
    args.lse = run->args.lse;
    attune_status status = attune_merge(parts->context->subject->device, run->stream, &args);
    if (status == ATTUNE_UNSUPPORTED) {
        return conform_outcome_skip(parts->context->outcome, "%s", attune_last_error());
    }
    return conform_outcome_expect_ok(parts->context->outcome, "attune_merge", status);
}

void conform_check_split_by_hand(struct conform_context *context) {
    struct conform_problem *problem = conform_problem_make(&context->test->options, context->seed);
    struct conform_oracle oracle;
    struct conform_run run = {0};
    struct parts parts = {.context = context, .count = context->test->variant};
    attune_status status = conform_oracle_run(context->subject->cpu, problem, &oracle);
    if (conform_outcome_expect_ok(context->outcome, "the reference", status) &&
        conform_run_begin(context->subject, problem, &run, context->outcome) &&
        conform_run_explain(&run, context->outcome) && allocate(&parts, &run) && attend(&parts, &run) &&
        merge(&parts, &run) && conform_run_fetch(&run, context->outcome) &&
        conform_run_check_guard(&run, context->outcome)) {
        (void)conform_judge_run(&oracle, &run, context->outcome);
    }
    for (int64_t n = 0; n < parts.count; n++) {
        attune_memory_free(context->subject->device, parts.o_data[n]);
        attune_memory_free(context->subject->device, parts.lse_data[n]);
    }
    conform_run_end(&run);
    conform_oracle_free(&oracle);
    conform_problem_free(problem);
}
