/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/reference/head.h"

#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"

/* ---- What a head has ---- */

static struct reference_plane plane_of(const struct attune_cpu_run *run, attune_operand operand, int64_t batch,
                                       int64_t head) {
    if (!attune_reference_has(run, operand)) {
        return (struct reference_plane){0};
    }
    return (struct reference_plane){
        .first = attune_reference_address(run, operand, batch, head, 0),
        .dtype = run->problem->operand[operand].dtype,
        .stride_row_bytes = attune_reference_stride_bytes(run, operand, 2),
        .stride_key_bytes = attune_reference_stride_bytes(run, operand, 3),
    };
}

static const char *plane_at(const struct reference_plane *plane, int64_t i, int64_t j) {
    return plane->first + i * plane->stride_row_bytes + j * plane->stride_key_bytes;
}

static attune_dropout dropout_of(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const attune_bindings *bindings = run->bindings;
    attune_dropout dropout = {
        .seed = bindings->dropout_seed,
        .offset = bindings->dropout_offset,
        .threshold = attune_dropout_threshold(problem->dropout_rate),
        .batch_origin = problem->batch_origin,
        .head_origin = problem->head_origin,
        .row_origin = problem->row_origin,
        .key_origin = problem->key_origin,
        .heads_total = problem->heads_total,
    };
    if (attune_reference_has(run, ATTUNE_OPERAND_DROPOUT_SEED)) {
        dropout.seed = *(const uint64_t *)attune_reference_address(run, ATTUNE_OPERAND_DROPOUT_SEED, 0, 0, 0);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DROPOUT_OFFSET)) {
        dropout.offset = *(const uint32_t *)attune_reference_address(run, ATTUNE_OPERAND_DROPOUT_OFFSET, 0, 0, 0);
    }
    return dropout;
}

static double f32_at(const struct attune_cpu_run *run, attune_operand operand, int64_t i0, int64_t i1, double absent) {
    return attune_reference_has(run, operand)
               ? (double)*(const float *)attune_reference_address(run, operand, i0, i1, 0)
               : absent;
}

struct reference_head attune_reference_head(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                                            int64_t head) {
    const attune_problem *problem = run->problem;
    return (struct reference_head){
        .run = run,
        .sequence = *sequence,
        .head = head,
        .head_kv = head / (problem->heads_q / problem->heads_kv),
        .slope = f32_at(run, ATTUNE_OPERAND_ALIBI_SLOPES, sequence->batch, head, 0.0),
        .sink = f32_at(run, ATTUNE_OPERAND_SINK, head, 0, -INFINITY),
        .bias = plane_of(run, ATTUNE_OPERAND_BIAS, sequence->batch, head),
        .mask = plane_of(run, ATTUNE_OPERAND_MASK, sequence->batch, head),
        .dropout = dropout_of(run),
    };
}

/* ---- Who sees whom ---- */

/* Whether the list of row i's block of rows has key j's block of keys. It strictly increases. */
static bool is_listed(const struct reference_head *head, int64_t i, int64_t j) {
    const struct attune_cpu_run *run = head->run;
    const int64_t block_row = i / run->problem->block_rows;
    const int64_t wanted = j / run->problem->block_keys;
    int64_t begin = attune_reference_integer(run, ATTUNE_OPERAND_BLOCK_ROW_PTR, head->head, block_row);
    int64_t end = attune_reference_integer(run, ATTUNE_OPERAND_BLOCK_ROW_PTR, head->head, block_row + 1);
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        const int64_t listed = attune_reference_integer(run, ATTUNE_OPERAND_BLOCK_COL_IDX, middle, 0);
        if (listed == wanted) {
            return true;
        }
        if (listed < wanted) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return false;
}

static bool is_visible(const struct reference_head *head, int64_t i, int64_t j) {
    return attune_mask_visible(head->sequence.mask, i, j) &&
           (head->mask.first == NULL || *plane_at(&head->mask, i, j) != 0) &&
           (head->run->problem->block_rows == 0 || is_listed(head, i, j));
}

/* ---- The score ---- */

double attune_reference_raw(const struct reference_head *head, double dot) {
    return head->run->bindings->scale * dot;
}

double attune_reference_score(const struct reference_head *head, int64_t i, int64_t j, double dot) {
    if (!is_visible(head, i, j)) {
        return -INFINITY;
    }
    const double softcap = head->run->problem->softcap;
    const double raw = attune_reference_raw(head, dot);
    double s = softcap > 0 ? softcap * tanh(raw / softcap) : raw;
    if (head->bias.first != NULL) {
        s += attune_reference_load(head->bias.dtype, plane_at(&head->bias, i, j), 0);
    }
    if (head->slope != 0) {
        s -= head->slope * fabs((double)(i + head->sequence.mask.shift - j));
    }
    return s;
}

double attune_reference_score_slope(const struct reference_head *head, double dot) {
    const double softcap = head->run->problem->softcap;
    if (softcap == 0) {
        return 1.0;
    }
    const double t = tanh(attune_reference_raw(head, dot) / softcap);
    return 1.0 - t * t;
}

/* ---- Dropout ---- */

double attune_reference_dropout_factor(const struct reference_head *head, int64_t i, int64_t j) {
    const double rate = head->run->problem->dropout_rate;
    if (rate == 0) {
        return 1.0;
    }
    return attune_dropout_keeps(head->dropout, head->sequence.batch, head->head, i, j) ? 1.0 / (1.0 - rate) : 0.0;
}
