/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* pthread_atfork */

#include "backends/cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

/* ---- Forks ----
 *
 * An OpenMP runtime keeps its threads between parallel regions. A forked child has the books of that pool, but not the
 * threads, and waits for them forever. The pool may be the caller's as well as ours, so what counts is whether the
 * parent had any threads at all. */

static bool parent_had_threads;
static atomic_bool must_run_alone; /* in this process */

/* The link count of the task folder is 2 more than the number of threads: cheap, and safe in a fork handler. */
static bool process_has_threads(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3;
}

static void before_fork(void) {
    parent_had_threads = process_has_threads();
}

static void in_child(void) {
    if (parent_had_threads) {
        atomic_store(&must_run_alone, true);
    }
}

static void watch_forks(void) {
    /* Without memory for the handlers a child is no worse off than without attune. */
    (void)pthread_atfork(before_fork, NULL, in_child);
}

void attune_cpu_team_watch_forks(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, watch_forks);
}

static void tell_once(const struct attune_cpu_team *team) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&told)) {
        team->host->log(ATTUNE_LOG_WARN,
                        "cpu: this process was forked from one with threads, and runs attention on one thread");
    }
}

/* ---- Running ---- */

/* Waking a thread costs some microseconds, and runtimes let it spin for a while afterwards: with 2^16, two thirds of
 * the conformance suite's time were spent so. What a thread is woken for must be worth it. */
#define OPERATIONS_PER_THREAD 1048576.0

static int32_t threads_for(const struct attune_cpu_team *team, int64_t units, double operations) {
    const double worth = operations / OPERATIONS_PER_THREAD;
    int32_t threads = team->threads;
    if (threads > units) {
        threads = (int32_t)units;
    }
    if (threads > worth) {
        threads = worth < 1.0 ? 1 : (int32_t)worth;
    }
    if (threads > 1 && atomic_load(&must_run_alone)) {
        tell_once(team);
        threads = 1;
    }
    return threads;
}

static void run_alone(int64_t units, attune_cpu_body body, const void *context) {
    for (int64_t unit = 0; unit < units; unit++) {
        body(context, unit, 0);
    }
}

/* How long a thread that waits spins, in milliseconds: 200 by default in clang's runtime, and only there can it be set.
 * gcc's runtime spins for some thousandths of a second, and less where threads are more than processors. */
extern int kmp_get_blocktime(void) __attribute__((weak, visibility("default")));
extern void kmp_set_blocktime(int milliseconds) __attribute__((weak, visibility("default")));

static void run_region(int32_t threads, int64_t units, attune_cpu_body body, const void *context) {
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t unit = 0; unit < units; unit++) {
        body(context, unit, omp_get_thread_num());
    }
}

/* The caller's own regions keep what they had. */
static void run_spread(int32_t threads, int64_t units, attune_cpu_body body, const void *context) {
    if (kmp_get_blocktime == NULL || kmp_set_blocktime == NULL) {
        run_region(threads, units, body, context);
        return;
    }
    const int before = kmp_get_blocktime();
    kmp_set_blocktime(0);
    run_region(threads, units, body, context);
    kmp_set_blocktime(before);
}

void attune_cpu_team_run(const struct attune_cpu_team *team, int64_t units, double operations, attune_cpu_body body,
                         const void *context) {
    attune_cpu_team_watch_forks();
    const int32_t threads = threads_for(team, units, operations);
    /* Not a parallel region of one thread: in a forked child even that would touch the pool. */
    if (threads <= 1) {
        run_alone(units, body, context);
    } else {
        run_spread(threads, units, body, context);
    }
}

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *attune_cpu_team_runtime(void) {
    return "OpenMP " TEXT(_OPENMP);
}
