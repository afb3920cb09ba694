/*
 * Draws where sequences begin and end, and which page holds which keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "problem.h"
#include "random.h"

/* The length of batch entry b. The first is the longest; of three or more the second is empty. */
static int64_t draw_length(struct conform_random *random, const struct conform_lengths *lengths, int64_t batch,
                           int64_t b, int64_t longest) {
    if (lengths->given) {
        return lengths->given[b];
    }
    if (b == 0 || !lengths->ragged) {
        return longest;
    }
    return batch >= 3 && b == 1 ? 0 : conform_random_below(random, longest + 1);
}

/* How many of them exist. */
static int64_t draw_used(struct conform_random *random, const struct conform_lengths *lengths, int64_t b,
                         int64_t length) {
    if (!lengths->used) {
        return length;
    }
    if (lengths->given && !lengths->ragged) {
        return lengths->given[b];
    }
    return b == 0 ? (length > 2 ? length - 2 : length) : conform_random_below(random, length + 1);
}

static void draw_axis(struct conform_problem *problem, int which, struct conform_random *random) {
    const struct conform_options *options = &problem->options;
    const struct conform_lengths *lengths = which == 0 ? &options->q : &options->k;
    int64_t longest = which == 0 ? options->rows : options->keys;
    int32_t *cu_seqlens = problem->cu_seqlens[which] = conform_alloc((uint64_t)options->batch + 1, sizeof(int32_t));
    int32_t *seqused = problem->seqused[which] = conform_alloc((uint64_t)options->batch, sizeof(int32_t));
    for (int64_t b = 0; b < options->batch; b++) {
        bool drawn = lengths->ragged || !lengths->given;
        int64_t length = drawn ? draw_length(random, lengths, options->batch, b, longest) : longest;
        int64_t used = draw_used(random, lengths, b, length);
        int64_t first = lengths->ragged ? cu_seqlens[b] : 0;
        cu_seqlens[b + 1] = (int32_t)(first + length);
        seqused[b] = (int32_t)used;
        struct conform_sequence *sequence = &problem->sequence[b];
        *(which == 0 ? &sequence->row_first : &sequence->key_first) = first;
        *(which == 0 ? &sequence->rows : &sequence->keys) = used;
    }
    int64_t total = lengths->ragged ? cu_seqlens[options->batch] + options->extra_rows : longest;
    *(which == 0 ? &problem->rows_total : &problem->keys_total) = total;
}

void conform_problem_draw_lengths(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    struct conform_random random = {problem->seed ^ UINT64_C(0x6C656E67)};
    problem->sequence = conform_alloc((uint64_t)options->batch, sizeof *problem->sequence);
    problem->leftpad = conform_alloc((uint64_t)options->batch, sizeof(int32_t));
    draw_axis(problem, 0, &random);
    draw_axis(problem, 1, &random);
    for (int64_t b = 0; options->leftpad && b < options->batch; b++) {
        int64_t keys = problem->sequence[b].keys;
        int64_t leftpad = b == 0 ? (keys < 2 ? keys : 2) : conform_random_below(&random, keys + 1);
        problem->sequence[b].leftpad = leftpad;
        problem->leftpad[b] = (int32_t)leftpad;
    }
    problem->longest_rows = options->max_unset ? problem->rows_total : options->rows;
    problem->longest_keys = options->max_unset ? problem->keys_total : options->keys;
    if (options->page_size > 0) {
        problem->columns = (options->keys + options->page_size - 1) / options->page_size + 1;
        problem->longest_keys = problem->columns * options->page_size;
        problem->keys_total = problem->longest_keys;
    }
}

int64_t conform_problem_shift(const struct conform_problem *problem, const struct conform_sequence *sequence) {
    switch (problem->options.align) {
    case ATTUNE_ALIGN_BOTTOM_RIGHT:
        return sequence->keys - sequence->rows;
    case ATTUNE_ALIGN_DIAGONAL:
        return problem->options.diagonal;
    default:
        return 0;
    }
}

bool conform_problem_in_band(const struct conform_problem *problem, const struct conform_sequence *sequence, int64_t i,
                             int64_t j) {
    const struct conform_options *options = &problem->options;
    int64_t own = i + conform_problem_shift(problem, sequence);
    bool seen = !options->causal || j <= own;
    if (options->window.set) {
        seen = seen && (options->window.left < 0 || j >= own - options->window.left);
        seen = seen && (options->window.right < 0 || j <= own + options->window.right);
    }
    return seen;
}

/* Whether a row may see a key of the page: only then may its entry be read. */
static bool page_matters(const struct conform_problem *problem, const struct conform_sequence *sequence, int64_t n) {
    int64_t first = n * problem->options.page_size;
    int64_t end = first + problem->options.page_size;
    for (int64_t j = first < sequence->leftpad ? sequence->leftpad : first; j < end && j < sequence->keys; j++) {
        for (int64_t i = 0; i < sequence->rows; i++) {
            if (conform_problem_in_band(problem, sequence, i, j)) {
                return true;
            }
        }
    }
    return false;
}

void conform_problem_draw_pages(struct conform_problem *problem) {
    static const int32_t garbage[] = {INT32_MAX, -1, INT32_MIN, 1 << 30};
    const struct conform_options *options = &problem->options;
    struct conform_random random = {problem->seed ^ UINT64_C(0x70616765)};
    uint64_t entries = (uint64_t)(options->batch * problem->columns);
    problem->block_table = conform_alloc(entries, sizeof(int32_t));
    problem->pages = (int64_t)entries + 3;
    int32_t *order = conform_alloc((uint64_t)problem->pages, sizeof(int32_t));
    for (int64_t n = 0; n < problem->pages; n++) {
        int64_t place = conform_random_below(&random, n + 1);
        order[n] = order[place];
        order[place] = (int32_t)n;
    }
    for (int64_t b = 0; b < options->batch; b++) {
        for (int64_t n = 0; n < problem->columns; n++) {
            int64_t entry = b * problem->columns + n;
            bool matters = page_matters(problem, &problem->sequence[b], n);
            problem->block_table[entry] = matters ? order[entry] : garbage[entry % 4];
        }
    }
    free(order);
}
