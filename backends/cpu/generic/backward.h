/*
 * What the files of backward share. P is recomputed by each that needs it. Every output is computed by who owns it, so
 * that the order of each sum is fixed: dq by tiles of rows, or by who has all tiles of keys of a head; dk and dv by
 * tiles of keys, dbias by its own tiles.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_GENERIC_BACKWARD_H
#define ATTUNE_GENERIC_BACKWARD_H

#include "backends/cpu/generic/gradient.h"

/* Bytes that a thread works with in each. */
uint64_t attune_generic_dq_bytes(const attune_problem *problem, const attune_schedule *schedule, int32_t threads);
uint64_t attune_generic_dkv_bytes(const attune_problem *problem, const attune_schedule *schedule, int32_t threads);
uint64_t attune_generic_dbias_bytes(const attune_problem *problem, const attune_schedule *schedule);

/* operations: multiply-adds of one of the problem's products, Q K^T and dO V^T together. */
void attune_generic_dq(const struct attune_cpu_run *run, double operations);
/* Whether dkv finds dq, too. */
bool attune_generic_dkv_sums_dq(const attune_problem *problem, const attune_schedule *schedule, int32_t threads);
void attune_generic_dkv(const struct attune_cpu_run *run, double operations);
void attune_generic_dbias(const struct attune_cpu_run *run, double operations);

/* Where a thread's bytes begin, if each has so many. */
static inline char *attune_generic_thread_base(const struct attune_cpu_run *run, int32_t thread,
                                               uint64_t thread_bytes) {
    return run->workspace + attune_generic_rests_bytes(run->problem) + (uint64_t)thread * thread_bytes;
}

#endif
