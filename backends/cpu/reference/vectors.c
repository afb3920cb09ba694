/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/vectors.h"

#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/store.h"

static bool lies_with_keys(attune_operand operand) {
    return operand == ATTUNE_OPERAND_K || operand == ATTUNE_OPERAND_V || operand == ATTUNE_OPERAND_DK ||
           operand == ATTUNE_OPERAND_DV;
}

/* The block table is K's and V's alone. */
static bool is_paged(const struct attune_cpu_run *run, attune_operand operand) {
    return run->problem->page_size > 0 && (operand == ATTUNE_OPERAND_K || operand == ATTUNE_OPERAND_V);
}

static attune_operand descale_of(attune_operand operand) {
    switch (operand) {
    case ATTUNE_OPERAND_Q:
        return ATTUNE_OPERAND_DESCALE_Q;
    case ATTUNE_OPERAND_K:
        return ATTUNE_OPERAND_DESCALE_K;
    case ATTUNE_OPERAND_V:
        return ATTUNE_OPERAND_DESCALE_V;
    default:
        return ATTUNE_OPERAND_COUNT;
    }
}

/* q's descale is by key-value head too. */
static void find_descale(const struct attune_cpu_run *run, int64_t batch, attune_operand operand, int64_t head,
                         struct reference_vectors *vectors) {
    const attune_operand descale = descale_of(operand);
    if (descale == ATTUNE_OPERAND_COUNT || !attune_reference_has(run, descale)) {
        return;
    }
    const int64_t group = run->problem->heads_q / run->problem->heads_kv;
    const int64_t head_kv = operand == ATTUNE_OPERAND_Q ? head / group : head;
    vectors->descale = attune_reference_address(run, descale, batch, head_kv, 0);
    vectors->descale_stride_bytes = attune_reference_stride_bytes(run, descale, 2);
}

struct reference_vectors attune_reference_vectors(const struct attune_cpu_run *run,
                                                  const struct reference_sequence *sequence, attune_operand operand,
                                                  int64_t head) {
    const attune_layout *layout = &run->problem->operand[operand];
    struct reference_vectors vectors = {.dtype = layout->dtype, .length = layout->shape[3]};
    vectors.stride_bytes = attune_reference_stride_bytes(run, operand, 1);
    if (is_paged(run, operand)) {
        vectors.first = attune_reference_address(run, operand, 0, 0, head);
        vectors.page_size = run->problem->page_size;
        vectors.page_stride_bytes = attune_reference_stride_bytes(run, operand, 0);
        vectors.table = attune_reference_address(run, ATTUNE_OPERAND_BLOCK_TABLE, sequence->batch, 0, 0);
        vectors.table_stride_bytes = attune_reference_stride_bytes(run, ATTUNE_OPERAND_BLOCK_TABLE, 1);
    } else {
        const int64_t begin = lies_with_keys(operand) ? sequence->first_key : sequence->first_row;
        vectors.first = attune_reference_address(run, operand, sequence->batch, begin, head);
    }
    find_descale(run, sequence->batch, operand, head, &vectors);
    return vectors;
}

char *attune_reference_vector_address(const struct reference_vectors *vectors, int64_t position) {
    if (vectors->table == NULL) {
        return vectors->first + position * vectors->stride_bytes;
    }
    const char *entry = vectors->table + position / vectors->page_size * vectors->table_stride_bytes;
    const int64_t page = *(const int32_t *)entry;
    const int64_t slot = position % vectors->page_size;
    return vectors->first + page * vectors->page_stride_bytes + slot * vectors->stride_bytes;
}

double attune_reference_descale(const struct reference_vectors *vectors, int64_t position) {
    if (vectors->descale == NULL) {
        return 1.0;
    }
    /* One for each 128 positions, whatever the page size; the stride is 0 where one serves all. */
    return (double)*(const float *)(vectors->descale + position / 128 * vectors->descale_stride_bytes);
}

void attune_reference_vector_load(const struct reference_vectors *vectors, int64_t position, double *out) {
    attune_reference_load_all(vectors->dtype, attune_reference_vector_address(vectors, position), vectors->length, out);
    if (vectors->descale != NULL) {
        const double descale = attune_reference_descale(vectors, position);
        for (int64_t d = 0; d < vectors->length; d++) {
            out[d] *= descale;
        }
    }
}

void attune_reference_vector_store(const struct reference_vectors *vectors, int64_t position, const double *values) {
    char *array = attune_reference_vector_address(vectors, position);
    for (int64_t d = 0; d < vectors->length; d++) {
        attune_reference_store(vectors->dtype, array, d, values[d]);
    }
}
