/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/split.h"

/* Work-groups that fill so much of the processors are left alone. */
#define FULL_SHARE 0.8
/* A split costs a merge: this many key tiles are done sooner in one go. */
#define KEY_TILES_FEW 4
/* Splits as good as the best one, but for a merge of more parts. */
#define EFFICIENCY_ENOUGH 0.85

/* From so many tiles on, less than a tenth of their rows can be empty. */
#define TILES_MANY 10

/* Packing costs scattered loads of Q and stores of O, so it has to save a tenth of the tiles. */
int32_t attune_pack_choose(int64_t rows, int64_t group, int32_t tile_rows) {
    if (rows / tile_rows >= TILES_MANY || group > INT32_MAX) {
        return 1;
    }
    int64_t tiles_apart = group * attune_ceil_div(rows, tile_rows);
    int64_t tiles_packed = attune_ceil_div(group * rows, tile_rows);
    return 10 * tiles_packed < 9 * tiles_apart ? (int32_t)group : 1;
}

/* The share of processors that work, on average over the waves in which the work-groups run. */
static double wave_efficiency(const struct attune_split_need *need, int64_t splits) {
    double waves = (double)need->work_groups * (double)splits / (double)need->processors;
    double whole = (double)(int64_t)waves;
    return waves / (whole < waves ? whole + 1 : whole);
}

/* One split more helps only if the longest part becomes shorter. */
static bool split_shortens(const struct attune_split_need *need, int64_t splits) {
    return splits == 1 || attune_ceil_div(need->key_tiles, splits) < attune_ceil_div(need->key_tiles, splits - 1);
}

int32_t attune_split_choose(const struct attune_split_need *need) {
    bool is_full = (double)need->work_groups >= FULL_SHARE * (double)need->processors;
    if (need->work_groups == 0 || is_full || need->key_tiles <= KEY_TILES_FEW) {
        return 1;
    }
    int64_t most = attune_min(attune_min(need->processors, need->key_tiles), ATTUNE_MERGE_PARTS_MAX);
    double best = 0;
    for (int64_t splits = 1; splits <= most; splits++) {
        if (split_shortens(need, splits) && wave_efficiency(need, splits) > best) {
            best = wave_efficiency(need, splits);
        }
    }
    for (int64_t splits = 1; splits < most; splits++) {
        if (split_shortens(need, splits) && wave_efficiency(need, splits) >= EFFICIENCY_ENOUGH * best) {
            return (int32_t)splits;
        }
    }
    return (int32_t)most;
}

int32_t attune_split_clamp(int32_t request) {
    return request < ATTUNE_MERGE_PARTS_MAX ? request : ATTUNE_MERGE_PARTS_MAX;
}
