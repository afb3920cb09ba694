/*
 * Lengths and tables that lie are the caller's fault: with check they are found, and nothing is written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "check.h"

struct lie {
    const char *name;
    attune_operand operand;
    int64_t entry;
    int64_t value; /* added to what the limit says */
    enum { LIMIT_ZERO, LIMIT_CAPACITY, LIMIT_PAGES, LIMIT_ROWS } limit;
};

static const struct lie lies[] = {
    {"length_past_capacity", ATTUNE_OPERAND_SEQUSED_K, 0, 1, LIMIT_CAPACITY},
    {"length_negative", ATTUNE_OPERAND_SEQUSED_K, 1, -1, LIMIT_ZERO},
    {"page_negative", ATTUNE_OPERAND_BLOCK_TABLE, 0, -1, LIMIT_ZERO},
    {"page_past_the_pool", ATTUNE_OPERAND_BLOCK_TABLE, 1, 0, LIMIT_PAGES},
    {"page_largest", ATTUNE_OPERAND_BLOCK_TABLE, 0, INT32_MAX, LIMIT_ZERO},
    {"rows_past_capacity", ATTUNE_OPERAND_SEQUSED_Q, 0, 1, LIMIT_ROWS},
    {"leftpad_negative", ATTUNE_OPERAND_LEFTPAD_K, 0, -1, LIMIT_ZERO},
    {"offsets_decrease", ATTUNE_OPERAND_CU_SEQLENS_Q, 1, -3, LIMIT_ZERO},
    {"offsets_past_the_end", ATTUNE_OPERAND_CU_SEQLENS_K, 2, 1000, LIMIT_ZERO},
    {"block_past_the_keys", ATTUNE_OPERAND_BLOCK_COL_IDX, 0, 1000, LIMIT_ZERO},
    {"block_rows_decrease", ATTUNE_OPERAND_BLOCK_ROW_PTR, 1, -1, LIMIT_ZERO},
};

const int64_t conform_table_lie_count = sizeof lies / sizeof lies[0];

const char *conform_table_lie_name(int64_t variant) {
    return lies[variant].name;
}

static struct conform_options options_for(const struct lie *lie) {
    struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, ATTUNE_DTYPE_F32);
    bool packed = lie->operand == ATTUNE_OPERAND_CU_SEQLENS_Q || lie->operand == ATTUNE_OPERAND_CU_SEQLENS_K;
    bool sparse = lie->operand == ATTUNE_OPERAND_BLOCK_COL_IDX || lie->operand == ATTUNE_OPERAND_BLOCK_ROW_PTR;
    options.q.ragged = options.k.ragged = packed;
    options.q.used = lie->operand == ATTUNE_OPERAND_SEQUSED_Q;
    options.leftpad = lie->operand == ATTUNE_OPERAND_LEFTPAD_K;
    options.sparse = sparse ? CONFORM_SPARSE_SHARED : CONFORM_SPARSE_NONE;
    options.page_size = packed || sparse ? 0 : 4;
    options.check = true;
    conform_options_settle(&options);
    return options;
}

static int64_t limit_of(const struct conform_problem *problem, const struct lie *lie) {
    switch (lie->limit) {
    case LIMIT_CAPACITY:
        return problem->longest_keys;
    case LIMIT_PAGES:
        return problem->pages;
    case LIMIT_ROWS:
        return problem->longest_rows;
    default:
        return 0;
    }
}

void conform_check_table_lie(struct conform_context *context) {
    const struct lie *lie = &lies[context->test->variant];
    struct conform_options options = options_for(lie);
    struct conform_problem *problem = conform_problem_make(&options, context->seed);
    struct conform_run run;
    conform_problem_set_integer(problem, lie->operand, lie->entry, (int32_t)(limit_of(problem, lie) + lie->value));
    if (conform_run_begin(context->subject, problem, &run, context->outcome) &&
        conform_run_explain(&run, context->outcome) &&
        conform_outcome_expect(context->outcome, "attune_forward with check",
                               attune_forward(context->subject->device, run.stream, &run.args),
                               ATTUNE_INVALID_ARGUMENT) &&
        conform_run_fetch(&run, context->outcome)) {
        (void)conform_run_check_untouched(&run, context->outcome);
    }
    conform_run_end(&run);
    conform_problem_free(problem);
}
