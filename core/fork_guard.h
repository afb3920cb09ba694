/*
 * A mutex that a fork leaves usable. While other threads hold their locks, fork() would copy them locked for ever; a
 * guard is taken around the fork, so that in the child it is free and what it guards is whole. What threads that the
 * child does not have were doing is for the owner to forget.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_FORK_GUARD_H
#define ATTUNE_CORE_FORK_GUARD_H

#include <pthread.h>

struct attune_fork_guard {
    pthread_mutex_t mutex;
    void (*forget_threads)(struct attune_fork_guard *guard); /* called in the child with the mutex held */
    struct attune_fork_guard *next;
    struct attune_fork_guard *previous;
};

/* No thread takes a second guard while it holds one. */
void attune_fork_guard_init(struct attune_fork_guard *guard, void (*forget_threads)(struct attune_fork_guard *guard));
void attune_fork_guard_destroy(struct attune_fork_guard *guard);

#endif
