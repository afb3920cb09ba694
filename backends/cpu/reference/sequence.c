/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/sequence.h"

#include "backends/cpu/reference/operand.h"

int64_t attune_reference_integer(const struct attune_cpu_run *run, attune_operand operand, int64_t i0, int64_t i1) {
    return *(const int32_t *)attune_reference_address(run, operand, i0, i1, 0);
}

bool attune_reference_has_position(const struct attune_cpu_run *run, int64_t position, int64_t capacity) {
    const int64_t positions = run->problem->operand[ATTUNE_OPERAND_ROTARY_COS].shape[0];
    return position >= 0 && position < capacity && (run->problem->rotary_dim == 0 || position < positions);
}

/* One side's length and begin. A length that lies (ATTUNE_CHECK finds it) is cut to the capacity, which the workspace
 * was measured by. */
static int64_t length_of(const struct attune_cpu_run *run, attune_operand cu_seqlens, attune_operand seqused,
                         int64_t capacity, int64_t batch, int64_t *out_first) {
    int64_t length = capacity;
    *out_first = 0;
    if (attune_reference_has(run, cu_seqlens)) {
        *out_first = attune_reference_integer(run, cu_seqlens, batch, 0);
        length = attune_reference_integer(run, cu_seqlens, batch + 1, 0) - *out_first;
    }
    if (attune_reference_has(run, seqused)) {
        length = attune_reference_integer(run, seqused, batch, 0);
    }
    return attune_clamp(length, 0, capacity);
}

struct reference_sequence attune_reference_sequence(const struct attune_cpu_run *run, int64_t batch) {
    const attune_problem *problem = run->problem;
    struct reference_sequence sequence = {.batch = batch};
    attune_mask *mask = &sequence.mask;
    mask->rows = length_of(run, ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_OPERAND_SEQUSED_Q, problem->rows, batch,
                           &sequence.first_row);
    mask->keys = length_of(run, ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_OPERAND_SEQUSED_K, problem->keys, batch,
                           &sequence.first_key);
    if (attune_reference_has(run, ATTUNE_OPERAND_LEFTPAD_K)) {
        mask->leftpad = attune_clamp(attune_reference_integer(run, ATTUNE_OPERAND_LEFTPAD_K, batch, 0), 0, mask->keys);
    }
    const int64_t diagonal = problem->align == ATTUNE_ALIGN_DIAGONAL ? problem->diagonal : 0;
    mask->shift = attune_mask_shift(problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT, diagonal, mask->rows, mask->keys);
    mask->left = problem->window_left;
    mask->right = problem->window_right;
    return sequence;
}
