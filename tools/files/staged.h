/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_STAGED_H
#define ATTUNE_TOOLS_FILES_STAGED_H

#include "report.h"

/* A file that is written in full and does not bear its name yet: it lies beside its target. A
 * command with several outputs stages them all and then commits them, so that a failure leaves
 * none. All zeros is nothing staged. */
struct staged_file {
    const char *path; /* the caller's */
    char *target;     /* without links and dots: two outputs are one file if their targets are equal */
    char *temporary;  /* NULL: it bears its name */
    char *replaced;   /* during a commit: another name of what had the target's; NULL: nothing had it */
};

struct staged_part {
    const void *bytes;
    size_t size_bytes;
};

/* Writes the parts one after the other; `path` lives as long as the file is staged. A target that exists is left alone
 * until the commit; a link to a file stays a link, and that file is the target. FILES_INVALID if the folder cannot take
 * a file or the target is not a regular file, FILES_IO_ERROR if writing fails; then nothing is left behind. */
enum files_status staged_file_create(const char *path, const struct staged_part *parts, int part_count,
                                     const struct files_report *report, struct staged_file *out_staged);

/* Gives all files their names, each in one step in place of what had it. On failure `*out_failed`
 * is the one that could not be given it, and all targets are as they were, unless the file system
 * fails at that too. Either way nothing is staged any more. */
enum files_status staged_files_commit(struct staged_file *const *staged, int count, char *message, size_t message_bytes,
                                      int *out_failed);

/* Removes what was written. Legal if nothing is staged. */
void staged_file_discard(struct staged_file *staged);

#endif
