/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/args.h"

#include <string.h>

#include "core/status_internal.h"

attune_status attune_args_read_size(const char *type, const void *args, size_t *out_size) {
    if (args == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = NULL: must point to a struct", type);
    }
    size_t size;
    memcpy(&size, args, sizeof size);
    if (size < sizeof size || size > ATTUNE_ARGS_SIZE_MAX) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.struct_size = %zu: must be sizeof(%s), %zu to %d", type, size,
                           type, sizeof size, ATTUNE_ARGS_SIZE_MAX);
    }
    *out_size = size;
    return ATTUNE_OK;
}

attune_status attune_args_import(const char *type, const void *args, size_t known_size, void *out_args) {
    size_t size = 0;
    attune_status status = attune_args_read_size(type, args, &size);
    if (status != ATTUNE_OK) {
        return status;
    }
    const unsigned char *bytes = args;
    for (size_t at = known_size; at < size; at++) {
        if (bytes[at] != 0) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "%s has byte %zu of %zu set: must be 0, as this attune knows the first %zu bytes", type,
                               at, size, known_size);
        }
    }
    memset(out_args, 0, known_size);
    memcpy(out_args, args, size < known_size ? size : known_size);
    memcpy(out_args, &known_size, sizeof known_size);
    return ATTUNE_OK;
}

attune_status attune_args_export(const char *type, const void *value, size_t known_size, void *out_struct) {
    size_t size = 0;
    attune_status status = attune_args_read_size(type, out_struct, &size);
    if (status != ATTUNE_OK) {
        return status;
    }
    size_t copied = size < known_size ? size : known_size;
    memcpy(out_struct, value, copied);
    memset((unsigned char *)out_struct + copied, 0, size - copied);
    memcpy(out_struct, &size, sizeof size);
    return ATTUNE_OK;
}

attune_status attune_args_refuse_null(const char *name) {
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = NULL: must not be NULL", name);
}
