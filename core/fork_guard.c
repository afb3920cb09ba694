/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/fork_guard.h"

#include <stddef.h>

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct attune_fork_guard *first;

static void before_fork(void) {
    pthread_mutex_lock(&list_mutex);
    for (struct attune_fork_guard *guard = first; guard != NULL; guard = guard->next) {
        pthread_mutex_lock(&guard->mutex);
    }
}

static void after_fork_in_parent(void) {
    for (struct attune_fork_guard *guard = first; guard != NULL; guard = guard->next) {
        pthread_mutex_unlock(&guard->mutex);
    }
    pthread_mutex_unlock(&list_mutex);
}

static void after_fork_in_child(void) {
    for (struct attune_fork_guard *guard = first; guard != NULL; guard = guard->next) {
        guard->forget_threads(guard);
    }
    after_fork_in_parent();
}

static void watch_forks(void) {
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void attune_fork_guard_init(struct attune_fork_guard *guard, void (*forget_threads)(struct attune_fork_guard *guard)) {
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    pthread_mutex_init(&guard->mutex, NULL);
    guard->forget_threads = forget_threads;
    guard->previous = NULL;
    pthread_mutex_lock(&list_mutex);
    guard->next = first;
    if (first != NULL) {
        first->previous = guard;
    }
    first = guard;
    pthread_mutex_unlock(&list_mutex);
}

void attune_fork_guard_destroy(struct attune_fork_guard *guard) {
    pthread_mutex_lock(&list_mutex);
    if (guard->previous == NULL) {
        first = guard->next;
    } else {
        guard->previous->next = guard->next;
    }
    if (guard->next != NULL) {
        guard->next->previous = guard->previous;
    }
    pthread_mutex_unlock(&list_mutex);
    pthread_mutex_destroy(&guard->mutex);
}
