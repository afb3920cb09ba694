/*
 * What the lists of --block-sparse amount to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_BLOCK_LIST_H
#define ATTUNE_TOOLS_BLOCK_LIST_H

#include "options.h"

struct block_list {
    bool given;
    int64_t blocks; /* that are computed, over the heads that have lists of their own */
    int64_t blocks_dense;
    double share; /* of all (row, key) pairs */
};

/* Reads the files, which fit the problem's shape, and checks them. */
enum tool_exit block_list_describe(const struct options *options, struct block_list *out_list);

#endif
