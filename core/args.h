/*
 * Structs that cross the API: callers and library may have been compiled with different lengths of the same struct.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_ARGS_H
#define ATTUNE_CORE_ARGS_H

#include <stddef.h>

#include "attune/status.h"

/* More than any struct_size that is not a mistake, and little enough to read the tail of. */
#define ATTUNE_ARGS_SIZE_MAX 65536

/* Reads a struct's first field, struct_size: from that field's own size, as a struct that has grown since was as short
 * as that for all that the library knows, to ATTUNE_ARGS_SIZE_MAX.
 *
 * type: the struct's name, for the sentence. Errors: INVALID_ARGUMENT (NULL; struct_size). */
ATTUNE_MUST_CHECK attune_status attune_args_read_size(const char *type, const void *args, size_t *out_size);

/* Copies a caller's struct into the library's own: the fields that the caller does not know become 0, and bytes that
 * the library does not know must be 0. out_args holds known_size bytes, its struct_size becomes known_size.
 *
 * type: the struct's name, for the sentence.
 * Errors: INVALID_ARGUMENT (NULL; struct_size; an unknown field that is set). out_args is then not written. */
ATTUNE_MUST_CHECK attune_status attune_args_import(const char *type, const void *args, size_t known_size,
                                                   void *out_args);

/* Fills in a caller's struct from the library's own: writes the caller's struct_size bytes and no further, keeps that
 * field, and zeroes what the library does not know.
 *
 * Errors: INVALID_ARGUMENT (NULL; struct_size). out_struct is then not written. */
ATTUNE_MUST_CHECK attune_status attune_args_export(const char *type, const void *value, size_t known_size,
                                                   void *out_struct);

/* Fails with INVALID_ARGUMENT for an argument that must not be NULL. */
attune_status attune_args_refuse_null(const char *name);

#endif
