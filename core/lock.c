/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/lock.h"

#include <pthread.h>

static pthread_mutex_t mutex[ATTUNE_LOCK_COUNT] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void take_all(void) {
    for (int lock = 0; lock < ATTUNE_LOCK_COUNT; lock++) {
        pthread_mutex_lock(&mutex[lock]);
    }
}

static void release_all(void) {
    for (int lock = ATTUNE_LOCK_COUNT; lock-- > 0;) {
        pthread_mutex_unlock(&mutex[lock]);
    }
}

/* Without this, a fork while another thread holds a lock would leave it held for ever in the child. */
static void watch_forks(void) {
    (void)pthread_atfork(take_all, release_all, release_all);
}

void attune_lock_take(enum attune_lock lock) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&mutex[lock]);
}

void attune_lock_release(enum attune_lock lock) {
    pthread_mutex_unlock(&mutex[lock]);
}
