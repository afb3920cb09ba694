/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_STAGED_H
#define ATTUNE_TOOLS_FILES_STAGED_H

#include "report.h"

/* A file that is written in full and does not bear its name yet: it lies beside its target. A
 * command with several outputs stages them all and then commits them, so that a failure leaves
 * none. All zeros is nothing staged. */
struct staged_file {
    char *target; /* without links and dots: two outputs are one file if their targets are equal */
    char *temporary;
};

struct staged_part {
    const void *bytes;
    size_t size_bytes;
};

/* Writes the parts one after the other. A target that exists is left alone until the commit; a link
 * to a file stays a link, and that file is the target. FILES_INVALID if the folder cannot take a
 * file or the target is not a regular file, FILES_IO_ERROR if writing fails; then nothing is left
 * behind. */
enum files_status staged_file_create(const char *path, const struct staged_part *parts, int part_count,
                                     const struct files_report *report, struct staged_file *out_staged);

/* Gives the file its name, in place of what had it, in one step. On failure nothing is left.
 * Either way nothing is staged any more. */
enum files_status staged_file_commit(struct staged_file *staged, const struct files_report *report);

/* Removes what was written. Legal if nothing is staged. */
void staged_file_discard(struct staged_file *staged);

#endif
