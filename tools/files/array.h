/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_ARRAY_H
#define ATTUNE_TOOLS_FILES_ARRAY_H

#include "report.h"

#include <stdbool.h>
#include <stdint.h>

/* The element types that files hold. */
enum array_type {
    ARRAY_NONE = 0,
    ARRAY_F64,
    ARRAY_F32,
    ARRAY_F16,
    ARRAY_BF16,
    ARRAY_E4M3,
    ARRAY_I64,
    ARRAY_I32,
    ARRAY_I16,
    ARRAY_I8,
    ARRAY_U64,
    ARRAY_U32,
    ARRAY_U16,
    ARRAY_U8,
    ARRAY_BOOL, /* one byte, 0 or 1; other bytes are kept as they are */
};

enum { ARRAY_MAX_RANK = 8, ARRAY_SHAPE_TEXT_BYTES = 192 };

/* An array in memory, little-endian, in C order. All zeros is an empty array that owns nothing. */
struct array {
    enum array_type type;
    int rank; /* 0 is a scalar: one element */
    int64_t shape[ARRAY_MAX_RANK];
    int64_t count; /* elements */
    int64_t bytes;
    void *data; /* from malloc, owned; NULL if bytes is 0 */
};

/* Bytes of one element. */
int array_type_bytes(enum array_type type);

/* "f32", "bool", ... */
const char *array_type_name(enum array_type type);

/* Sets count and bytes from type, rank and shape (sizes at least 0). False, and nothing written,
 * if the product of the sizes that are not 0, in bytes, does not fit in int64_t. */
bool array_measure(struct array *array);

/* The shape as a Python tuple: "()", "(3,)", "(3, 4)". */
void array_shape_format(const struct array *array, char out_text[ARRAY_SHAPE_TEXT_BYTES]);

/* Gives a measured array its memory, contents undefined. FILES_OUT_OF_MEMORY if there is none. */
enum files_status array_allocate(struct array *array, const struct files_report *report);

/* Rearranges data that lies in Fortran order into C order. It needs as much memory again while it
 * works; on FILES_OUT_OF_MEMORY the array is as it was. */
enum files_status array_reorder_from_fortran(struct array *array, const struct files_report *report);

/* Frees the data and zeroes the array. An array of all zeros is legal. */
void array_release(struct array *array);

#endif
