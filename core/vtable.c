/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/vtable.h"

#include <string.h>

#include "core/status_internal.h"
#include "core/vtable_fill.h"

#define END_OF(type, field) (offsetof(type, field) + sizeof((type){0}.field))

/* What the first version of ABI 1 had: no backend of that ABI has less. */
#define FIRST_TABLE_BYTES END_OF(attune_backend, extension)
#define FIRST_ROW_BYTES   END_OF(attune_kernel_row, kernel)

/* Selectors have room for the name, ':' and an index. */
#define NAME_LENGTH_MAX 48

typedef void (*any_function)(void);

enum group { MANDATORY, MEMORY, STREAMS, EVENTS, GROUP_COUNT };

static const struct entry {
    enum group group;
    const char *name;
    size_t offset;
} entries[] = {
#define ENTRY(group, entry)                                                                                            \
    { group, #entry, offsetof(attune_backend, entry) }
    ENTRY(MANDATORY, enumerate), ENTRY(MANDATORY, device_open), ENTRY(MANDATORY, device_limits),
    ENTRY(MANDATORY, kernels),   ENTRY(MANDATORY, plan_build),  ENTRY(MANDATORY, plan_release),
    ENTRY(MANDATORY, execute),   ENTRY(MEMORY, memory_alloc),   ENTRY(MEMORY, memory_free),
    ENTRY(MEMORY, memory_copy),  ENTRY(MEMORY, memory_fill),    ENTRY(MEMORY, memory_range),
    ENTRY(STREAMS, stream_open), ENTRY(STREAMS, stream_close),  ENTRY(STREAMS, stream_sync),
    ENTRY(EVENTS, event_open),   ENTRY(EVENTS, event_close),    ENTRY(EVENTS, event_record),
    ENTRY(EVENTS, event_wait),   ENTRY(EVENTS, event_elapsed),
#undef ENTRY
};

static attune_status check_layout(const attune_backend *backend) {
    if (backend->struct_size < END_OF(attune_backend, abi_major)) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "struct_size = %zu: must be at least %zu", backend->struct_size,
                           FIRST_TABLE_BYTES);
    }
    if (backend->abi_major != ATTUNE_BACKEND_ABI_MAJOR) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "abi_major = %d: must be %d, as this attune has it",
                           (int)backend->abi_major, ATTUNE_BACKEND_ABI_MAJOR);
    }
    if (backend->struct_size < FIRST_TABLE_BYTES) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "struct_size = %zu: must be at least %zu", backend->struct_size,
                           FIRST_TABLE_BYTES);
    }
    if (backend->kernel_row_size < FIRST_ROW_BYTES) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "kernel_row_size = %zu: must be at least %zu", backend->kernel_row_size,
                           FIRST_ROW_BYTES);
    }
    return ATTUNE_OK;
}

static attune_status check_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t length = name == NULL ? 0 : strlen(name);
    if (length == 0 || length > NAME_LENGTH_MAX || strspn(name, letters) != length || strcmp(name, "auto") == 0) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "name = \"%.60s\": must be 1 to %d of a-z, 0-9 and _, and not auto",
                           name == NULL ? "" : name, NAME_LENGTH_MAX);
    }
    return ATTUNE_OK;
}

static bool is_null(const attune_backend *backend, const struct entry *entry) {
    any_function function;
    memcpy(&function, (const char *)backend + entry->offset, sizeof function);
    return function == NULL;
}

/* Of a group all entries are there, or none. */
static attune_status check_group(const attune_backend *backend, enum group group) {
    const char *absent = NULL;
    const char *present = NULL;
    for (size_t index = 0; index < sizeof entries / sizeof entries[0]; index++) {
        if (entries[index].group == group) {
            *(is_null(backend, &entries[index]) ? &absent : &present) = entries[index].name;
        }
    }
    if (absent != NULL && group == MANDATORY) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "%s = NULL: a backend must have it", absent);
    }
    if (absent != NULL && present != NULL) {
        return attune_fail(ATTUNE_INCOMPATIBLE, "%s = NULL: must be there, as %s is", absent, present);
    }
    return ATTUNE_OK;
}

/* What core puts in place of memory and events is done when a call returns: a queue would not wait for it. */
static attune_status check_queue(const attune_backend *backend) {
    const bool needs_none = backend->memory_alloc == NULL || backend->event_open == NULL;
    if (backend->stream_open == NULL || !needs_none) {
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INCOMPATIBLE, "%s = NULL: must be there, as stream_open is",
                       backend->memory_alloc == NULL ? "memory_alloc" : "event_open");
}

static attune_status check_entries(const attune_backend *backend) {
    for (int group = MANDATORY; group < GROUP_COUNT; group++) {
        attune_status status = check_group(backend, (enum group)group);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return check_queue(backend);
}

attune_status attune_vtable_import(const attune_backend *backend, attune_backend *out_backend) {
    attune_status status = check_layout(backend);
    if (status == ATTUNE_OK) {
        status = check_name(backend->name);
    }
    if (status == ATTUNE_OK) {
        status = check_entries(backend);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t known = sizeof *out_backend;
    memset(out_backend, 0, known);
    memcpy(out_backend, backend, backend->struct_size < known ? backend->struct_size : known);
    out_backend->struct_size = known;
    attune_vtable_fill(out_backend);
    if (out_backend->description == NULL) {
        out_backend->description = "";
    }
    return ATTUNE_OK;
}
