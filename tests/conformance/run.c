/*
 * One run of a problem on the backend under test: upload, explain, launch, fetch, guard.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "number.h"
#include "subject.h"

#define REFUSALS_MAX 64

bool conform_run_upload(struct conform_run *run, struct conform_outcome *outcome) {
    for (int n = 0; n < run->problem->buffer_count; n++) {
        const struct conform_buffer *buffer = &run->problem->buffer[n];
        attune_status status = attune_memory_copy(run->subject->device, run->stream, ATTUNE_COPY_HOST_TO_DEVICE,
                                                  run->data[n], 0, buffer->image, 0, buffer->size_bytes);
        if (!conform_outcome_expect_ok(outcome, "attune_memory_copy", status)) {
            return false;
        }
    }
    return true;
}

void conform_forced_apply(const struct conform_forced *forced, attune_attention_args *args) {
    if (args->splits == 0) {
        args->splits = forced->splits;
    }
    if (args->tile_rows == 0 && args->tile_keys == 0) {
        args->tile_rows = forced->tile_rows;
        args->tile_keys = forced->tile_keys;
    }
}

bool conform_run_begin(struct conform_subject *subject, const struct conform_problem *problem,
                       struct conform_run *out_run, struct conform_outcome *outcome) {
    memset(out_run, 0, sizeof *out_run);
    out_run->subject = subject;
    out_run->problem = problem;
    out_run->stream = problem->options.default_stream ? NULL : subject->stream;
    for (int n = 0; n < problem->buffer_count; n++) {
        attune_status status = attune_memory_alloc(subject->device, ATTUNE_MEMORY_DEFAULT,
                                                   problem->buffer[n].size_bytes, &out_run->data[n]);
        if (!conform_outcome_expect_ok(outcome, "attune_memory_alloc", status)) {
            return false;
        }
        out_run->after[n] = conform_alloc(problem->buffer[n].size_bytes, 1);
    }
    out_run->args = conform_problem_args(problem, out_run->data);
    conform_forced_apply(&subject->forced, &out_run->args);
    return conform_run_upload(out_run, outcome);
}

void conform_run_end(struct conform_run *run) {
    if (run->subject) {
        conform_subject_wait(run->subject, run->stream);
    }
    for (int n = 0; run->subject && n < run->problem->buffer_count; n++) {
        free(run->after[n]);
        attune_memory_free(run->subject->device, run->data[n]);
    }
    memset(run, 0, sizeof *run);
}

bool conform_subject_row_claims(const attune_kernel_info *row, const struct conform_options *options) {
    uint64_t features = conform_options_features(options);
    bool has_multiple =
        options->head_dim % row->head_dim_multiple == 0 && options->head_dim_v % row->head_dim_multiple == 0;
    return row->op == options->op && row->runnable && (row->dtypes >> options->dtype & 1) &&
           (row->features & features) == features && options->head_dim <= row->head_dim_max &&
           options->head_dim_v <= row->head_dim_v_max && has_multiple &&
           (row->rows_max == 0 || options->rows <= row->rows_max) &&
           (!options->kernel[0] || strcmp(options->kernel, row->name) == 0);
}

/* Whether a row that was forced leaves the case to another: its columns cannot say everything, such as which strides a
 * copy engine describes. What is claimed is still computed then, and a row that never ran fails the suite. */
static bool another_row_takes(const struct conform_run *run, char kernel[ATTUNE_NAME_MAX]) {
    attune_attention_args args = run->args;
    attune_explanation explanation = attune_explanation_init();
    args.kernel = NULL;
    if (attune_explain(run->subject->device, run->problem->options.op, &args, &explanation) != ATTUNE_OK) {
        return false;
    }
    memcpy(kernel, explanation.kernel, sizeof explanation.kernel);
    return explanation.status == ATTUNE_OK;
}

static bool judge_refusal(struct conform_run *run, struct conform_outcome *outcome) {
    const attune_explanation *explanation = &run->explanation;
    int32_t shown = explanation->refusal_count < REFUSALS_MAX ? explanation->refusal_count : REFUSALS_MAX;
    char other[ATTUNE_NAME_MAX];
    for (int32_t n = 0; n < shown; n++) {
        const attune_refusal *refusal = &explanation->refusals[n];
        const attune_kernel_info *row = conform_subject_find_kernel(run->subject, refusal->kernel);
        if (row && conform_subject_row_claims(row, &run->problem->options)) {
            if (run->problem->options.kernel[0] && another_row_takes(run, other)) {
                return conform_outcome_skip(outcome, "%s leaves it to %s: %s", row->name, other, refusal->reason);
            }
            return conform_outcome_fail(outcome, "%s claims this case and refuses it: %s", row->name, refusal->reason);
        }
    }
    return conform_outcome_skip(outcome, "%s", shown > 0 ? explanation->refusals[0].reason : "no kernel row");
}

bool conform_run_explain(struct conform_run *run, struct conform_outcome *outcome) {
    static attune_refusal refusals[REFUSALS_MAX];
    run->explanation = attune_explanation_init();
    run->explanation.refusals = refusals;
    run->explanation.refusal_capacity = REFUSALS_MAX;
    attune_status status =
        attune_explain(run->subject->device, run->problem->options.op, &run->args, &run->explanation);
    if (!conform_outcome_expect_ok(outcome, "attune_explain", status)) {
        return false;
    }
    if (run->explanation.status != ATTUNE_OK) {
        return judge_refusal(run, outcome);
    }
    conform_subject_note_kernel(run->subject, run->explanation.kernel, outcome);
    const char *forced = run->problem->options.kernel;
    if (forced[0] && strcmp(forced, run->explanation.kernel) != 0) {
        return conform_outcome_fail(outcome, "args.kernel is %s and %s was chosen", forced, run->explanation.kernel);
    }
    return true;
}

static attune_status run_plan(struct conform_run *run) {
    struct conform_subject *subject = run->subject;
    attune_plan *plan = NULL;
    void *workspace = NULL;
    uint64_t bytes = 0;
    uint64_t offset = 0;
    attune_status status = attune_plan_create(subject->device, run->problem->options.op, &run->args, &plan);
    if (status == ATTUNE_OK) {
        status = attune_plan_get_workspace(plan, &bytes);
    }
    if (status == ATTUNE_OK && bytes > 0) {
        status = conform_subject_alloc_aligned(subject, bytes, &workspace, &offset);
    }
    if (status == ATTUNE_OK) {
        status = attune_plan_run(plan, run->stream, &run->args, workspace, offset, bytes);
    }
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(subject->device, run->stream);
    }
    attune_memory_free(subject->device, workspace);
    attune_plan_close(plan);
    return status;
}

bool conform_run_launch(struct conform_run *run, struct conform_outcome *outcome) {
    attune_device *device = run->subject->device;
    if (run->problem->options.planned) {
        return conform_outcome_expect_ok(outcome, "attune_plan_run", run_plan(run));
    }
    if (run->problem->options.op == ATTUNE_OP_BACKWARD) {
        return conform_outcome_expect_ok(outcome, "attune_backward", attune_backward(device, run->stream, &run->args));
    }
    return conform_outcome_expect_ok(outcome, "attune_forward", attune_forward(device, run->stream, &run->args));
}

bool conform_run_fetch(struct conform_run *run, struct conform_outcome *outcome) {
    for (int n = 0; n < run->problem->buffer_count; n++) {
        attune_status status =
            attune_memory_copy(run->subject->device, run->stream, ATTUNE_COPY_DEVICE_TO_HOST, run->after[n], 0,
                               run->data[n], 0, run->problem->buffer[n].size_bytes);
        if (!conform_outcome_expect_ok(outcome, "attune_memory_copy", status)) {
            return false;
        }
    }
    return conform_outcome_expect_ok(outcome, "attune_stream_synchronize",
                                     attune_stream_synchronize(run->subject->device, run->stream));
}

/* A tensor of the buffer, for the sentence. */
static attune_operand buffer_operand(const struct conform_problem *problem, int buffer) {
    int found = 0;
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        if (problem->tensor[operand].buffer == buffer) {
            found = operand;
            if (conform_problem_writes(problem, (attune_operand)operand)) {
                break;
            }
        }
    }
    return (attune_operand)found;
}

bool conform_run_check_guard(const struct conform_run *run, struct conform_outcome *outcome) {
    for (int n = 0; n < run->problem->buffer_count; n++) {
        const struct conform_buffer *buffer = &run->problem->buffer[n];
        for (uint64_t byte = 0; byte < buffer->size_bytes; byte++) {
            enum conform_owner owner = (enum conform_owner)buffer->owner[byte];
            uint8_t after = run->after[n][byte];
            bool may_differ = owner == CONFORM_OWNER_OUTPUT || (owner == CONFORM_OWNER_EITHER && after == 0);
            if (after != buffer->image[byte] && !may_differ) {
                return conform_outcome_fail(
                    outcome, "byte %llu of the buffer of %s (%llu bytes, tensor from %llu) was overwritten: it is %s",
                    (unsigned long long)byte, conform_operand_name(buffer_operand(run->problem, n)),
                    (unsigned long long)buffer->size_bytes,
                    (unsigned long long)run->problem->tensor[buffer_operand(run->problem, n)].view.byte_offset,
                    owner == CONFORM_OWNER_INPUT ? "an input" : "no element of any sequence");
            }
        }
    }
    return true;
}

bool conform_run_check_untouched(const struct conform_run *run, struct conform_outcome *outcome) {
    for (int n = 0; n < run->problem->buffer_count; n++) {
        const struct conform_buffer *buffer = &run->problem->buffer[n];
        if (memcmp(run->after[n], buffer->image, buffer->size_bytes) != 0) {
            return conform_outcome_fail(outcome, "the call failed, and wrote into the buffer of %s",
                                        conform_operand_name(buffer_operand(run->problem, n)));
        }
    }
    return true;
}

bool conform_run_whole(struct conform_subject *subject, const struct conform_problem *problem,
                       struct conform_run *out_run, struct conform_outcome *outcome) {
    return conform_run_begin(subject, problem, out_run, outcome) && conform_run_explain(out_run, outcome) &&
           conform_run_launch(out_run, outcome) && conform_run_fetch(out_run, outcome) &&
           conform_run_check_guard(out_run, outcome);
}

/* ---- Results ---- */

struct reader {
    const uint8_t *after;
    attune_dtype dtype;
    size_t size;
    double *values;
    uint8_t *bits;
    uint64_t bit_bytes; /* read so far */
};

static void read_value(void *context, const struct conform_element *element) {
    const struct reader *reader = context;
    if (!element->in_no_sequence) {
        reader->values[element->compact] = conform_number_load(reader->dtype, reader->after + element->byte);
    }
}

static void read_bits(void *context, const struct conform_element *element) {
    struct reader *reader = context;
    if (!element->in_no_sequence) {
        memcpy(reader->bits + reader->bit_bytes, reader->after + element->byte, reader->size);
        reader->bit_bytes += reader->size;
    }
}

double *conform_run_result(const struct conform_run *run, attune_operand operand) {
    const struct conform_tensor *tensor = &run->problem->tensor[operand];
    int64_t count = conform_problem_count_compact(run->problem, operand);
    struct reader reader = {.dtype = tensor->view.dtype, .values = conform_alloc((uint64_t)count, sizeof(double))};
    reader.after = tensor->buffer >= 0 ? run->after[tensor->buffer] : NULL;
    conform_problem_visit(run->problem, operand, read_value, &reader);
    return reader.values;
}

/* The elements that belong to sequences, one after the other. */
static uint8_t *result_bits(const struct conform_run *run, attune_operand operand, uint64_t *out_size) {
    const struct conform_tensor *tensor = &run->problem->tensor[operand];
    struct reader reader = {.dtype = tensor->view.dtype, .size = attune_dtype_size_bytes(tensor->view.dtype)};
    reader.bits = conform_alloc((uint64_t)conform_problem_count_compact(run->problem, operand), reader.size);
    reader.after = tensor->buffer >= 0 ? run->after[tensor->buffer] : NULL;
    conform_problem_visit(run->problem, operand, read_bits, &reader);
    *out_size = reader.bit_bytes;
    return reader.bits;
}

bool conform_run_check_same_bits(const struct conform_run *a, const struct conform_run *b, attune_operand operand,
                                 const char *what, struct conform_outcome *outcome) {
    uint64_t size_a = 0;
    uint64_t size_b = 0;
    uint8_t *bits_a = result_bits(a, operand, &size_a);
    uint8_t *bits_b = result_bits(b, operand, &size_b);
    uint64_t byte = 0;
    while (byte < size_a && byte < size_b && bits_a[byte] == bits_b[byte]) {
        byte++;
    }
    free(bits_a);
    free(bits_b);
    if (byte == size_a && byte == size_b) {
        return true;
    }
    return conform_outcome_fail(outcome, "%s: %s differs at byte %llu of %llu, element after element", what,
                                conform_operand_name(operand), (unsigned long long)byte, (unsigned long long)size_a);
}

bool conform_run_is_same_way(const struct conform_run *a, const struct conform_run *b) {
    return strcmp(a->explanation.kernel, b->explanation.kernel) == 0 &&
           a->explanation.tile_rows == b->explanation.tile_rows &&
           a->explanation.tile_keys == b->explanation.tile_keys && a->explanation.splits == b->explanation.splits &&
           a->explanation.pack == b->explanation.pack;
}
