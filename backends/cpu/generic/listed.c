/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/listed.h"

#define LANES ATTUNE_GENERIC_LANES

/* The entries of one block of rows, as indices into block_col_idx; they strictly increase. */
struct list {
    const struct attune_cpu_run *run;
    int64_t begin;
    int64_t end;
};

static struct list list_of(const struct attune_cpu_run *run, int64_t head, int64_t row) {
    const int64_t block = row / run->problem->block_rows;
    return (struct list){
        .run = run,
        .begin = attune_reference_integer(run, ATTUNE_OPERAND_BLOCK_ROW_PTR, head, block),
        .end = attune_reference_integer(run, ATTUNE_OPERAND_BLOCK_ROW_PTR, head, block + 1),
    };
}

static int64_t entry_of(const struct list *list, int64_t index) {
    return attune_reference_integer(list->run, ATTUNE_OPERAND_BLOCK_COL_IDX, index, 0);
}

/* The index of the first entry that is not below a block. */
static int64_t find_from(const struct list *list, int64_t block) {
    int64_t begin = list->begin;
    int64_t end = list->end;
    while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (entry_of(list, middle) < block) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* Whether two lanes have one list: neighbours usually do. */
static bool shares_list(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane,
                        int64_t other) {
    const int64_t block_rows = tile->run->problem->block_rows;
    const bool by_head = tile->run->problem->operand[ATTUNE_OPERAND_BLOCK_ROW_PTR].stride[0] != 0;
    return strip->row[lane] / block_rows == strip->row[other] / block_rows &&
           (!by_head || strip->head[lane] == strip->head[other]);
}

/* ---- Tiles without a listed block ---- */

static bool lists(const struct list *list, attune_interval keys) {
    const int64_t block_keys = list->run->problem->block_keys;
    const int64_t index = find_from(list, keys.begin / block_keys);
    return index < list->end && entry_of(list, index) * block_keys < keys.end;
}

bool attune_generic_tile_lists(const struct generic_tile *tile, attune_interval keys) {
    if (tile->run->problem->block_rows == 0) {
        return true;
    }
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_strip *strip = &tile->strip[s];
        for (int64_t lane = 0; lane < strip->lanes; lane++) {
            const struct list list = list_of(tile->run, strip->head[lane], strip->row[lane]);
            if ((lane == 0 || !shares_list(tile, strip, lane, lane - 1)) && lists(&list, keys)) {
                return true;
            }
        }
    }
    return false;
}

/* ---- Keys that are not listed ---- */

static void hide(attune_interval keys, int64_t first, float *score) {
    for (int64_t key = keys.begin; key < keys.end; key++) {
        score[(key - first) * LANES] = -ATTUNE_INFINITY;
    }
}

/* What lies between the entries. */
static void hide_lane(const struct list *list, struct generic_span keys, float *score) {
    const int64_t block_keys = list->run->problem->block_keys;
    const int64_t end = keys.first + keys.end;
    int64_t key = keys.first + keys.begin;
    for (int64_t index = find_from(list, key / block_keys); key < end; index++) {
        const int64_t block = index < list->end ? entry_of(list, index) : end / block_keys + 1;
        const int64_t listed = attune_clamp(block * block_keys, key, end);
        hide((attune_interval){key, listed}, keys.first, score);
        key = attune_clamp((block + 1) * block_keys, key, end);
    }
}

void attune_generic_hide_unlisted(const struct generic_tile *tile, const struct generic_strip *strip,
                                  struct generic_span keys, float *score) {
    for (int64_t lane = 0; lane < strip->lanes; lane++) {
        const struct list list = list_of(tile->run, strip->head[lane], strip->row[lane]);
        hide_lane(&list, keys, score + lane);
    }
}
