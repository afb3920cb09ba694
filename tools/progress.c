/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread_condattr_setclock */

#include "progress.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "failure.h"

enum { FIRST_SECONDS = 2 };

static struct {
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t stopped;
    bool is_running;
    bool stop;
    const char *stage;
    int64_t done;
    int64_t total; /* 0: not counted */
    struct timespec start;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .stage = "starting"};

static void print_line(int64_t seconds) {
    fprintf(stderr, "attune %s: %s", tool_command(), watch.stage);
    if (watch.total > 1) {
        fprintf(stderr, ", %" PRId64 " of %" PRId64 " done", watch.done, watch.total);
    }
    fprintf(stderr, ", %" PRId64 " s\n", seconds);
}

static void *watch_run(void *unused) {
    (void)unused;
    pthread_mutex_lock(&watch.lock);
    for (int64_t seconds = FIRST_SECONDS; !watch.stop; seconds *= 2) {
        struct timespec until = watch.start;
        until.tv_sec += (time_t)seconds;
        int waited = 0;
        while (!watch.stop && waited == 0) {
            waited = pthread_cond_timedwait(&watch.stopped, &watch.lock, &until);
        }
        if (!watch.stop) {
            print_line(seconds);
        }
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

void progress_start(void) {
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes)) {
        return;
    }
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    clock_gettime(CLOCK_MONOTONIC, &watch.start);
    watch.stop = false;
    if (!pthread_cond_init(&watch.stopped, &attributes)) {
        watch.is_running = !pthread_create(&watch.thread, NULL, watch_run, NULL);
    }
    pthread_condattr_destroy(&attributes);
}

void progress_stage(const char *stage) {
    pthread_mutex_lock(&watch.lock);
    watch.stage = stage;
    watch.done = watch.total = 0;
    pthread_mutex_unlock(&watch.lock);
}

void progress_count(int64_t done, int64_t total) {
    pthread_mutex_lock(&watch.lock);
    watch.done = done;
    watch.total = total;
    pthread_mutex_unlock(&watch.lock);
}

void progress_stop(void) {
    if (!watch.is_running) {
        return;
    }
    pthread_mutex_lock(&watch.lock);
    watch.stop = true;
    pthread_cond_signal(&watch.stopped);
    pthread_mutex_unlock(&watch.lock);
    pthread_join(watch.thread, NULL);
    pthread_cond_destroy(&watch.stopped);
    watch.is_running = false;
}
