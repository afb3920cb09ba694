/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "build with 64-bit file offsets");

static enum files_status check_regular(int descriptor, const struct files_report *report, int64_t *out_size_bytes) {
    struct stat about;
    if (fstat(descriptor, &about) != 0) {
        return files_report_fail(report, FILES_IO_ERROR, "cannot be examined: %s", strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        return files_report_fail(report, FILES_INVALID, "is %s; a regular file is needed",
                                 S_ISDIR(about.st_mode) ? "a directory" : "a device or a pipe");
    }
    *out_size_bytes = about.st_size;
    return FILES_OK;
}

enum files_status input_open(const char *path, const struct files_report *report, struct input *out_input) {
    /* O_NONBLOCK: opening a pipe that nobody writes to would wait for ever. */
    struct input input = {.descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (input.descriptor < 0) {
        return files_report_fail(report, FILES_INVALID, "cannot be opened: %s", strerror(errno));
    }
    const enum files_status status = check_regular(input.descriptor, report, &input.size_bytes);
    if (status != FILES_OK) {
        input_close(&input);
        return status;
    }
    *out_input = input;
    return FILES_OK;
}

struct input input_from_memory(const void *memory, size_t size_bytes) {
    return (struct input){.descriptor = -1, .memory = memory, .size_bytes = (int64_t)size_bytes};
}

static enum files_status read_file(int descriptor, int64_t offset_bytes, int64_t bytes,
                                   const struct files_report *report, unsigned char *out_bytes) {
    int64_t done_bytes = 0;
    while (done_bytes < bytes) {
        const ssize_t got =
            pread(descriptor, out_bytes + done_bytes, (size_t)(bytes - done_bytes), offset_bytes + done_bytes);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return files_report_fail(report, FILES_IO_ERROR, "cannot be read: %s", strerror(errno));
        }
        if (got == 0) {
            return files_report_fail(report, FILES_IO_ERROR, "shrank to %" PRId64 " bytes while it was read",
                                     offset_bytes + done_bytes);
        }
        done_bytes += got;
    }
    return FILES_OK;
}

enum files_status input_read(const struct input *input, int64_t offset_bytes, int64_t bytes,
                             const struct files_report *report, void *out_bytes) {
    if (offset_bytes > input->size_bytes || bytes > input->size_bytes - offset_bytes) {
        return files_report_fail(report, FILES_INVALID,
                                 "ends after %" PRId64 " bytes; %" PRId64 " bytes at offset %" PRId64 " are needed",
                                 input->size_bytes, bytes, offset_bytes);
    }
    if (input->descriptor >= 0) {
        return read_file(input->descriptor, offset_bytes, bytes, report, out_bytes);
    }
    if (bytes > 0) {
        memcpy(out_bytes, (const unsigned char *)input->memory + offset_bytes, (size_t)bytes);
    }
    return FILES_OK;
}

void input_close(struct input *input) {
    if (input->descriptor >= 0) {
        close(input->descriptor);
    }
    input->descriptor = -1;
}
