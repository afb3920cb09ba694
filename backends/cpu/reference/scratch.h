/*
 * Arrays cut from the workspace. The same code that cuts them, run over no memory, tells how much there must be.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_SCRATCH_H
#define ATTUNE_REFERENCE_SCRATCH_H

#include "attune/backend_util.h"

struct reference_scratch {
    char *base;          /* NULL: only measure */
    uint64_t used_bytes; /* UINT64_MAX: more than can be */
};

/* rows * columns elements, aligned to 64. Both are 0 or more. */
static inline void *attune_reference_take(struct reference_scratch *scratch, int64_t rows, int64_t columns,
                                          uint64_t element_bytes) {
    const uint64_t begin = scratch->used_bytes;
    uint64_t bytes = 0;
    if (!attune_multiply_checked((uint64_t)rows, (uint64_t)columns, &bytes) ||
        !attune_multiply_checked(bytes, element_bytes, &bytes) || !attune_round_up_checked(bytes, 64, &bytes) ||
        !attune_add_checked(begin, bytes, &scratch->used_bytes)) {
        scratch->used_bytes = UINT64_MAX;
    }
    return scratch->base == NULL ? NULL : scratch->base + begin;
}

/* For each of threads the same again. */
static inline uint64_t attune_reference_scratch_bytes(uint64_t shared_bytes, uint64_t thread_bytes, int32_t threads) {
    uint64_t bytes = 0;
    const bool fits = attune_multiply_checked(thread_bytes, (uint64_t)threads, &bytes) &&
                      attune_add_checked(bytes, shared_bytes, &bytes);
    return fits ? bytes : UINT64_MAX;
}

#endif
