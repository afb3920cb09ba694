/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>

#include "random.h"

void *conform_alloc(uint64_t count, uint64_t size) {
    void *memory = calloc(count > 0 ? (size_t)count : 1, (size_t)size);
    if (!memory) {
        fprintf(stderr, "attune conform: out of memory (%llu bytes)\n", (unsigned long long)(count * size));
        exit(1);
    }
    return memory;
}

struct conform_problem *conform_problem_make(const struct conform_options *options, uint64_t seed) {
    struct conform_problem *problem = conform_alloc(1, sizeof *problem);
    problem->options = *options;
    problem->seed = seed;
    problem->dropout_seed = conform_random_mix(seed ^ UINT64_C(0x64726F70));
    problem->dropout_offset = (uint32_t)(problem->dropout_seed >> 7);
    conform_problem_draw_lengths(problem);
    if (options->page_size > 0) {
        conform_problem_draw_pages(problem);
    }
    if (options->sparse != CONFORM_SPARSE_NONE) {
        conform_problem_draw_blocks(problem);
    }
    conform_problem_lay_out(problem);
    conform_problem_fill(problem);
    return problem;
}

void conform_problem_free(struct conform_problem *problem) {
    if (!problem) {
        return;
    }
    for (int n = 0; n < problem->buffer_count; n++) {
        free(problem->buffer[n].image);
        free(problem->buffer[n].owner);
    }
    for (int which = 0; which < 2; which++) {
        free(problem->cu_seqlens[which]);
        free(problem->seqused[which]);
    }
    free(problem->leftpad);
    free(problem->block_table);
    free(problem->block_row_ptr);
    free(problem->block_col_idx);
    free(problem->sequence);
    free(problem);
}

attune_tensor *conform_args_tensor(attune_attention_args *args, attune_operand operand) {
    attune_tensor *const tensors[CONFORM_OPERANDS] = {
        &args->q,
        &args->k,
        &args->v,
        &args->o,
        &args->lse,
        &args->probs,
        &args->dout,
        &args->dlse,
        &args->dq,
        &args->dk,
        &args->dv,
        &args->dbias,
        &args->dsink,
        &args->bias,
        &args->mask,
        &args->alibi_slopes,
        &args->sink,
        &args->cu_seqlens_q,
        &args->cu_seqlens_k,
        &args->seqused_q,
        &args->seqused_k,
        &args->leftpad_k,
        &args->block_table,
        &args->block_row_ptr,
        &args->block_col_idx,
        &args->descale_q,
        &args->descale_k,
        &args->descale_v,
        &args->dropout_seed_memory,
        &args->dropout_offset_memory,
    };
    return tensors[operand];
}

const char *conform_operand_name(attune_operand operand) {
    static const char *const names[CONFORM_OPERANDS] = {
        "q",
        "k",
        "v",
        "o",
        "lse",
        "probs",
        "dout",
        "dlse",
        "dq",
        "dk",
        "dv",
        "dbias",
        "dsink",
        "bias",
        "mask",
        "alibi_slopes",
        "sink",
        "cu_seqlens_q",
        "cu_seqlens_k",
        "seqused_q",
        "seqused_k",
        "leftpad_k",
        "block_table",
        "block_row_ptr",
        "block_col_idx",
        "descale_q",
        "descale_k",
        "descale_v",
        "dropout_seed_memory",
        "dropout_offset_memory",
    };
    return names[operand];
}

attune_attention_args conform_problem_args(const struct conform_problem *problem, void *const *data) {
    attune_attention_args args = conform_options_args(&problem->options);
    if (problem->options.dropout_rate > 0 && !problem->options.dropout_memory) {
        args.dropout_seed = problem->dropout_seed;
        args.dropout_offset = problem->dropout_offset;
    }
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        const struct conform_tensor *tensor = &problem->tensor[operand];
        attune_tensor *view = conform_args_tensor(&args, (attune_operand)operand);
        *view = tensor->view;
        if (tensor->buffer >= 0) {
            view->data = data[tensor->buffer];
        }
    }
    return args;
}
