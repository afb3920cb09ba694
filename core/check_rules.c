/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/check_rules.h"

#include <inttypes.h>

#include "attune/backend_util.h"
#include "core/operand.h"
#include "core/status_internal.h"

static int64_t read_value(const attune_problem *problem, const struct attune_tables *tables, attune_operand operand,
                          int64_t i, int64_t j) {
    const attune_layout *layout = &problem->operand[operand];
    return tables->values[operand][i * layout->stride[0] + j * layout->stride[1]];
}

static attune_status fail_value(const attune_problem *problem, attune_operand operand, int64_t i, int64_t value,
                                int64_t low, int64_t high, const char *meaning) {
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s[%" PRId64 "] = %" PRId64 ": must be %" PRId64 " to %" PRId64 ", %s",
                       attune_operand_name(problem->op, operand), i, value, low, high, meaning);
}

/* ---- Lengths of sequences ---- */

/* One of the two sides of attention. */
struct side {
    attune_operand data;
    attune_operand offsets;
    attune_operand used;
};
static const struct side side_q = {ATTUNE_OPERAND_Q, ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_OPERAND_SEQUSED_Q};
static const struct side side_k = {ATTUNE_OPERAND_K, ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_OPERAND_SEQUSED_K};

/* Rows or keys that a sequence has room for; seqused makes it shorter. */
static int64_t find_room(const attune_problem *problem, const struct attune_tables *tables, const struct side *side,
                         int64_t batch) {
    if (tables->values[side->offsets] == NULL) {
        return side == &side_q ? problem->rows : problem->keys;
    }
    return read_value(problem, tables, side->offsets, batch + 1, 0) -
           read_value(problem, tables, side->offsets, batch, 0);
}

static int64_t find_length(const attune_problem *problem, const struct attune_tables *tables, const struct side *side,
                           int64_t batch) {
    return tables->values[side->used] == NULL ? find_room(problem, tables, side, batch)
                                              : read_value(problem, tables, side->used, batch, 0);
}

static attune_status check_offsets(const attune_problem *problem, const struct attune_tables *tables,
                                   const struct side *side) {
    if (tables->values[side->offsets] == NULL) {
        return ATTUNE_OK;
    }
    int64_t longest = side == &side_q ? problem->rows : problem->keys;
    int64_t total = problem->operand[side->data].shape[1];
    int64_t before = 0;
    for (int64_t n = 0; n <= problem->batch; n++) {
        int64_t offset = read_value(problem, tables, side->offsets, n, 0);
        if (offset < before || offset > total) {
            return fail_value(problem, side->offsets, n, offset, before, total,
                              n == 0 ? "the packed rows" : "from the offset before it to the packed rows");
        }
        if (n > 0 && offset - before > longest) {
            return fail_value(problem, side->offsets, n, offset, before, before + longest,
                              "no sequence being longer than max_seqlen");
        }
        before = offset;
    }
    return ATTUNE_OK;
}

static attune_status check_lengths(const attune_problem *problem, const struct attune_tables *tables,
                                   const struct side *side) {
    for (int64_t b = 0; tables->values[side->used] != NULL && b < problem->batch; b++) {
        int64_t length = read_value(problem, tables, side->used, b, 0);
        int64_t room = find_room(problem, tables, side, b);
        if (length < 0 || length > room) {
            return fail_value(problem, side->used, b, length, 0, room, "what the sequence has room for");
        }
    }
    return ATTUNE_OK;
}

/* More than a sequence is long leaves no key: that is no lie. */
static attune_status check_leftpad(const attune_problem *problem, const struct attune_tables *tables) {
    for (int64_t b = 0; tables->values[ATTUNE_OPERAND_LEFTPAD_K] != NULL && b < problem->batch; b++) {
        int64_t leftpad = read_value(problem, tables, ATTUNE_OPERAND_LEFTPAD_K, b, 0);
        if (leftpad < 0 || leftpad > problem->keys) {
            return fail_value(problem, ATTUNE_OPERAND_LEFTPAD_K, b, leftpad, 0, problem->keys, "the maximal Sk");
        }
    }
    return ATTUNE_OK;
}

/* ---- Pages ---- */

static attune_status check_pages(const attune_problem *problem, const struct attune_tables *tables, int64_t batch,
                                 int64_t first, int64_t end) {
    int64_t pages = problem->operand[ATTUNE_OPERAND_K].shape[0];
    if (first >= end) {
        return ATTUNE_OK;
    }
    for (int64_t column = first / problem->page_size; column <= (end - 1) / problem->page_size; column++) {
        int64_t page = read_value(problem, tables, ATTUNE_OPERAND_BLOCK_TABLE, batch, column);
        if (page < 0 || page >= pages) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "block_table[%" PRId64 ", %" PRId64 "] = %" PRId64 ": must be less than the %" PRId64
                               " pages, and 0 or more, where positions %" PRId64 " to %" PRId64 " are used",
                               batch, column, page, pages, first, end - 1);
        }
    }
    return ATTUNE_OK;
}

/* The keys that some row of a sequence may see, by lengths, left padding and window. */
static void find_seen_keys(const attune_problem *problem, const struct attune_tables *tables, int64_t batch,
                           int64_t *out_first, int64_t *out_end) {
    int64_t rows = find_length(problem, tables, &side_q, batch);
    int64_t keys = find_length(problem, tables, &side_k, batch);
    int64_t shift = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT ? keys - rows
                    : problem->align == ATTUNE_ALIGN_DIAGONAL   ? problem->diagonal
                                                                : 0;
    int64_t first = 0;
    int64_t end = rows > 0 ? keys : 0;
    if (tables->values[ATTUNE_OPERAND_LEFTPAD_K] != NULL) {
        first = read_value(problem, tables, ATTUNE_OPERAND_LEFTPAD_K, batch, 0);
    }
    if (problem->window_left >= 0) {
        first = attune_max(first, shift - problem->window_left);
    }
    if (problem->window_right >= 0) {
        end = attune_min(end, rows + shift + problem->window_right);
    }
    *out_first = first;
    *out_end = end;
}

/* ---- Block-sparse patterns ---- */

static attune_status check_block_row(const attune_problem *problem, const struct attune_tables *tables, int64_t first,
                                     int64_t end) {
    int64_t blocks = attune_ceil_div(problem->keys, problem->block_keys);
    int64_t before = -1;
    for (int64_t n = first; n < end; n++) {
        int64_t block = read_value(problem, tables, ATTUNE_OPERAND_BLOCK_COL_IDX, n, 0);
        if (block <= before || block >= blocks) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "block_col_idx[%" PRId64 "] = %" PRId64 ": must be more than %" PRId64
                               " (the one before it in its row, or -1), and less than the %" PRId64 " blocks of keys",
                               n, block, before, blocks);
        }
        before = block;
    }
    return ATTUNE_OK;
}

static attune_status check_pattern(const attune_problem *problem, const struct attune_tables *tables, int64_t head) {
    int64_t entries = problem->operand[ATTUNE_OPERAND_BLOCK_ROW_PTR].shape[1];
    int64_t named = problem->operand[ATTUNE_OPERAND_BLOCK_COL_IDX].shape[0];
    int64_t before = 0;
    for (int64_t n = 0; n < entries; n++) {
        int64_t offset = read_value(problem, tables, ATTUNE_OPERAND_BLOCK_ROW_PTR, head, n);
        if (offset < before || offset > named) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "block_row_ptr[%" PRId64 ", %" PRId64 "] = %" PRId64 ": must be %" PRId64
                               " (what comes before it) to %" PRId64 ", the size of block_col_idx",
                               head, n, offset, before, named);
        }
        attune_status status = n == 0 ? ATTUNE_OK : check_block_row(problem, tables, before, offset);
        if (status != ATTUNE_OK) {
            return status;
        }
        before = offset;
    }
    return ATTUNE_OK;
}

/* ---- Operations ---- */

static attune_status check_attention(const attune_problem *problem, const struct attune_tables *tables) {
    attune_status status = check_offsets(problem, tables, &side_q);
    if (status == ATTUNE_OK) {
        status = check_offsets(problem, tables, &side_k);
    }
    if (status == ATTUNE_OK) {
        status = check_lengths(problem, tables, &side_q);
    }
    if (status == ATTUNE_OK) {
        status = check_lengths(problem, tables, &side_k);
    }
    if (status == ATTUNE_OK) {
        status = check_leftpad(problem, tables);
    }
    for (int64_t b = 0; status == ATTUNE_OK && problem->page_size > 0 && b < problem->batch; b++) {
        int64_t first;
        int64_t end;
        find_seen_keys(problem, tables, b, &first, &end);
        status = check_pages(problem, tables, b, first, end);
    }
    int64_t heads = problem->block_rows > 0 ? problem->operand[ATTUNE_OPERAND_BLOCK_ROW_PTR].shape[0] : 0;
    for (int64_t head = 0; status == ATTUNE_OK && head < heads; head++) {
        status = check_pattern(problem, tables, head);
    }
    return status;
}

static attune_status check_append(const attune_problem *problem, const struct attune_tables *tables) {
    int64_t rows_q = problem->operand[ATTUNE_OPERAND_Q].shape[1]; /* 0: absent */
    int64_t turned = problem->rotary_dim > 0 ? attune_max(problem->rows, rows_q) : 0;
    int64_t room = problem->keys - problem->rows;
    int64_t room_to_turn = problem->operand[ATTUNE_OPERAND_ROTARY_COS].shape[0] - turned;
    for (int64_t b = 0; tables->values[ATTUNE_OPERAND_SEQUSED_K] != NULL && b < problem->batch; b++) {
        int64_t used = read_value(problem, tables, ATTUNE_OPERAND_SEQUSED_K, b, 0);
        if (used < 0 || used > room) {
            return fail_value(problem, ATTUNE_OPERAND_SEQUSED_K, b, used, 0, room, "the capacity less the new rows");
        }
        if (turned > 0 && used > room_to_turn) {
            return fail_value(problem, ATTUNE_OPERAND_SEQUSED_K, b, used, 0, room_to_turn,
                              "the positions of rotary_cos less the rows");
        }
        if (problem->page_size > 0) {
            attune_status status = check_pages(problem, tables, b, used, used + problem->rows);
            if (status != ATTUNE_OK) {
                return status;
            }
        }
    }
    return ATTUNE_OK;
}

attune_status attune_tables_check(const attune_problem *problem, const struct attune_tables *tables) {
    switch (problem->op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        return check_attention(problem, tables);
    case ATTUNE_OP_APPEND:
        return check_append(problem, tables);
    case ATTUNE_OP_MERGE:
    case ATTUNE_OP_QUANTIZE:
        break;
    }
    return ATTUNE_OK;
}
