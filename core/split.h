/*
 * How work is spread over a device whose processors a problem does not fill by itself: query heads packed into a tile,
 * keys split among work-groups. Pure functions: no device, no memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_SPLIT_H
#define ATTUNE_CORE_SPLIT_H

#include "attune/backend_util.h"

/* How many query heads of a group share a tile's rows: the whole group where that wastes clearly fewer rows of tiles,
 * else 1. rows: of a sequence. group: Hq / Hkv. */
int32_t attune_pack_choose(int64_t rows, int64_t group, int32_t tile_rows);

struct attune_split_need {
    int64_t processors;  /* 0: unknown */
    int64_t work_groups; /* without a split: row tiles x batches x heads */
    int64_t key_tiles;   /* that a row tile walks at most */
};

/* How many parts the keys are processed in: the fewest that keep the processors nearly as busy as any number would; 1
 * where the work-groups fill the device, or there are too few key tiles to be worth a merge.
 *
 * Source: Dao et al., Flash-Decoding for long-context inference (2023). */
int32_t attune_split_choose(const struct attune_split_need *need);

/* What is made of a request: it is honoured up to ATTUNE_MERGE_PARTS_MAX. */
int32_t attune_split_clamp(int32_t request);

#endif
