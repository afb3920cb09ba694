/*
 * Work spread over threads: the only place where the CPU backend uses OpenMP.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CPU_TEAM_H
#define ATTUNE_CPU_TEAM_H

#include "attune/backend.h"

struct attune_cpu_team {
    int32_t threads; /* at most; 1 or more */
    const attune_host_services *host;
};

/* One unit of work. thread: 0 to team.threads - 1, no two bodies at once having the same. */
typedef void (*attune_cpu_body)(const void *context, int64_t unit, int32_t thread);

/* Calls body for units 0 to units - 1, in any order, and returns when all are done. operations: multiply-adds in all,
 * roughly; little work is not spread. May be called from several threads and from inside of a caller's own parallel
 * region. In a forked child whose parent had threads everything runs on the calling thread. */
void attune_cpu_team_run(const struct attune_cpu_team *team, int64_t units, double operations, attune_cpu_body body,
                         const void *context);

/* Watches for forks from now on; a fork before this call goes unnoticed. Called again, does nothing. */
void attune_cpu_team_watch_forks(void);

/* The runtime's name and version, for people. */
const char *attune_cpu_team_runtime(void);

#endif
