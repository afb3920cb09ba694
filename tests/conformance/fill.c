/*
 * Writes a problem's buffers: poison, inputs, and whose each byte is.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "number.h"
#include "problem.h"
#include "random.h"
#include "values.h"

#define POISON 0xFF

struct filler {
    struct conform_problem *problem;
    attune_operand operand;
    attune_dtype dtype;
    size_t size;
    struct conform_buffer *buffer;
    const double *compact; /* values by compact index; NULL: drawn */
};

static bool is_float(attune_dtype dtype) {
    return dtype == ATTUNE_DTYPE_F32 || dtype == ATTUNE_DTYPE_F16 || dtype == ATTUNE_DTYPE_BF16 ||
           dtype == ATTUNE_DTYPE_E4M3;
}

static struct filler filler_make(struct conform_problem *problem, attune_operand operand) {
    const struct conform_tensor *tensor = &problem->tensor[operand];
    struct filler filler = {problem, operand, tensor->view.dtype, attune_dtype_size_bytes(tensor->view.dtype),
                            NULL,    NULL};
    filler.buffer = tensor->buffer >= 0 ? &problem->buffer[tensor->buffer] : NULL;
    return filler;
}

static void store_integer(uint8_t *bytes, size_t size, uint64_t value) {
    uint8_t narrow8 = (uint8_t)value;
    uint32_t narrow32 = (uint32_t)value;
    memcpy(bytes, size == 1 ? (void *)&narrow8 : size == 4 ? (void *)&narrow32 : (void *)&value, size);
}

static void fill_input(void *context, const struct conform_element *element) {
    const struct filler *filler = context;
    if (element->in_no_sequence) {
        return;
    }
    uint8_t *bytes = filler->buffer->image + element->byte;
    memset(filler->buffer->owner + element->byte, CONFORM_OWNER_INPUT, filler->size);
    if (filler->compact) {
        conform_number_store(filler->dtype, filler->compact[element->compact], bytes);
    } else if (is_float(filler->dtype)) {
        conform_number_store(filler->dtype, conform_value(filler->problem, filler->operand, element), bytes);
    } else {
        store_integer(bytes, filler->size, conform_value_integer(filler->problem, filler->operand, element));
    }
}

static void mark_output(void *context, const struct conform_element *element) {
    const struct filler *filler = context;
    if (element->in_no_sequence) {
        memset(filler->buffer->owner + element->byte, CONFORM_OWNER_EITHER, filler->size);
        return;
    }
    memset(filler->buffer->owner + element->byte, CONFORM_OWNER_OUTPUT, filler->size);
    if (!filler->buffer->filled) {
        memset(filler->buffer->image + element->byte, POISON, filler->size);
    }
}

bool conform_problem_has(const struct conform_problem *problem, attune_operand operand) {
    return problem->tensor[operand].view.dtype != ATTUNE_DTYPE_NONE;
}

bool conform_problem_writes(const struct conform_problem *problem, attune_operand operand) {
    if (problem->options.op == ATTUNE_OP_BACKWARD) {
        return operand >= ATTUNE_OPERAND_DQ && operand <= ATTUNE_OPERAND_DSINK;
    }
    return operand >= ATTUNE_OPERAND_O && operand <= ATTUNE_OPERAND_PROBS;
}

static void allocate_buffers(struct conform_problem *problem) {
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        int buffer = problem->tensor[operand].buffer;
        if (buffer >= 0 && !conform_problem_writes(problem, (attune_operand)operand)) {
            problem->buffer[buffer].filled = true;
        }
    }
    for (int n = 0; n < problem->buffer_count; n++) {
        struct conform_buffer *buffer = &problem->buffer[n];
        buffer->image = conform_alloc(buffer->size_bytes, 1);
        buffer->owner = conform_alloc(buffer->size_bytes, 1);
        for (uint64_t byte = 0; byte < buffer->size_bytes; byte++) {
            buffer->image[byte] = buffer->filled ? POISON : (uint8_t)(byte * 37 + (byte >> 8) * 11 + 1);
        }
    }
}

void conform_problem_fill(struct conform_problem *problem) {
    allocate_buffers(problem);
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        struct filler filler = filler_make(problem, (attune_operand)operand);
        bool is_part = operand == ATTUNE_OPERAND_V && problem->options.family == CONFORM_FAMILY_V_IN_K;
        bool is_forward =
            problem->options.op == ATTUNE_OP_BACKWARD && (operand == ATTUNE_OPERAND_O || operand == ATTUNE_OPERAND_LSE);
        if (!conform_problem_writes(problem, (attune_operand)operand) && !is_part && !is_forward) {
            conform_problem_visit(problem, (attune_operand)operand, fill_input, &filler);
        }
    }
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        struct filler filler = filler_make(problem, (attune_operand)operand);
        if (conform_problem_writes(problem, (attune_operand)operand)) {
            conform_problem_visit(problem, (attune_operand)operand, mark_output, &filler);
        }
    }
}

void conform_problem_fill_forward(struct conform_problem *problem, const double *o, const double *lse) {
    struct filler filler = filler_make(problem, ATTUNE_OPERAND_O);
    filler.compact = o;
    conform_problem_visit(problem, ATTUNE_OPERAND_O, fill_input, &filler);
    filler = filler_make(problem, ATTUNE_OPERAND_LSE);
    filler.compact = lse;
    conform_problem_visit(problem, ATTUNE_OPERAND_LSE, fill_input, &filler);
}

void conform_problem_set_stale(struct conform_problem *problem, enum conform_stale which, double value) {
    for (int n = 0; n < problem->buffer_count; n++) {
        struct conform_buffer *buffer = &problem->buffer[n];
        bool is_k = n == problem->tensor[ATTUNE_OPERAND_K].buffer;
        bool is_v = n == problem->tensor[ATTUNE_OPERAND_V].buffer;
        bool wanted =
            which == CONFORM_STALE_ALL || (is_k && which == CONFORM_STALE_K) || (is_v && which == CONFORM_STALE_V);
        size_t size = attune_dtype_size_bytes(buffer->dtype);
        for (uint64_t byte = 0;
             wanted && buffer->filled && is_float(buffer->dtype) && byte + size <= buffer->size_bytes; byte += size) {
            if (buffer->owner[byte] == CONFORM_OWNER_NONE) {
                conform_number_store(buffer->dtype, value, buffer->image + byte);
            }
        }
    }
}

struct multiplier {
    struct filler filler;
    double factor;
};

static void multiply_element(void *context, const struct conform_element *element) {
    const struct multiplier *multiplier = context;
    uint8_t *bytes = multiplier->filler.buffer->image + element->byte;
    if (!element->in_no_sequence) {
        double value = conform_number_load(multiplier->filler.dtype, bytes);
        conform_number_store(multiplier->filler.dtype, value * multiplier->factor, bytes);
    }
}

void conform_problem_multiply(struct conform_problem *problem, attune_operand operand, double factor) {
    struct multiplier multiplier = {filler_make(problem, operand), factor};
    conform_problem_visit(problem, operand, multiply_element, &multiplier);
}

void conform_problem_set_integer(struct conform_problem *problem, attune_operand operand, int64_t entry,
                                 int32_t value) {
    const struct conform_tensor *tensor = &problem->tensor[operand];
    uint8_t *bytes = problem->buffer[tensor->buffer].image + tensor->view.byte_offset;
    memcpy(bytes + (uint64_t)entry * sizeof value, &value, sizeof value);
}
