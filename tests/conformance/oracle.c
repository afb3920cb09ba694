/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

struct gatherer {
    const uint8_t *image;
    uint8_t *stored;
    size_t size;
};

static void gather_element(void *context, const struct conform_element *element) {
    const struct gatherer *gatherer = context;
    if (!element->in_no_sequence) {
        memcpy(gatherer->stored + (uint64_t)element->compact * gatherer->size, gatherer->image + element->byte,
               gatherer->size);
    }
}

static void gather(struct conform_oracle *oracle, attune_operand operand) {
    const struct conform_tensor *tensor = &oracle->problem->tensor[operand];
    if (tensor->view.dtype == ATTUNE_DTYPE_NONE) {
        return;
    }
    size_t size = attune_dtype_size_bytes(tensor->view.dtype);
    free(oracle->stored[operand]);
    oracle->stored[operand] = conform_alloc((uint64_t)conform_problem_count_compact(oracle->problem, operand), size);
    if (tensor->buffer >= 0) {
        struct gatherer gatherer = {oracle->problem->buffer[tensor->buffer].image, oracle->stored[operand], size};
        conform_problem_visit(oracle->problem, operand, gather_element, &gatherer);
    }
}

static attune_tensor compact_view(const struct conform_problem *problem, attune_operand operand, void *data,
                                  attune_dtype dtype) {
    attune_tensor view = problem->tensor[operand].view;
    bool keys = operand == ATTUNE_OPERAND_K || operand == ATTUNE_OPERAND_V;
    if (keys && problem->options.page_size > 0) {
        view.shape[0] = problem->options.batch;
        view.shape[1] = problem->longest_keys;
    }
    return attune_tensor_contiguous(data, dtype, view.rank, view.shape);
}

static double *result_alloc(struct conform_oracle *oracle, attune_operand operand, int64_t count) {
    free(oracle->exact[operand]);
    oracle->exact[operand] = conform_alloc((uint64_t)count, sizeof(double));
    return oracle->exact[operand];
}

static attune_attention_args plain_args(struct conform_oracle *oracle) {
    const struct conform_problem *problem = oracle->problem;
    struct conform_options plain = problem->options;
    plain.page_size = 0;
    plain.splits = plain.tile_rows = plain.tile_keys = 0;
    plain.kernel[0] = '\0';
    plain.deterministic = plain.check = false;
    attune_attention_args args = conform_options_args(&plain);
    if (plain.dropout_rate > 0 && !plain.dropout_memory) {
        args.dropout_seed = problem->dropout_seed;
        args.dropout_offset = problem->dropout_offset;
    }
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        if (oracle->stored[operand] && operand != ATTUNE_OPERAND_BLOCK_TABLE) {
            *conform_args_tensor(&args, (attune_operand)operand) = compact_view(
                problem, (attune_operand)operand, oracle->stored[operand], problem->tensor[operand].view.dtype);
        }
    }
    return args;
}

/* What backward takes besides forward's inputs. */
static void drop_backward_inputs(attune_attention_args *args) {
    memset(&args->dout, 0, sizeof args->dout);
    memset(&args->dlse, 0, sizeof args->dlse);
}

attune_status conform_oracle_forward(attune_device *cpu, struct conform_oracle *oracle) {
    const struct conform_problem *problem = oracle->problem;
    const struct conform_options *options = &problem->options;
    attune_attention_args args = plain_args(oracle);
    drop_backward_inputs(&args);
    args.kernel = "reference_forward";
    double *o = result_alloc(oracle, ATTUNE_OPERAND_O, conform_problem_count_compact(problem, ATTUNE_OPERAND_O));
    args.o = compact_view(problem, ATTUNE_OPERAND_O, o, ATTUNE_DTYPE_F64);
    int64_t batch = options->q.ragged ? 1 : options->batch;
    const int64_t lse_shape[] = {batch, options->heads_q, problem->rows_total};
    double *lse = result_alloc(oracle, ATTUNE_OPERAND_LSE, batch * options->heads_q * problem->rows_total);
    args.lse = attune_tensor_contiguous(lse, ATTUNE_DTYPE_F64, options->q.ragged ? 2 : 3,
                                        lse_shape + (options->q.ragged ? 1 : 0));
    const int64_t probs_shape[] = {options->batch, options->heads_q, problem->longest_rows, problem->longest_keys};
    double *probs =
        result_alloc(oracle, ATTUNE_OPERAND_PROBS, probs_shape[0] * probs_shape[1] * probs_shape[2] * probs_shape[3]);
    args.probs = attune_tensor_contiguous(probs, ATTUNE_DTYPE_F64, 4, probs_shape);
    return attune_forward(cpu, NULL, &args);
}

static attune_status run_backward(attune_device *cpu, struct conform_oracle *oracle) {
    const struct conform_problem *problem = oracle->problem;
    attune_attention_args args = plain_args(oracle);
    args.kernel = "reference_backward";
    for (int n = ATTUNE_OPERAND_DQ; n <= ATTUNE_OPERAND_DSINK; n++) {
        attune_operand operand = (attune_operand)n;
        if (conform_problem_has(problem, operand)) {
            double *result = result_alloc(oracle, operand, conform_problem_count_compact(problem, operand));
            *conform_args_tensor(&args, operand) = compact_view(problem, operand, result, ATTUNE_DTYPE_F64);
        }
    }
    return attune_backward(cpu, NULL, &args);
}

attune_status conform_oracle_run(attune_device *cpu, struct conform_problem *problem,
                                 struct conform_oracle *out_oracle) {
    bool backward = problem->options.op == ATTUNE_OP_BACKWARD;
    memset(out_oracle, 0, sizeof *out_oracle);
    out_oracle->problem = problem;
    for (int n = 0; n < CONFORM_OPERANDS; n++) {
        attune_operand operand = (attune_operand)n;
        bool is_forward_result = operand == ATTUNE_OPERAND_O || operand == ATTUNE_OPERAND_LSE;
        if (!conform_problem_writes(problem, operand) && !is_forward_result) {
            gather(out_oracle, operand);
        }
    }
    attune_status status = conform_oracle_forward(cpu, out_oracle);
    if (status != ATTUNE_OK || !backward) {
        return status;
    }
    conform_problem_fill_forward(problem, out_oracle->exact[ATTUNE_OPERAND_O], out_oracle->exact[ATTUNE_OPERAND_LSE]);
    gather(out_oracle, ATTUNE_OPERAND_O);
    gather(out_oracle, ATTUNE_OPERAND_LSE);
    return run_backward(cpu, out_oracle);
}

void conform_oracle_free(struct conform_oracle *oracle) {
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        free(oracle->stored[operand]);
        free(oracle->exact[operand]);
    }
    memset(oracle, 0, sizeof *oracle);
}
