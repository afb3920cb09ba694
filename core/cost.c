/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cost.h"

#include "attune/backend_util.h"
#include "core/tile.h"

/* ---- Pairs and operations ---- */

#define FEATURES_OF_BOUND                                                                                              \
    (ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K |         \
     ATTUNE_FEATURE_LEFTPAD_K | ATTUNE_FEATURE_MASK | ATTUNE_FEATURE_BLOCK_SPARSE)

/* Backward has five products where forward has two (arXiv 2307.08691, section 3.1). */
#define BACKWARD_FACTOR 2.5
/* Four multiplications and two additions turn a pair of elements. */
#define ROTARY_FLOPS_PER_ELEMENT 3.0

static double minimum(double a, double b) {
    return a < b ? a : b;
}

/* Every sequence at its longest, but in packed batches no more than all rows by all the keys of one, and the reverse:
 * making a sequence longer never takes a pair away. */
static double count_pairs(const attune_problem *problem) {
    const attune_mask longest = attune_mask_longest(problem);
    double pairs = (double)problem->batch * attune_mask_pairs(&longest);
    if ((problem->features & ATTUNE_FEATURE_VARLEN_Q) != 0) {
        double rows_total = (double)problem->operand[ATTUNE_OPERAND_Q].shape[1];
        pairs = minimum(pairs, rows_total * (double)problem->keys);
    }
    if ((problem->features & ATTUNE_FEATURE_VARLEN_K) != 0) {
        double keys_total = (double)problem->operand[ATTUNE_OPERAND_K].shape[1];
        pairs = minimum(pairs, keys_total * (double)problem->rows);
    }
    return pairs * (double)problem->heads_q;
}

static double elements(const attune_problem *problem, attune_operand operand) {
    return (double)attune_layout_elements(&problem->operand[operand]);
}

static double count_flops(const attune_problem *problem, double pairs) {
    double products = 2 * pairs * (double)(problem->head_dim + problem->head_dim_v);
    switch (problem->op) {
    case ATTUNE_OP_FORWARD:
        return products;
    case ATTUNE_OP_BACKWARD:
        return BACKWARD_FACTOR * products;
    case ATTUNE_OP_APPEND: {
        double rotated = elements(problem, ATTUNE_OPERAND_K_NEW) + elements(problem, ATTUNE_OPERAND_Q);
        double share = problem->head_dim > 0 ? (double)problem->rotary_dim / (double)problem->head_dim : 0;
        return ROTARY_FLOPS_PER_ELEMENT * share * rotated;
    }
    case ATTUNE_OP_MERGE:
        return 2 * (double)problem->parts * elements(problem, ATTUNE_OPERAND_PART_O);
    case ATTUNE_OP_QUANTIZE:
        return elements(problem, ATTUNE_OPERAND_X);
    }
    return 0;
}

/* ---- Bytes ---- */

/* Elements that lie in different places: a broadcast axis counts once. */
static double distinct_elements(const attune_layout *layout) {
    double count = 1;
    for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
        bool is_broadcast = layout->stride[axis] == 0 && layout->shape[axis] > 0;
        count *= is_broadcast ? 1 : (double)layout->shape[axis];
    }
    return count;
}

/* How often an operand's layout is there. */
static int64_t copies(const attune_problem *problem, attune_operand operand) {
    return operand == ATTUNE_OPERAND_PART_O || operand == ATTUNE_OPERAND_PART_LSE ? problem->parts : 1;
}

/* Elements of an operand that a run touches at most. */
static double moved_elements(const attune_problem *problem, attune_operand operand) {
    const attune_layout *layout = &problem->operand[operand];
    double count = distinct_elements(layout) * (double)copies(problem, operand);
    if (operand != ATTUNE_OPERAND_K && operand != ATTUNE_OPERAND_V) {
        return count;
    }
    if (problem->op == ATTUNE_OP_APPEND) {
        return elements(problem, operand == ATTUNE_OPERAND_K ? ATTUNE_OPERAND_K_NEW : ATTUNE_OPERAND_V_NEW);
    }
    if (problem->page_size > 0) {
        double positions = (double)problem->batch * (double)problem->keys;
        return minimum(count, positions * (double)layout->shape[2] * (double)layout->shape[3]);
    }
    return count;
}

static uint64_t tensor_bytes(const attune_problem *problem) {
    uint64_t total = 0;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const attune_layout *layout = &problem->operand[operand];
        double bytes = distinct_elements(layout) * (double)copies(problem, (attune_operand)operand) *
                       (double)attune_dtype_size_bytes(layout->dtype);
        /* 2^63 and more can be no memory; below, the conversion is defined. */
        if (bytes >= 9223372036854775808.0 || !attune_add_checked(total, (uint64_t)bytes, &total)) {
            return UINT64_MAX;
        }
    }
    return total;
}

void attune_cost_estimate(const attune_problem *problem, struct attune_cost *out_cost) {
    bool has_pairs = problem->op == ATTUNE_OP_FORWARD || problem->op == ATTUNE_OP_BACKWARD;
    out_cost->visible_pairs = has_pairs ? count_pairs(problem) : 0;
    out_cost->pairs_are_bound = has_pairs && (problem->features & FEATURES_OF_BOUND) != 0;
    out_cost->flops = count_flops(problem, out_cost->visible_pairs);
    out_cost->bytes = 0;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        out_cost->bytes += moved_elements(problem, (attune_operand)operand) *
                           (double)attune_dtype_size_bytes(problem->operand[operand].dtype);
    }
    out_cost->tensor_bytes = tensor_bytes(problem);
}

void attune_roofline_estimate(const struct attune_cost *cost, const attune_device_limits *limits,
                              struct attune_roofline *out_roofline) {
    out_roofline->intensity = cost->bytes > 0 ? cost->flops / cost->bytes : 0;
    out_roofline->seconds = 0;
    out_roofline->compute_bound = false;
    if (limits->peak_flops <= 0 || limits->peak_bytes_per_second <= 0) {
        return;
    }
    double compute = cost->flops / limits->peak_flops;
    double transfer = cost->bytes / limits->peak_bytes_per_second;
    out_roofline->compute_bound = compute > transfer;
    out_roofline->seconds = compute > transfer ? compute : transfer;
}
