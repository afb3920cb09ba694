/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/vtable.h"

#include <string.h>

#include "core/status_internal.h"

#define END_OF(type, field) (offsetof(type, field) + sizeof((type){0}.field))

/* What the first version of ABI 1 had: no backend of that ABI has less. */
#define FIRST_TABLE_BYTES END_OF(attune_backend, extension)
#define FIRST_ROW_BYTES   END_OF(attune_kernel_row, kernel)

/* Selectors have room for the name, ':' and an index. */
#define NAME_LENGTH_MAX 48

typedef void (*any_function)(void);

static const struct {
    const char *name;
    size_t offset;
} mandatory[] = {
#define MANDATORY(entry)                                                                                               \
    { #entry, offsetof(attune_backend, entry) }
    MANDATORY(enumerate),     MANDATORY(device_open), MANDATORY(device_close), MANDATORY(device_limits),
    MANDATORY(memory_alloc),  MANDATORY(memory_free), MANDATORY(memory_copy),  MANDATORY(memory_fill),
    MANDATORY(memory_range),  MANDATORY(stream_open), MANDATORY(stream_close), MANDATORY(stream_sync),
    MANDATORY(event_open),    MANDATORY(event_close), MANDATORY(event_record), MANDATORY(event_wait),
    MANDATORY(event_elapsed), MANDATORY(kernels),     MANDATORY(plan_build),   MANDATORY(plan_release),
    MANDATORY(execute),
#undef MANDATORY
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

static attune_status check_entries(const attune_backend *backend) {
    for (size_t index = 0; index < sizeof mandatory / sizeof mandatory[0]; index++) {
        any_function entry;
        memcpy(&entry, (const char *)backend + mandatory[index].offset, sizeof entry);
        if (entry == NULL) {
            return attune_fail(ATTUNE_INCOMPATIBLE, "%s = NULL: a backend must have it", mandatory[index].name);
        }
    }
    return ATTUNE_OK;
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
    if (out_backend->description == NULL) {
        out_backend->description = "";
    }
    return ATTUNE_OK;
}
