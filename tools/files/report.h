/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_REPORT_H
#define ATTUNE_TOOLS_FILES_REPORT_H

#include <stddef.h>

/* What a reader or a writer of files returns. */
enum files_status {
    FILES_OK = 0,
    FILES_INVALID,       /* the spelling, the path or what the file says is wrong */
    FILES_IO_ERROR,      /* the system failed while reading or writing */
    FILES_OUT_OF_MEMORY, /* what the file says is right, and there is no room for it */
};

/* Room for the longest sentence, which lists ten tensor names. */
enum { FILES_MESSAGE_BYTES = 1024 };

/* Where a reason goes. `file` starts each sentence; `text` is the caller's, `text_bytes` long, and
 * may be NULL if that is 0. */
struct files_report {
    const char *file;
    char *text;
    size_t text_bytes;
};

/* Writes "FILE: reason" and returns `status`. A sentence that is too long is cut; control
 * characters, which may come from the file, are replaced by '?'. */
enum files_status files_report_fail(const struct files_report *report, enum files_status status, const char *format,
                                    ...) __attribute__((format(printf, 3, 4)));

#endif
