/*
 * Files that a command writes: all of them or none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_OUTPUTS_H
#define ATTUNE_TOOLS_OUTPUTS_H

#include "files/staged.h"
#include "tensors.h"

enum { OUTPUTS_MAX = 16 };

struct output {
    const char *flag; /* that asks for it: "--dq" */
    const char *path; /* NULL: it is not written */
    uint64_t checksum;
    struct staged_file staged;
};

/* All zeros is none. */
struct outputs {
    struct output item[OUTPUTS_MAX];
    int count;
};

/* Takes a contiguous tensor off the device and writes it beside its place. path: NULL for the checksum alone. */
enum tool_exit outputs_add(struct outputs *outputs, struct tensors *tensors, const char *flag, const char *path,
                           const attune_tensor *tensor);

/* The same of a text, a file in any case: path is not NULL. */
enum tool_exit outputs_add_text(struct outputs *outputs, const char *flag, const char *path, const char *text,
                                size_t size_bytes);

/* Puts the files in place. On failure none of them is, and what they were to replace is there. */
enum tool_exit outputs_commit(struct outputs *outputs);

/* Removes what is not in place. */
void outputs_release(struct outputs *outputs);

#endif
