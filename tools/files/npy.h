/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_NPY_H
#define ATTUNE_TOOLS_FILES_NPY_H

#include "array.h"
#include "staged.h"

/* .npy files: versions 1.0, 2.0 and 3.0, little-endian numbers and booleans, up to eight axes. A
 * file that says anything else than what it holds, a byte too many or too few included, is
 * FILES_INVALID. Outputs are written on success only; `message` then is untouched, else it gets
 * the reason, at most `message_bytes` bytes with its NUL. */

/* Reads the file at `path`; Fortran order becomes C order. array_release() frees the result. */
enum files_status npy_read(const char *path, struct array *out_array, char *message, size_t message_bytes);

/* The same from `size_bytes` bytes in memory, which stay the caller's. */
enum files_status npy_parse(const void *bytes, size_t size_bytes, struct array *out_array, char *message,
                            size_t message_bytes);

/* Writes `array` beside `path`, for staged_files_commit() to put in place: version 1.0, C order.
 * FILES_INVALID for bf16 and e4m3, which .npy cannot name. The array stays the caller's. */
enum files_status npy_stage(const char *path, const struct array *array, struct staged_file *out_staged, char *message,
                            size_t message_bytes);

#endif
