/*
 * How many parts the Hopper forward cuts its tiles into along the keys, so that all processors end at about the same
 * time: the last round's tiles where they are equal, the longest where they are not, all where they are few.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_CUT_H
#define ATTUNE_CUDA_SM90_CUT_H

#include "attune/backend.h"

typedef struct attune_sm90_cut {
    int32_t key_tiles; /* of a part; the last one of a tile has what is left */
    int32_t most;      /* parts of a tile; 1: none is cut */
    int32_t units;     /* tiles that are not cut, and parts */
    int32_t first_cut; /* that may be cut: of all tiles with full visibility, of a sequence's row tiles elsewhere */
    int32_t cut_tiles; /* that may be cut: they have room for the states of all their parts */
} attune_sm90_cut;

/* The best number of parts of the longest tile; 1 where cutting gains too little. It depends on nothing but the row,
 * the problem and the processors, so results do not either. pack: query heads that share a tile's rows. */
int32_t attune_sm90_splits_choose(const attune_kernel_row *row, const attune_problem *problem, int64_t pack,
                                  int64_t processors);

/* The best cut of the longest tile into splits parts, or fewer if it has not so many key tiles; 1: none. */
void attune_sm90_cut_make(const attune_kernel_row *row, const attune_problem *problem, int64_t pack, int64_t processors,
                          int32_t splits, attune_sm90_cut *out_cut);

#endif
