/*
 * Walks through the elements of a tensor that belong to a sequence.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "problem.h"

struct walk {
    const struct conform_problem *problem;
    const struct conform_tensor *tensor;
    uint64_t element_bytes;
    conform_element_fn visit;
    void *context;
};

static uint64_t byte_at(const struct walk *walk, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const int64_t *stride = walk->tensor->stride;
    int64_t element = i0 * stride[0] + i1 * stride[1] + i2 * stride[2] + i3 * stride[3];
    return walk->tensor->view.byte_offset + (uint64_t)element * walk->element_bytes;
}

/* ---- (b, s, h, d) ---- */

static void walk_token(const struct walk *walk, int64_t b, int64_t s, int64_t batch, int64_t token,
                       int64_t compact_token) {
    const int64_t *extent = walk->tensor->extent;
    for (int64_t h = 0; h < extent[2]; h++) {
        struct conform_element element = {{b, s, h, 0}, 0, (compact_token * extent[2] + h) * extent[3], false};
        uint64_t byte = byte_at(walk, batch, token, h, 0);
        for (int64_t d = 0; d < extent[3]; d++) {
            element.axis[3] = d;
            element.byte = byte + (uint64_t)d * walk->element_bytes;
            walk->visit(walk->context, &element);
            element.compact++;
        }
    }
}

static void walk_rows(const struct walk *walk) {
    const struct conform_problem *problem = walk->problem;
    bool ragged = problem->options.q.ragged;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        const struct conform_sequence *sequence = &problem->sequence[b];
        for (int64_t i = 0; i < sequence->rows; i++) {
            int64_t token = sequence->row_first + i;
            walk_token(walk, b, i, ragged ? 0 : b, token, ragged ? token : b * problem->rows_total + i);
        }
    }
}

static void walk_keys(const struct walk *walk) {
    const struct conform_problem *problem = walk->problem;
    const struct conform_options *options = &problem->options;
    for (int64_t b = 0; b < options->batch; b++) {
        const struct conform_sequence *sequence = &problem->sequence[b];
        for (int64_t j = sequence->leftpad; j < sequence->keys; j++) {
            int64_t token = sequence->key_first + j;
            int64_t compact = options->k.ragged ? token : b * problem->keys_total + j;
            if (options->page_size == 0) {
                walk_token(walk, b, j, options->k.ragged ? 0 : b, token, compact);
                continue;
            }
            int64_t page = problem->block_table[b * problem->columns + j / options->page_size];
            if (page >= 0 && page < problem->pages) { /* others are garbage in place of a page that no row sees */
                walk_token(walk, b, j, page, j % options->page_size, compact);
            }
        }
    }
}

/* ---- (b, h, s) ---- */

static void walk_row_scalars(const struct walk *walk) {
    const struct conform_problem *problem = walk->problem;
    bool ragged = problem->options.q.ragged;
    int64_t heads = problem->options.heads_q;
    for (int64_t b = 0; b < problem->options.batch; b++) {
        const struct conform_sequence *sequence = &problem->sequence[b];
        for (int64_t h = 0; h < heads; h++) {
            int64_t line = ragged ? h : b * heads + h;
            for (int64_t i = 0; i < sequence->rows; i++) {
                int64_t token = sequence->row_first + i;
                struct conform_element element = {{b, h, i, 0},
                                                  byte_at(walk, ragged ? 0 : b, h, token, 0),
                                                  line * problem->rows_total + token,
                                                  false};
                walk->visit(walk->context, &element);
            }
        }
    }
}

/* ---- (b, h, i, j), broadcast ---- */

static bool pair_exists(const struct conform_sequence *sequence, bool one_row, int64_t i, bool one_key, int64_t j) {
    bool row = one_row ? sequence->rows > 0 : i < sequence->rows;
    bool key = one_key ? sequence->keys > sequence->leftpad : j >= sequence->leftpad && j < sequence->keys;
    return row && key;
}

/* Whether no sequence has a pair to which the element is broadcast. */
static bool is_outside(const struct walk *walk, int64_t b, int64_t i, int64_t j) {
    const struct conform_problem *problem = walk->problem;
    const int64_t *extent = walk->tensor->extent;
    bool one_row = extent[2] == 1;
    bool one_key = extent[3] == 1;
    if (extent[0] > 1 || problem->options.batch == 1) {
        return !pair_exists(&problem->sequence[b], one_row, i, one_key, j);
    }
    for (int64_t n = 0; n < problem->options.batch; n++) {
        if (pair_exists(&problem->sequence[n], one_row, i, one_key, j)) {
            return false;
        }
    }
    return true;
}

static void walk_pairs(const struct walk *walk) {
    const int64_t *extent = walk->tensor->extent;
    int64_t compact = 0;
    for (int64_t b = 0; b < extent[0]; b++) {
        for (int64_t h = 0; h < extent[1]; h++) {
            for (int64_t i = 0; i < extent[2]; i++) {
                for (int64_t j = 0; j < extent[3]; j++) {
                    struct conform_element element = {
                        {b, h, i, j}, byte_at(walk, b, h, i, j), compact++, is_outside(walk, b, i, j)};
                    walk->visit(walk->context, &element);
                }
            }
        }
    }
}

/* ---- Vectors and tables ---- */

/* A descale whose block of 128 positions no sequence reaches. */
static bool is_descale_outside(const struct walk *walk, attune_operand operand, int64_t b, int64_t block) {
    if (walk->problem->options.descale != CONFORM_DESCALE_BLOCKS || operand < ATTUNE_OPERAND_DESCALE_Q ||
        operand > ATTUNE_OPERAND_DESCALE_V) {
        return false;
    }
    const struct conform_sequence *sequence = &walk->problem->sequence[b];
    if (operand == ATTUNE_OPERAND_DESCALE_Q) {
        return block * 128 >= sequence->rows;
    }
    return block * 128 >= sequence->keys || (block + 1) * 128 <= sequence->leftpad;
}

static void walk_plain(const struct walk *walk, attune_operand operand) {
    const int64_t *extent = walk->tensor->extent;
    int64_t compact = 0;
    for (int64_t n = 0; n < extent[0]; n++) {
        for (int64_t m = 0; m < extent[1]; m++) {
            for (int64_t l = 0; l < extent[2]; l++) {
                struct conform_element element = {
                    {n, m, l, 0}, byte_at(walk, n, m, l, 0), compact++, is_descale_outside(walk, operand, n, l)};
                walk->visit(walk->context, &element);
            }
        }
    }
}

void conform_problem_visit(const struct conform_problem *problem, attune_operand operand, conform_element_fn visit,
                           void *context) {
    const struct conform_tensor *tensor = &problem->tensor[operand];
    if (tensor->buffer < 0) {
        return;
    }
    struct walk walk = {problem, tensor, attune_dtype_size_bytes(tensor->view.dtype), visit, context};
    switch (operand) {
    case ATTUNE_OPERAND_Q:
    case ATTUNE_OPERAND_O:
    case ATTUNE_OPERAND_DOUT:
    case ATTUNE_OPERAND_DQ:
        walk_rows(&walk);
        break;
    case ATTUNE_OPERAND_K:
    case ATTUNE_OPERAND_V:
    case ATTUNE_OPERAND_DK:
    case ATTUNE_OPERAND_DV:
        walk_keys(&walk);
        break;
    case ATTUNE_OPERAND_LSE:
    case ATTUNE_OPERAND_DLSE:
        walk_row_scalars(&walk);
        break;
    case ATTUNE_OPERAND_PROBS:
    case ATTUNE_OPERAND_DBIAS:
    case ATTUNE_OPERAND_BIAS:
    case ATTUNE_OPERAND_MASK:
        walk_pairs(&walk);
        break;
    default:
        walk_plain(&walk, operand);
        break;
    }
}

int64_t conform_problem_count_compact(const struct conform_problem *problem, attune_operand operand) {
    const int64_t *extent = problem->tensor[operand].extent;
    bool keys = operand == ATTUNE_OPERAND_K || operand == ATTUNE_OPERAND_V;
    if (keys && problem->options.page_size > 0) {
        return problem->options.batch * problem->longest_keys * extent[2] * extent[3];
    }
    return extent[0] * extent[1] * extent[2] * extent[3];
}
