/*
 * How many threads this process may use at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CPU_THREADS_H
#define ATTUNE_CPU_THREADS_H

#include "attune/backend.h"

#define ATTUNE_CPU_THREADS_MAX 4096

/* The CPU time that this process's control group is allowed, in whole processors, at least 1; INT32_MAX for no limit.
 *
 * root: "" for this machine; tests give a folder that holds proc/ and sys/ of their own. */
int32_t attune_cpu_threads_by_quota(const char *root);

/* The processors in this thread's affinity mask, or what the quota allows, whichever is less; at least 1. Changes
 * neither. */
int32_t attune_cpu_threads_available(void);

/* ATTUNE_NUM_THREADS, or what is available if that is unset. INVALID_ARGUMENT if it is not a number from 1 to
 * ATTUNE_CPU_THREADS_MAX. */
attune_status attune_cpu_threads_choose(const attune_host_services *host, int32_t *out_threads);

#endif
