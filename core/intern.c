/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/intern.h"

#include <stdlib.h>
#include <string.h>

struct attune_interned {
    struct attune_interned *next;
    char text[];
};

static struct attune_interned *find(struct attune_interned *newest, const char *text) {
    while (newest != NULL && strcmp(newest->text, text) != 0) {
        newest = newest->next;
    }
    return newest;
}

static struct attune_interned *copy(const char *text) {
    size_t bytes = strlen(text) + 1;
    struct attune_interned *entry = malloc(sizeof *entry + bytes);
    if (entry != NULL) {
        memcpy(entry->text, text, bytes);
    }
    return entry;
}

const char *attune_intern(struct attune_intern_set *set, const char *text, bool *out_added) {
    struct attune_interned *newest = atomic_load(&set->newest);
    struct attune_interned *found = find(newest, text);
    struct attune_interned *own = found == NULL ? copy(text) : NULL;
    bool added = false;
    while (found == NULL && own != NULL && !added) {
        own->next = newest;
        added = atomic_compare_exchange_weak(&set->newest, &newest, own);
        /* What others added in the meantime may be the same text. */
        found = added ? own : find(newest, text);
    }
    if (!added) {
        free(own);
    }
    if (out_added != NULL) {
        *out_added = added;
    }
    return found == NULL ? NULL : found->text;
}
