/*
 * The locks of core that are not a device's own. They are free in the child of a fork, whatever other threads of the
 * parent were doing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_LOCK_H
#define ATTUNE_CORE_LOCK_H

/* In the order in which one thread may take several. */
enum attune_lock { ATTUNE_LOCK_REGISTRY, ATTUNE_LOCK_LOG_SINK, ATTUNE_LOCK_COUNT };

void attune_lock_take(enum attune_lock lock);
void attune_lock_release(enum attune_lock lock);

#endif
