/*
 * Sets of strings that live as long as the process. They only grow, by one entry for each distinct text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_INTERN_H
#define ATTUNE_CORE_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>

struct attune_interned;

/* Zero-filled is empty. */
struct attune_intern_set {
    _Atomic(struct attune_interned *) newest;
};

/* The set's copy of text. out_added, which may be NULL, is true for exactly one caller, the first to bring the text.
 * Returns NULL if there is no memory. Threads: any; takes no lock, so that it works in a forked child. */
const char *attune_intern(struct attune_intern_set *set, const char *text, bool *out_added);

#endif
