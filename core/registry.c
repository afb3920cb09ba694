/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/registry.h"

#include <stdatomic.h>
#include <string.h>

#include "core/host.h"
#include "core/lock.h"
#include "core/log_internal.h"
#include "core/status_internal.h"
#include "core/text.h"
#include "core/vtable.h"

#define PRIORITY_UNKNOWN (-1)

static struct attune_backend_entry *find_entry(struct attune_registry *registry, const char *name) {
    for (int32_t index = 0; index < registry->count; index++) {
        if (strcmp(registry->entry[index].name, name) == 0) {
            return &registry->entry[index];
        }
    }
    return NULL;
}

const struct attune_backend_entry *attune_registry_find(const struct attune_registry *registry, const char *name) {
    return find_entry((struct attune_registry *)registry, name);
}

static struct attune_backend_entry make_failed(const char *name, const char *origin, attune_status status,
                                               const char *reason) {
    struct attune_backend_entry entry = {.priority = PRIORITY_UNKNOWN, .status = status};
    attune_text_format(entry.name, sizeof entry.name, "%s", name);
    attune_text_format(entry.description, sizeof entry.description, "%s", origin);
    attune_text_format(entry.reason, sizeof entry.reason, "%s", reason);
    return entry;
}

static struct attune_backend_entry query_backend(attune_backend_query_fn query, const char *name, const char *origin) {
    struct attune_backend_entry entry = {.status = ATTUNE_OK};
    attune_sentence_clear();
    const attune_backend *table = query(ATTUNE_BACKEND_ABI_MAJOR, attune_host_services_get());
    if (table == NULL) {
        const char *reason = attune_last_error();
        return make_failed(name, origin, ATTUNE_INCOMPATIBLE,
                           reason[0] == '\0' ? "its query gave nothing, and no reason" : reason);
    }
    attune_status status = attune_vtable_import(table, &entry.backend);
    if (status != ATTUNE_OK) {
        return make_failed(name, origin, status, attune_last_error());
    }
    attune_text_format(entry.name, sizeof entry.name, "%s", entry.backend.name);
    attune_text_format(entry.description, sizeof entry.description, "%s", entry.backend.description);
    entry.priority = entry.backend.priority;
    return entry;
}

static struct attune_backend_entry query_module(const struct attune_module *module) {
    return module->query == NULL ? make_failed(module->name, module->path, module->status, module->reason)
                                 : query_backend(module->query, module->name, module->path);
}

/* A backend that does not fit never hides one that does. */
static void add_entry(struct attune_registry *registry, const struct attune_backend_entry *entry, const char *origin) {
    struct attune_backend_entry *taken = find_entry(registry, entry->name);
    if (taken != NULL && taken->status != ATTUNE_OK && entry->status == ATTUNE_OK) {
        *taken = *entry;
    } else if (taken != NULL) {
        attune_log_write(ATTUNE_LOG_DEBUG, "%s: passed over: there is a backend %s already", origin, entry->name);
    } else {
        registry->entry[registry->count++] = *entry;
        if (entry->status != ATTUNE_OK) {
            attune_log_write(ATTUNE_LOG_WARN, "backend %s (%s) cannot be used: %s", entry->name, origin, entry->reason);
        }
    }
}

static void add_vendors(struct attune_registry *registry) {
    const struct attune_vendor *vendor;
    for (int32_t index = 0; (vendor = attune_vendor_at(index)) != NULL; index++) {
        if (find_entry(registry, vendor->name) == NULL) {
            struct attune_backend_entry entry =
                make_failed(vendor->name, vendor->description, ATTUNE_UNAVAILABLE, "not in this build");
            entry.priority = vendor->priority;
            entry.vendor = vendor;
            registry->entry[registry->count++] = entry;
        }
    }
}

static void sort_by_priority(struct attune_registry *registry) {
    for (int32_t index = 1; index < registry->count; index++) {
        struct attune_backend_entry moved = registry->entry[index];
        int32_t at = index;
        for (; at > 0 && registry->entry[at - 1].priority < moved.priority; at--) {
            registry->entry[at] = registry->entry[at - 1];
        }
        registry->entry[at] = moved;
    }
}

static int32_t count_candidates(const struct attune_builtin_backend *builtins,
                                const struct attune_module_list *modules) {
    int32_t count = modules->count;
    while (builtins->name != NULL) {
        builtins++;
        count++;
    }
    for (int32_t index = 0; attune_vendor_at(index) != NULL; index++) {
        count++;
    }
    return count;
}

attune_status attune_registry_build(const struct attune_builtin_backend *builtins,
                                    const struct attune_module_list *modules, struct attune_registry **out_registry) {
    size_t entries_bytes = (size_t)count_candidates(builtins, modules) * sizeof(struct attune_backend_entry);
    struct attune_registry *registry = attune_host_alloc(sizeof *registry + entries_bytes);
    if (registry == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for the list of backends");
    }
    for (const struct attune_builtin_backend *builtin = builtins; builtin->name != NULL; builtin++) {
        struct attune_backend_entry entry = query_backend(builtin->query, builtin->name, "built in");
        add_entry(registry, &entry, "built in");
    }
    for (int32_t index = 0; index < modules->count; index++) {
        struct attune_backend_entry entry = query_module(&modules->modules[index]);
        add_entry(registry, &entry, modules->modules[index].path);
    }
    add_vendors(registry);
    sort_by_priority(registry);
    *out_registry = registry;
    return ATTUNE_OK;
}

/* Opening a file twice is harmless, so it is done outside the lock, where a library's own start-up code cannot meet it.
 * Queries are made under the lock, so that a backend is asked once. */
attune_status attune_registry_get(const struct attune_settings *settings, const struct attune_registry **out_registry) {
    static _Atomic(struct attune_registry *) published;
    struct attune_registry *registry = atomic_load(&published);
    if (registry != NULL) {
        *out_registry = registry;
        return ATTUNE_OK;
    }
    struct attune_module_list modules;
    attune_status status = attune_loader_open_modules(settings->backend_path, &modules);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_lock_take(ATTUNE_LOCK_REGISTRY);
    registry = atomic_load(&published);
    if (registry == NULL) {
        status = attune_registry_build(attune_builtin_backends, &modules, &registry);
        atomic_store(&published, registry);
    }
    attune_lock_release(ATTUNE_LOCK_REGISTRY);
    attune_loader_free_list(&modules);
    *out_registry = registry;
    return status;
}
