/*
 * Which backends there are: built in, found as modules, or only known by name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_REGISTRY_H
#define ATTUNE_CORE_REGISTRY_H

#include "attune/backend.h"
#include "core/builtin.h"
#include "core/env.h"
#include "core/loader.h"
#include "core/vendor.h"

struct attune_backend_entry {
    char name[ATTUNE_NAME_MAX];
    char description[ATTUNE_REASON_MAX];
    int32_t priority;                   /* -1 for a backend that could not be asked */
    attune_status status;               /* ATTUNE_OK: backend is valid */
    char reason[ATTUNE_REASON_MAX];     /* why not */
    const struct attune_vendor *vendor; /* not NULL: nothing but a name; attune_vendor_refuse has the reason */
    attune_backend backend;
};

/* Never changes once it is made. */
struct attune_registry {
    int32_t count;
    struct attune_backend_entry entry[]; /* by priority, equal ones in the order in which they were found */
};

/* The process's registry. The first call looks for modules in settings->backend_path; later calls do not look again.
 * Errors: OUT_OF_MEMORY. */
attune_status attune_registry_get(const struct attune_settings *settings, const struct attune_registry **out_registry);

/* NULL: there is none of that name. */
const struct attune_backend_entry *attune_registry_find(const struct attune_registry *registry, const char *name);

/* Asks built-in backends and modules. Of several with one name the first that fits is kept. One that does not fit is
 * an entry with a reason, and not an error. From attune_host_alloc. Errors: OUT_OF_MEMORY. */
attune_status attune_registry_build(const struct attune_builtin_backend *builtins,
                                    const struct attune_module_list *modules, struct attune_registry **out_registry);

#endif
