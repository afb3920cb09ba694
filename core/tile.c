/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/tile.h"

/* ---- The tile ---- */

static const int32_t sides[] = {128, 64, 32, 16, 8, 4};
#define SIDE_COUNT ((int)(sizeof sides / sizeof sides[0]))
#define SIDE_USUAL 16 /* what matrix instructions want at least */

static bool tile_fits(const struct attune_tile_need *need, struct attune_tile tile) {
    return need->memory_bytes == 0 || attune_tile_bytes(need->problem, tile.rows, tile.keys) <= need->memory_bytes;
}

/* A tile does rows * keys work for rows + keys loaded. Of two alike, more rows: they are loaded once. */
static bool tile_is_better(struct attune_tile tile, struct attune_tile than) {
    int64_t work = (int64_t)tile.rows * tile.keys * (than.rows + than.keys);
    int64_t than_work = (int64_t)than.rows * than.keys * (tile.rows + tile.keys);
    return work != than_work ? work > than_work : tile.rows > than.rows;
}

int32_t attune_tile_side_limit(int64_t extent) {
    int32_t limit = SIDE_USUAL;
    for (int i = 0; i < SIDE_COUNT; i++) {
        if (sides[i] >= extent && sides[i] >= SIDE_USUAL) {
            limit = sides[i];
        }
    }
    return extent > sides[0] ? sides[0] : limit;
}

static bool search(const struct attune_tile_need *need, struct attune_tile request, struct attune_tile *out_tile) {
    struct attune_tile limit = {attune_tile_side_limit(need->packed_rows), attune_tile_side_limit(need->problem->keys)};
    struct attune_tile best = {0, 0};
    for (int i = 0; i < SIDE_COUNT; i++) {
        for (int j = 0; j < SIDE_COUNT; j++) {
            struct attune_tile tile = {request.rows > 0 ? request.rows : sides[i],
                                       request.keys > 0 ? request.keys : sides[j]};
            bool is_useful =
                (request.rows > 0 || tile.rows <= limit.rows) && (request.keys > 0 || tile.keys <= limit.keys);
            if (is_useful && tile_fits(need, tile) && (best.rows == 0 || tile_is_better(tile, best))) {
                best = tile;
            }
        }
    }
    *out_tile = best;
    return best.rows > 0;
}

bool attune_tile_choose(const struct attune_tile_need *need, struct attune_tile *out_tile) {
    struct attune_tile request = need->request;
    if (need->may_exceed && request.rows > 0 && request.keys > 0) {
        *out_tile = request;
        return true;
    }
    const struct attune_tile automatic = {0, 0};
    if (search(need, request, out_tile) || search(need, automatic, out_tile)) {
        return true;
    }
    out_tile->rows = SIDE_USUAL;
    out_tile->keys = SIDE_USUAL;
    return need->may_exceed;
}

int64_t attune_tile_bytes_least(const attune_problem *problem) {
    const int32_t side = sides[SIDE_COUNT - 1];
    return attune_tile_bytes(problem, side, side);
}

/* ---- Counts ---- */

int64_t attune_key_tiles_max(const attune_problem *problem, int64_t rows, int64_t tile_keys) {
    int64_t tiles = attune_ceil_div(problem->keys, tile_keys);
    if (problem->window_left < 0 || problem->window_right < 0) {
        return tiles;
    }
    int64_t seen = attune_add_saturated(attune_add_saturated(problem->window_left, problem->window_right), rows);
    /* The first key seen lies anywhere in its tile. */
    return attune_min(tiles, attune_ceil_div(seen, tile_keys) + 1);
}

attune_mask attune_mask_longest(const attune_problem *problem) {
    bool is_bottom_right = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT;
    int64_t diagonal = problem->align == ATTUNE_ALIGN_DIAGONAL ? problem->diagonal : 0;
    attune_mask mask;
    mask.rows = problem->rows;
    mask.keys = problem->keys;
    mask.leftpad = 0;
    mask.shift = attune_mask_shift(is_bottom_right, diagonal, problem->rows, problem->keys);
    mask.left = problem->window_left;
    mask.right = problem->window_right;
    return mask;
}

/* Row i sees the keys from max(first_key, i + left) up to min(keys, i + right): without the limits the two bounds move
 * by one key a row. */
struct bounds {
    int64_t first_key;
    int64_t keys;
    int64_t left;
    int64_t right;
};

static struct bounds bounds_of(const attune_mask *mask) {
    const int64_t too_far_to_bind = INT64_MAX / 2;
    struct bounds bounds;
    bounds.first_key = mask->leftpad;
    bounds.keys = mask->keys;
    bounds.left = mask->left < 0 ? -too_far_to_bind : mask->shift - mask->left;
    bounds.right = mask->right < 0 ? too_far_to_bind : mask->shift + mask->right + 1;
    return bounds;
}

/* Negative where the row sees nothing. */
static int64_t width_at(const struct bounds *bounds, int64_t row) {
    int64_t begin = attune_max(bounds->first_key, attune_add_saturated(row, bounds->left));
    int64_t end = attune_min(bounds->keys, attune_add_saturated(row, bounds->right));
    return attune_add_saturated(end, -begin);
}

/* The sum of the positive ones of count numbers from first to last, which rise or fall by 1, or are all equal. */
static double sum_positive(int64_t first, int64_t last, int64_t count) {
    if (first == last) {
        return first > 0 ? (double)count * (double)first : 0;
    }
    int64_t least = attune_max(attune_min(first, last), 1);
    int64_t most = attune_max(first, last);
    if (most < least) {
        return 0;
    }
    return (double)(most - least + 1) * ((double)least + (double)most) / 2;
}

double attune_mask_pairs(const attune_mask *mask) {
    const struct bounds bounds = bounds_of(mask);
    int64_t left_binds = attune_clamp(attune_add_saturated(bounds.first_key, -bounds.left), 0, mask->rows);
    int64_t right_binds = attune_clamp(attune_add_saturated(bounds.keys, -bounds.right), 0, mask->rows);
    /* Between the rows where a bound takes over, the width is linear. */
    const int64_t cuts[] = {0, attune_min(left_binds, right_binds), attune_max(left_binds, right_binds), mask->rows};
    double pairs = 0;
    for (int piece = 0; piece < 3; piece++) {
        int64_t begin = cuts[piece];
        int64_t end = cuts[piece + 1];
        if (begin < end) {
            pairs += sum_positive(width_at(&bounds, begin), width_at(&bounds, end - 1), end - begin);
        }
    }
    return pairs;
}
