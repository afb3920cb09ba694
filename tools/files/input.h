/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_INPUT_H
#define ATTUNE_TOOLS_FILES_INPUT_H

#include "report.h"

#include <stdint.h>

/* Bytes to read from: a regular file, or memory that holds what a file would. */
struct input {
    int descriptor;     /* -1 for memory */
    const void *memory; /* NULL for a file */
    int64_t size_bytes; /* of the whole */
};

/* Opens the file at `path`, links followed; input_close() releases it. FILES_INVALID if it cannot
 * be opened or is not a regular file, for whose size alone we may allocate. */
enum files_status input_open(const char *path, const struct files_report *report, struct input *out_input);

/* The `size_bytes` bytes at `memory`, which must outlive the input. Nothing to close. */
struct input input_from_memory(const void *memory, size_t size_bytes);

/* Copies bytes [offset_bytes, offset_bytes + bytes) to `out_bytes`. FILES_INVALID if the input ends
 * before that, FILES_IO_ERROR if the system fails. */
enum files_status input_read(const struct input *input, int64_t offset_bytes, int64_t bytes,
                             const struct files_report *report, void *out_bytes);

void input_close(struct input *input);

#endif
