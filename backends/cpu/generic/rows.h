/*
 * Tiles of rows: who the rows of a tile are and which keys they may see by length, left padding, causality and window.
 * A tile's rows belong to one query head, or to the pack heads of a group that share it, the head running fastest. They
 * lie side by side, LANES of them in a strip.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_ROWS_H
#define ATTUNE_GENERIC_ROWS_H

#include "backends/cpu/generic/lanes.h"
#include "backends/cpu/reference/head.h"

/* What is known by lane. Past the lanes in use: the last one again, but it sees nothing. */
struct generic_strip {
    int64_t lanes;                      /* in use: 1 to LANES */
    attune_interval keys;               /* that some lane may see */
    attune_interval common;             /* that every lane in use may see */
    int64_t row[ATTUNE_GENERIC_LANES];  /* i */
    int64_t head[ATTUNE_GENERIC_LANES]; /* h */
    attune_interval seen[ATTUNE_GENERIC_LANES];
    float slope[ATTUNE_GENERIC_LANES]; /* of ALiBi */
    float sink[ATTUNE_GENERIC_LANES];
    const char *bias[ATTUNE_GENERIC_LANES]; /* of key 0; NULL: absent */
    const char *mask[ATTUNE_GENERIC_LANES];
};

struct generic_tile {
    const struct attune_cpu_run *run;
    struct reference_head first; /* the pack's first head; its planes' dtypes and strides are those of all */
    int64_t strips;
    attune_interval keys; /* that some row may see */
    struct generic_strip *strip;
};

/* Whose rows a tile has. */
struct generic_rows {
    int64_t batch;
    int64_t head;  /* the first of the pack */
    int64_t pack;  /* heads that share the tile */
    int64_t first; /* of the rows, counted as packed: row * pack + head */
    int64_t count; /* at most; the sequence may end sooner */
};

/* Fills in tile, whose strips are given. False if there is no row. */
bool attune_generic_tile_make(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                              const struct generic_rows *rows, struct generic_strip *strip,
                              struct generic_tile *out_tile);

/* The vectors of one lane, of Q, O, DOUT or DQ. */
struct reference_vectors attune_generic_lane_vectors(const struct generic_tile *tile, attune_operand operand,
                                                     int64_t head);

/* Loads the rows' vectors as columns: strip s has its panel at out + s * round_up(length) * LANES. */
void attune_generic_tile_load(const struct generic_tile *tile, attune_operand operand, float *out);

/* Stores them, lane n of strip s times factor[s * LANES + n]. */
void attune_generic_tile_store(const struct generic_tile *tile, attune_operand operand, const float *values,
                               const float *factor);

/* Where lse, dlse or probs of a lane lies, whose axes are (b, h, s). */
char *attune_generic_lane_address(const struct generic_tile *tile, const struct generic_strip *strip, int64_t lane,
                                  attune_operand operand);

#endif
