/*
 * The grammar of selectors: "auto", "BACKEND", "BACKEND:INDEX", "BACKEND:NAME", and lists of these.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_SELECTOR_H
#define ATTUNE_CORE_SELECTOR_H

#include "attune/device.h"

enum attune_selector_kind {
    ATTUNE_SELECT_AUTO,
    ATTUNE_SELECT_BACKEND, /* its first device */
    ATTUNE_SELECT_INDEX,
    ATTUNE_SELECT_NAME
};

/* One entry of a list. */
struct attune_selector {
    enum attune_selector_kind kind;
    char text[2 * ATTUNE_NAME_MAX]; /* the entry as it was written */
    char backend[ATTUNE_NAME_MAX];
    int32_t index;
    char device_name[ATTUNE_NAME_MAX];
};

/* Reads the entry at *list and moves *list to the next one, or to NULL after the last. Returns NULL, or the rule that
 * the entry breaks; *list and out_selector are then undefined. */
const char *attune_selector_next(const char **list, struct attune_selector *out_selector);

#endif
