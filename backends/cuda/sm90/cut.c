/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/cut.h"

#include <math.h>

#include "attune/backend_util.h"
#include "backends/cuda/sm90/bind.h"
#include "backends/cuda/sm90/fwd.h"

/* ---- What it costs, in microseconds of an H200: docs/notes/hopper-forward.md has the measurements ---- */

#define LAUNCH_COST 8.0  /* whatever it does */
#define TILE_COST   1.6  /* what a tile takes besides its key tiles */
#define PART_COST   1.6  /* a part besides, to leave its state */
#define MERGE_COST  4.0  /* a launch that takes the parts together, from the end of the one before */
#define BUSY_COST   0.08 /* of a key tile where all processors work, over one that works alone */

/* Of the time without. The general row is up to 3% slower than those that it stands before. */
#define GAIN_LEAST         0.03
#define GAIN_LEAST_GENERAL 0.12

/* Multiplications and additions that a processor does in a microsecond, in key tiles; softmax rules at head size 64. */
#define WORK_RATE       7.2e6
#define WORK_RATE_SMALL 5.0e6

/* Bytes of states that are written and read in a microsecond. */
#define STATE_RATE 2.0e6

/* Key tiles that are left of a tile when its processor takes the next one: those of load.h, and what is on its way. */
#define KEY_TILES_AHEAD 6.0

/* Parts of the longest tile that are tried. */
#define SPLITS_TRIED 16
/* Lengths of a part that are tried for a number of parts. */
#define LENGTHS_TRIED 8

/* Of a launch, tiles that are cut counting with all their parts: what is to be cut is the end of a launch, and what its
 * parts leave has to fit the L2 cache. Past so many equal tiles the last round does not count. */
#define UNITS_MAX       1024
#define STATES_MAX      512
#define EQUAL_TILES_MAX (1 << 16)

/* Of a device; past that nothing is cut. */
#define PROCESSORS_MAX 1024

/* ---- Tiles ---- */

#define LENGTHS                                                                                                        \
    (ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K)

struct tiles {
    int64_t processors;
    int64_t row_tiles; /* of a sequence */
    int64_t heads;     /* of all batches */
    int64_t tile_rows, tile_keys;
    int64_t rows, keys;
    int64_t right;        /* row i sees the keys up to i + right */
    bool are_equal;       /* and the first of them stay whole: the row is for full visibility */
    bool have_lengths;    /* which may be known on the device alone: any tile may be cut */
    double key_tile_cost; /* of a processor that works alone */
    double state_cost;    /* of a part that is merged */
};

static double key_tile_cost_of(const attune_kernel_row *row) {
    const double work = 2.0 * row->tile_rows * row->tile_keys * (row->head_dim_max + row->head_dim_v_max);
    return work / (row->head_dim_max <= 64 ? WORK_RATE_SMALL : WORK_RATE);
}

static struct tiles tiles_of(const attune_kernel_row *row, const attune_problem *problem, int64_t pack,
                             int64_t processors) {
    const struct tiles made = {
        .processors = processors,
        .row_tiles = attune_ceil_div(problem->rows, row->tile_rows / pack),
        .heads = problem->heads_q / pack * problem->batch,
        .tile_rows = row->tile_rows / pack,
        .tile_keys = row->tile_keys,
        .rows = problem->rows,
        .keys = problem->keys,
        .right = attune_sm90_right_side(problem),
        .are_equal = (row->features & ATTUNE_FEATURE_CAUSAL) == 0,
        .have_lengths = (problem->features & LENGTHS) != 0,
        .key_tile_cost = key_tile_cost_of(row),
        .state_cost = (double)(row->tile_rows * row->head_dim_v_max) * sizeof(float) / STATE_RATE,
    };
    return made;
}

/* Those that a row tile goes through. */
static int64_t key_tiles_of(const struct tiles *of, int64_t row_tile) {
    const int64_t rows = attune_min(of->rows, (row_tile + 1) * of->tile_rows);
    const int64_t keys = of->are_equal ? of->keys : attune_min(of->keys, rows + of->right);
    return attune_max(1, attune_ceil_div(attune_max(0, keys), of->tile_keys));
}

static int64_t key_tiles_most(const struct tiles *of) {
    return key_tiles_of(of, of->row_tiles - 1);
}

/* ---- How long a launch takes ---- */

/* A processor takes its next work a little before it has done what it has. */
struct processor {
    double takes_at, ends_at;
};

/* As a heap: the first to take work is processor[0]. */
struct loads {
    int64_t count;
    struct processor processor[PROCESSORS_MAX];
};

static void add_work(struct loads *loads, double cost, double ahead) {
    struct processor *all = loads->processor;
    const double begin = all[0].ends_at;
    const struct processor busy = {fmax(begin, begin + cost - ahead), begin + cost};
    int64_t place = 0;
    for (int64_t child = 1; child < loads->count; child = 2 * place + 1) {
        child += child + 1 < loads->count && all[child + 1].takes_at < all[child].takes_at;
        if (busy.takes_at <= all[child].takes_at) {
            break;
        }
        all[place] = all[child];
        place = child;
    }
    all[place] = busy;
}

static double last_end(const struct loads *loads) {
    double last = 0;
    for (int64_t i = 0; i < loads->count; i++) {
        last = fmax(last, loads->processor[i].ends_at);
    }
    return last;
}

static double key_tile_cost(const struct tiles *of, const attune_sm90_cut *cut) {
    return of->key_tile_cost * (1.0 + BUSY_COST * fmin(1.0, (double)cut->units / (double)of->processors));
}

static double unit_cost(const struct tiles *of, const attune_sm90_cut *cut, int64_t row_tile, int64_t part) {
    const int64_t key_tiles = key_tiles_of(of, row_tile);
    const int64_t left = attune_min(cut->key_tiles, key_tiles - part * cut->key_tiles);
    return (double)left * key_tile_cost(of, cut) + TILE_COST + (key_tiles > cut->key_tiles ? PART_COST : 0.0);
}

/* Of the kernel that takes the parts together. */
static double merge_cost(const struct tiles *of, const attune_sm90_cut *cut) {
    const double states = (double)cut->cut_tiles * (double)cut->most;
    return cut->most > 1 ? MERGE_COST + states * of->state_cost : 0.0;
}

/* Besides what is given out: the launch, the rounds of tiles that stay whole, and the merge. */
static double time_besides(const struct tiles *of, const attune_sm90_cut *cut) {
    const double rounds = of->are_equal ? (double)(cut->first_cut / of->processors) : 0.0;
    const double round = (double)key_tiles_most(of) * key_tile_cost(of, cut) + TILE_COST;
    return LAUNCH_COST + rounds * round + merge_cost(of, cut);
}

/* Units go to who is free in the order in which the kernel numbers them. */
static double time_of(const struct tiles *of, const attune_sm90_cut *cut) {
    struct loads loads = {.count = of->processors};
    const double ahead = KEY_TILES_AHEAD * key_tile_cost(of, cut);
    if (of->are_equal) {
        for (int64_t unit = 0; unit < cut->units - cut->first_cut; unit++) {
            add_work(&loads, unit_cost(of, cut, 0, unit / cut->cut_tiles), ahead);
        }
        return time_besides(of, cut) + last_end(&loads);
    }
    for (int64_t part = cut->most - 1; part >= 0; part--) {
        for (int64_t row_tile = of->row_tiles - 1; row_tile >= 0; row_tile--) {
            if (part > 0 && key_tiles_of(of, row_tile) <= part * cut->key_tiles) {
                break;
            }
            for (int64_t head = 0; head < of->heads; head++) {
                add_work(&loads, unit_cost(of, cut, row_tile, part), ahead);
            }
        }
    }
    return time_besides(of, cut) + last_end(&loads);
}

/* A bound that is soon found: all processors work to the end, or one has a whole part. */
static double time_at_least(const struct tiles *of, const attune_sm90_cut *cut) {
    double work = 0;
    for (int64_t row_tile = 0; row_tile < (of->are_equal ? 1 : of->row_tiles); row_tile++) {
        const double parts = (double)attune_ceil_div(key_tiles_of(of, row_tile), cut->key_tiles);
        const double cost = TILE_COST + (parts > 1 ? PART_COST : 0.0);
        work += (double)key_tiles_of(of, row_tile) * key_tile_cost(of, cut) + parts * cost;
    }
    work *= (double)(of->are_equal ? cut->cut_tiles : of->heads);
    const double longest = (double)cut->key_tiles * key_tile_cost(of, cut) + TILE_COST + PART_COST;
    return time_besides(of, cut) + fmax(longest, work / (double)of->processors);
}

/* Of a launch that cuts nothing. Rounds of equal tiles need not be gone through. */
static double time_whole(const struct tiles *of) {
    const int64_t count = of->row_tiles * of->heads;
    const int64_t rounds_before = of->are_equal ? (count - 1) / of->processors : 0;
    const attune_sm90_cut none = {.key_tiles = (int32_t)key_tiles_most(of),
                                  .most = 1,
                                  .first_cut = (int32_t)(rounds_before * of->processors),
                                  .units = (int32_t)count,
                                  .cut_tiles = (int32_t)(count - rounds_before * of->processors)};
    return time_of(of, &none);
}

/* ---- Cuts ---- */

/* False if it has more parts than are kept. key_tiles: of a part. */
static bool set_equal(const struct tiles *of, int64_t key_tiles, int64_t whole_tiles, attune_sm90_cut *out_cut) {
    const int64_t cut_tiles = of->row_tiles * of->heads - whole_tiles;
    const int64_t most = attune_ceil_div(key_tiles_most(of), key_tiles);
    const attune_sm90_cut made = {.key_tiles = (int32_t)key_tiles,
                                  .most = (int32_t)most,
                                  .first_cut = (int32_t)whole_tiles,
                                  .units = (int32_t)(whole_tiles + cut_tiles * most),
                                  .cut_tiles = (int32_t)cut_tiles};
    *out_cut = made;
    return cut_tiles <= STATES_MAX && cut_tiles * most <= STATES_MAX;
}

static bool set_unequal(const struct tiles *of, int64_t key_tiles, attune_sm90_cut *out_cut) {
    const int64_t most = attune_ceil_div(key_tiles_most(of), key_tiles);
    int64_t head_units = 0;
    int64_t whole = 0; /* row tiles */
    for (int64_t row_tile = of->row_tiles - 1; row_tile >= 0; row_tile--) {
        head_units += attune_ceil_div(key_tiles_of(of, row_tile), key_tiles);
        whole += key_tiles_of(of, row_tile) <= key_tiles;
    }
    const int64_t first = of->have_lengths ? 0 : whole;
    const int64_t cut_tiles = (of->row_tiles - first) * of->heads;
    const attune_sm90_cut made = {.key_tiles = (int32_t)key_tiles,
                                  .most = (int32_t)most,
                                  .units = (int32_t)(head_units * of->heads),
                                  .first_cut = (int32_t)first,
                                  .cut_tiles = (int32_t)cut_tiles};
    *out_cut = made;
    return cut_tiles * most <= STATES_MAX && head_units * of->heads <= UNITS_MAX;
}

/* Takes a cut if it is sooner done than those before. */
static void consider(const struct tiles *of, const attune_sm90_cut *cut, double *least, attune_sm90_cut *best) {
    if (cut->most < 2 || time_at_least(of, cut) >= *least) {
        return;
    }
    const double time = time_of(of, cut);
    if (time < *least) {
        *least = time;
        *best = *cut;
    }
}

static void consider_length(const struct tiles *of, int64_t key_tiles, double *least, attune_sm90_cut *best) {
    attune_sm90_cut cut;
    if (!of->are_equal) {
        if (set_unequal(of, key_tiles, &cut)) {
            consider(of, &cut, least, best);
        }
        return;
    }
    /* Rounds that are full, and of them all but the last: its tiles join those that are cut. */
    const int64_t rounds = (of->row_tiles * of->heads - 1) / of->processors;
    for (int64_t whole = rounds; whole >= attune_max(0, rounds - 1); whole--) {
        if (set_equal(of, key_tiles, whole * of->processors, &cut)) {
            consider(of, &cut, least, best);
        }
    }
}

/* Whether a launch is so large that its end does not count, or so small that there is nothing to cut. */
static bool is_out_of_bounds(const struct tiles *of) {
    const int64_t most = of->are_equal ? EQUAL_TILES_MAX : UNITS_MAX;
    return of->rows == 0 || of->heads == 0 || of->processors > PROCESSORS_MAX || of->processors < 1 ||
           of->row_tiles > most / of->heads || key_tiles_most(of) < 2;
}

/* The best cut of the longest tile into so many parts, two or more, if it takes less than *least. */
static void consider_splits(const struct tiles *of, int64_t splits, double *least, attune_sm90_cut *best) {
    const int64_t length = key_tiles_most(of);
    const int64_t parts = attune_min(splits, length);
    const int64_t shortest = attune_ceil_div(length, parts);
    const int64_t past = attune_max(shortest + 1, attune_ceil_div(length, parts - 1));
    const int64_t step = attune_ceil_div(past - shortest, LENGTHS_TRIED);
    for (int64_t key_tiles = shortest; key_tiles < past; key_tiles += step) {
        consider_length(of, key_tiles, least, best);
    }
}

int32_t attune_sm90_splits_choose(const attune_kernel_row *row, const attune_problem *problem, int64_t pack,
                                  int64_t processors) {
    const struct tiles of = tiles_of(row, problem, pack, processors);
    if (is_out_of_bounds(&of)) {
        return 1;
    }
    attune_sm90_cut best = {.most = 1};
    double least = (1.0 - (of.are_equal ? GAIN_LEAST : GAIN_LEAST_GENERAL)) * time_whole(&of);
    for (int64_t splits = 2; splits <= SPLITS_TRIED; splits++) {
        consider_splits(&of, splits, &least, &best);
    }
    return best.most;
}

void attune_sm90_cut_make(const attune_kernel_row *row, const attune_problem *problem, int64_t pack, int64_t processors,
                          int32_t splits, attune_sm90_cut *out_cut) {
    const struct tiles of = tiles_of(row, problem, pack, processors);
    const attune_sm90_cut none = {.key_tiles = ATTUNE_SM90_LENGTH_MAX / row->tile_keys + 1,
                                  .most = 1,
                                  .units = (int32_t)(of.row_tiles * of.heads)};
    double least = INFINITY;
    *out_cut = none;
    if (splits > 1 && !is_out_of_bounds(&of)) {
        consider_splits(&of, splits, &least, out_cut);
    }
}
