/*
 * Elements past 2^31 and bytes past 2^32: one large allocation of which a few pages are touched, and small problems at
 * its far ends.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "judge.h"
#include "random.h"

#define FAR_ELEMENTS (INT64_C(1) << 30) /* batch stride: entry 2 lies 2^31 elements on */
#define FAR_BATCH    3
#define SLOT_BYTES   UINT64_C(65536) /* room for a batch entry of one small tensor */
#define WIDE_BYTES   ((uint64_t)(FAR_BATCH - 1) * FAR_ELEMENTS * 2 + CONFORM_OPERANDS * SLOT_BYTES)

struct wide {
    struct conform_context *context;
    void *data;
};

static bool wide_begin(struct conform_context *context, struct wide *out_wide) {
    *out_wide = (struct wide){context, NULL};
    int64_t memory = context->subject->limits.memory_bytes;
    if (memory > 0 && (uint64_t)memory < WIDE_BYTES + WIDE_BYTES / 4) {
        return conform_outcome_skip(context->outcome, "the device has %lld bytes of memory; the case needs %llu",
                                    (long long)memory, (unsigned long long)WIDE_BYTES);
    }
    attune_status status =
        attune_memory_alloc(context->subject->device, ATTUNE_MEMORY_DEFAULT, WIDE_BYTES, &out_wide->data);
    if (status == ATTUNE_OUT_OF_MEMORY) {
        return conform_outcome_skip(context->outcome, "%llu bytes are not to be had: %s",
                                    (unsigned long long)WIDE_BYTES, attune_last_error());
    }
    return conform_outcome_expect_ok(context->outcome, "attune_memory_alloc", status);
}

static void wide_end(struct wide *wide) {
    attune_memory_free(wide->context->subject->device, wide->data);
}

static bool copy(struct wide *wide, void *to, uint64_t to_byte, const void *from, uint64_t from_byte, uint64_t bytes) {
    struct conform_subject *subject = wide->context->subject;
    return conform_outcome_expect_ok(wide->context->outcome, "attune_memory_copy",
                                     attune_memory_copy(subject->device, subject->stream, ATTUNE_COPY_DEVICE_TO_DEVICE,
                                                        to, to_byte, from, from_byte, bytes));
}

static struct conform_options wide_options(attune_op op) {
    struct conform_options options = conform_options_make(op, ATTUNE_DTYPE_F16);
    options.batch = FAR_BATCH;
    options.rows = 9;
    options.keys = 20;
    options.causal = true;
    options.heads_q = 4;
    return options;
}

/* ---- Batch entries far apart ---- */

static const attune_operand spread[] = {ATTUNE_OPERAND_Q,    ATTUNE_OPERAND_K,  ATTUNE_OPERAND_V,  ATTUNE_OPERAND_O,
                                        ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV};

/* Moves every entry of a tensor between its own buffer and the wide memory. */
static bool move(struct wide *wide, struct conform_run *run, attune_operand operand, bool out) {
    const struct conform_tensor *tensor = &run->problem->tensor[operand];
    uint64_t size = attune_dtype_size_bytes(tensor->view.dtype);
    uint64_t bytes = (uint64_t)tensor->stride[0] * size;
    bool right = true;
    for (int64_t b = 0; right && b < FAR_BATCH; b++) {
        uint64_t near = tensor->view.byte_offset + (uint64_t)b * bytes;
        uint64_t far = (uint64_t)operand * SLOT_BYTES + (uint64_t)(b * FAR_ELEMENTS) * size;
        right = out ? copy(wide, wide->data, far, run->data[tensor->buffer], near, bytes)
                    : copy(wide, run->data[tensor->buffer], near, wide->data, far, bytes);
    }
    return right;
}

static bool run_spread(struct wide *wide, struct conform_run *run) {
    bool right = true;
    for (size_t n = 0; right && n < sizeof spread / sizeof spread[0]; n++) {
        if (conform_problem_has(run->problem, spread[n])) {
            attune_tensor *tensor = conform_args_tensor(&run->args, spread[n]);
            right = move(wide, run, spread[n], true);
            tensor->data = wide->data;
            tensor->byte_offset = (uint64_t)spread[n] * SLOT_BYTES;
            tensor->stride[0] = FAR_ELEMENTS;
        }
    }
    right =
        right && conform_run_explain(run, wide->context->outcome) && conform_run_launch(run, wide->context->outcome);
    for (size_t n = 0; right && n < sizeof spread / sizeof spread[0]; n++) {
        bool written = conform_problem_writes(run->problem, spread[n]) && conform_problem_has(run->problem, spread[n]);
        right = !written || move(wide, run, spread[n], false);
    }
    return right;
}

/* ---- The last pages of a large pool ---- */

/* k and v share the pool: v's view begins one small pool later, so that their last pages lie side by side. */
static bool run_pages(struct wide *wide, struct conform_run *run) {
    const struct conform_problem *problem = run->problem;
    uint64_t page_bytes = (uint64_t)problem->tensor[ATTUNE_OPERAND_K].stride[0] * 2;
    uint64_t small_bytes = page_bytes * (uint64_t)problem->pages;
    int64_t pages = (int64_t)((WIDE_BYTES - small_bytes) / page_bytes);
    bool right = true;
    for (int n = 0; right && n < 2; n++) {
        attune_operand operand = n ? ATTUNE_OPERAND_V : ATTUNE_OPERAND_K;
        const struct conform_tensor *tensor = &problem->tensor[operand];
        attune_tensor *view = conform_args_tensor(&run->args, operand);
        view->data = wide->data;
        view->byte_offset = (uint64_t)n * small_bytes;
        view->shape[0] = pages;
        uint64_t far = view->byte_offset + page_bytes * (uint64_t)(pages - problem->pages);
        right = copy(wide, wide->data, far, run->data[tensor->buffer], tensor->view.byte_offset, small_bytes);
    }
    int64_t entries = problem->options.batch * problem->columns;
    int32_t *table = conform_alloc((uint64_t)entries, sizeof *table);
    for (int64_t n = 0; n < entries; n++) {
        bool is_page = problem->block_table[n] >= 0 && problem->block_table[n] < problem->pages;
        table[n] = is_page ? problem->block_table[n] + (int32_t)(pages - problem->pages) : problem->block_table[n];
    }
    const struct conform_tensor *tensor = &problem->tensor[ATTUNE_OPERAND_BLOCK_TABLE];
    struct conform_subject *subject = run->subject;
    right = right &&
            conform_outcome_expect_ok(wide->context->outcome, "attune_memory_copy",
                                      attune_memory_copy(subject->device, subject->stream, ATTUNE_COPY_HOST_TO_DEVICE,
                                                         run->data[tensor->buffer], tensor->view.byte_offset, table, 0,
                                                         (uint64_t)entries * sizeof *table));
    right = right && conform_run_explain(run, wide->context->outcome) &&
            conform_run_launch(run, wide->context->outcome) && conform_run_fetch(run, wide->context->outcome);
    free(table);
    return right;
}

/* Judges what came back. The table is the only input that was changed. */
static bool judge(struct conform_oracle *oracle, struct conform_run *run, struct conform_outcome *outcome) {
    const struct conform_tensor *table = &run->problem->tensor[ATTUNE_OPERAND_BLOCK_TABLE];
    if (!conform_run_fetch(run, outcome)) {
        return false;
    }
    if (table->buffer >= 0) {
        memcpy(run->after[table->buffer], run->problem->buffer[table->buffer].image,
               run->problem->buffer[table->buffer].size_bytes);
    }
    return conform_run_check_guard(run, outcome) && conform_judge_run(oracle, run, outcome);
}

static void check_attention(struct conform_context *context, struct wide *wide, attune_op op, bool paged) {
    struct conform_options options = wide_options(op);
    options.page_size = paged ? 16 : 0;
    conform_options_settle(&options);
    struct conform_problem *problem = conform_problem_make(&options, context->seed);
    struct conform_oracle oracle;
    struct conform_run run = {0};
    attune_status status = conform_oracle_run(context->subject->cpu, problem, &oracle);
    if (conform_outcome_expect_ok(context->outcome, "the reference", status) &&
        conform_run_begin(context->subject, problem, &run, context->outcome) &&
        (paged ? run_pages(wide, &run) : run_spread(wide, &run))) {
        (void)judge(&oracle, &run, context->outcome);
    }
    conform_run_end(&run);
    conform_oracle_free(&oracle);
    conform_problem_free(problem);
}

/* ---- Append far away ---- */

#define APPEND_HEADS 2
#define APPEND_DIM   8
#define APPEND_BYTES (APPEND_HEADS * APPEND_DIM * 2) /* of a new row */

static bool check_appended(struct wide *wide, const uint8_t *rows, uint64_t offset) {
    uint8_t found[APPEND_BYTES];
    struct conform_subject *subject = wide->context->subject;
    for (int64_t b = 0; b < FAR_BATCH; b++) {
        uint64_t far = offset + (uint64_t)(b * FAR_ELEMENTS) * 2 + APPEND_BYTES; /* position 1 */
        attune_status status = attune_memory_copy(subject->device, subject->stream, ATTUNE_COPY_DEVICE_TO_HOST, found,
                                                  0, wide->data, far, sizeof found);
        status = status == ATTUNE_OK ? attune_stream_synchronize(subject->device, subject->stream) : status;
        if (!conform_outcome_expect_ok(wide->context->outcome, "attune_memory_copy", status)) {
            return false;
        }
        if (memcmp(found, rows + b * APPEND_BYTES, sizeof found) != 0) {
            return conform_outcome_fail(wide->context->outcome, "the new row of batch entry %lld is not in its place",
                                        (long long)b);
        }
    }
    return true;
}

static void check_append(struct conform_context *context, struct wide *wide) {
    const int64_t cache_shape[] = {FAR_BATCH, 4, APPEND_HEADS, APPEND_DIM};
    const int64_t new_shape[] = {FAR_BATCH, 1, APPEND_HEADS, APPEND_DIM};
    const int64_t lengths_shape[] = {FAR_BATCH};
    struct {
        int32_t lengths[4];
        uint8_t rows[FAR_BATCH * APPEND_BYTES];
    } host = {{1, 1, 1, 0}, {0}};
    for (size_t n = 0; n < sizeof host.rows; n++) {
        host.rows[n] = (uint8_t)(conform_random_mix(context->seed + n) & 0x3F);
    }
    struct conform_subject *subject = context->subject;
    void *small = NULL;
    attune_status status = attune_memory_alloc(subject->device, ATTUNE_MEMORY_DEFAULT, sizeof host, &small);
    if (status == ATTUNE_OK) {
        status = attune_memory_copy(subject->device, subject->stream, ATTUNE_COPY_HOST_TO_DEVICE, small, 0, &host, 0,
                                    sizeof host);
    }
    attune_kvcache_append_args args = attune_kvcache_append_args_init();
    args.k_cache = attune_tensor_contiguous(wide->data, ATTUNE_DTYPE_F16, 4, cache_shape);
    args.k_cache.stride[0] = FAR_ELEMENTS;
    args.v_cache = args.k_cache;
    args.v_cache.byte_offset = SLOT_BYTES;
    args.k_new = attune_tensor_contiguous(small, ATTUNE_DTYPE_F16, 4, new_shape);
    args.k_new.byte_offset = sizeof host.lengths;
    args.v_new = args.k_new;
    args.seqused_k = attune_tensor_contiguous(small, ATTUNE_DTYPE_I32, 1, lengths_shape);
    if (status == ATTUNE_OK) {
        status = attune_kvcache_append(subject->device, subject->stream, &args);
    }
    if (status == ATTUNE_UNSUPPORTED) {
        conform_outcome_skip(context->outcome, "%s", attune_last_error());
    } else if (conform_outcome_expect_ok(context->outcome, "attune_kvcache_append", status)) {
        (void)(check_appended(wide, host.rows, 0) && check_appended(wide, host.rows, SLOT_BYTES));
    }
    conform_subject_wait(subject, subject->stream);
    attune_memory_free(subject->device, small);
}

static const char *const names[] = {"forward_batch_stride", "backward_batch_stride", "forward_pages", "append"};
const int64_t conform_wide_count = sizeof names / sizeof names[0];

const char *conform_wide_name(int64_t variant) {
    return names[variant];
}

void conform_check_wide(struct conform_context *context) {
    struct wide wide;
    if (wide_begin(context, &wide)) {
        if (context->test->variant == 3) {
            check_append(context, &wide);
        } else {
            attune_op op = context->test->variant == 1 ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
            check_attention(context, &wide, op, context->test->variant == 2);
        }
    }
    wide_end(&wide);
}
