/*
 * A call as core sees it once problem.c has understood its args: what is fixed, what changes from run to run, and what
 * the caller asked of the planner.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_CALL_H
#define ATTUNE_CORE_CALL_H

#include "attune/backend.h"

/* Requests of the caller: none of them changes the result beyond rounding. */
struct attune_request {
    const char *kernel; /* NULL: any; valid as long as the args */
    int32_t tile_rows;  /* 0: automatic */
    int32_t tile_keys;
    int32_t splits;
    bool check;
};

struct attune_call {
    attune_problem problem;
    attune_bindings bindings; /* part_o and part_lse point into this struct; workspace is not set */
    struct attune_request request;
    attune_pointer part_o[ATTUNE_MERGE_PARTS_MAX];
    attune_pointer part_lse[ATTUNE_MERGE_PARTS_MAX];
};

#endif
