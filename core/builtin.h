/*
 * The backends that are linked into the library.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_BUILTIN_H
#define ATTUNE_CORE_BUILTIN_H

#include "attune/backend.h"

struct attune_builtin_backend {
    const char *name;
    attune_backend_query_fn query;
};

/* Ends with a name of NULL. */
extern const struct attune_builtin_backend attune_builtin_backends[];

#endif
