/*
 * Block-sparse attention: which blocks of keys a block of rows lists.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_LISTED_H
#define ATTUNE_GENERIC_LISTED_H

#include "backends/cpu/generic/score.h"

/* Whether some row of the tile lists a block that has one of the keys: all of them where there are no lists. */
bool attune_generic_tile_lists(const struct generic_tile *tile, attune_interval keys);

/* -inf for the keys that a lane's row does not list. */
void attune_generic_hide_unlisted(const struct generic_tile *tile, const struct generic_strip *strip,
                                  struct generic_span keys, float *score);

#endif
