/* SPDX-License-Identifier: Apache-2.0 */
/* realpath belongs to the XSI part of POSIX. */
#define _XOPEN_SOURCE 700

#include "staged.h"

#include "allocate.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ".attune-" pid "-" attempt ".tmp" and its NUL; it never depends on the length of the target's own
 * name, which may be as long as the file system allows. */
enum { TEMPORARY_NAME_BYTES = 64, TEMPORARY_ATTEMPTS = 100 };

static enum files_status fail_to_resolve(const struct files_report *report) {
    return files_report_fail(report, errno == ENOMEM ? FILES_OUT_OF_MEMORY : FILES_INVALID, "cannot be an output: %s",
                             strerror(errno));
}

/* The folder without links and dots, so that a file that is not there yet has one name too. */
static enum files_status resolve_new(const char *path, const struct files_report *report, char **out_target) {
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char *folder_path = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    char *folder = folder_path == NULL ? NULL : realpath(folder_path, NULL);
    free(folder_path);
    if (folder == NULL) {
        return fail_to_resolve(report);
    }
    const size_t bytes = strlen(folder) + strlen(name) + 2;
    void *target = NULL;
    const enum files_status status = files_allocate((int64_t)bytes, report, &target);
    if (status == FILES_OK) {
        snprintf(target, bytes, "%s/%s", folder, name);
    }
    free(folder);
    *out_target = target;
    return status;
}

static enum files_status find_target(const char *path, const struct files_report *report, char **out_target) {
    struct stat about;
    const bool exists = stat(path, &about) == 0;
    if (!exists && errno != ENOENT) {
        return fail_to_resolve(report);
    }
    if (!exists) {
        return resolve_new(path, report, out_target);
    }
    /* Renaming over a device, /dev/null above all, would replace it. */
    if (!S_ISREG(about.st_mode)) {
        return files_report_fail(report, FILES_INVALID, "is %s; an output is a regular file",
                                 S_ISDIR(about.st_mode) ? "a directory" : "a device or a pipe");
    }
    *out_target = realpath(path, NULL);
    return *out_target == NULL ? fail_to_resolve(report) : FILES_OK;
}

/* mkstemp would make a file that only its owner may read, whatever the umask says. */
static enum files_status open_temporary(const char *target, const struct files_report *report, char **out_temporary,
                                        int *out_descriptor) {
    const char *slash = strrchr(target, '/');
    const int folder_length = slash == NULL ? 0 : (int)(slash - target) + 1;
    const size_t bytes = (size_t)folder_length + TEMPORARY_NAME_BYTES;
    void *name = NULL;
    const enum files_status status = files_allocate((int64_t)bytes, report, &name);
    if (status != FILES_OK) {
        return status;
    }

    int descriptor = -1;
    for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS; attempt++) {
        snprintf(name, bytes, "%.*s.attune-%ld-%d.tmp", folder_length, target, (long)getpid(), attempt);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor >= 0 || errno != EEXIST) {
            break;
        }
    }
    if (descriptor < 0) {
        const int error = errno;
        free(name);
        return files_report_fail(report, FILES_INVALID, "no file can be made in its folder: %s", strerror(error));
    }
    *out_temporary = name;
    *out_descriptor = descriptor;
    return FILES_OK;
}

static bool write_all(int descriptor, const struct staged_part *part) {
    size_t done_bytes = 0;
    while (done_bytes < part->size_bytes) {
        const ssize_t put =
            write(descriptor, (const unsigned char *)part->bytes + done_bytes, part->size_bytes - done_bytes);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        done_bytes += put > 0 ? (size_t)put : 0;
    }
    return true;
}

/* Closes the descriptor in any case: what a network file system could not store, close tells. */
static enum files_status write_parts(int descriptor, const struct staged_part *parts, int part_count,
                                     const struct files_report *report) {
    int error = 0;
    for (int i = 0; i < part_count && error == 0; i++) {
        error = write_all(descriptor, &parts[i]) ? 0 : errno;
    }
    if (close(descriptor) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        return files_report_fail(report, FILES_IO_ERROR, "cannot be written: %s", strerror(error));
    }
    return FILES_OK;
}

enum files_status staged_file_create(const char *path, const struct staged_part *parts, int part_count,
                                     const struct files_report *report, struct staged_file *out_staged) {
    struct staged_file staged = {.path = path};
    int descriptor = -1;
    enum files_status status = find_target(path, report, &staged.target);
    if (status == FILES_OK) {
        status = open_temporary(staged.target, report, &staged.temporary, &descriptor);
    }
    if (status == FILES_OK) {
        status = write_parts(descriptor, parts, part_count, report);
    }
    if (status == FILES_OK) {
        *out_staged = staged;
    } else {
        staged_file_discard(&staged);
    }
    return status;
}

/* Gives what has the target's name another one as well, so that it can be put back. Where the file system has no links
 * it has only that one until the new file is in place. */
static enum files_status keep_replaced(struct staged_file *staged, const struct files_report *report) {
    static const char suffix[] = ".old";
    struct stat about;
    if (lstat(staged->target, &about) != 0 || !S_ISREG(about.st_mode)) {
        return FILES_OK;
    }
    void *name = NULL;
    const size_t bytes = strlen(staged->temporary) + sizeof suffix;
    const enum files_status status = files_allocate((int64_t)bytes, report, &name);
    if (status != FILES_OK) {
        return status;
    }
    snprintf(name, bytes, "%s%s", staged->temporary, suffix);
    if (link(staged->target, name) != 0 && rename(staged->target, name) != 0) {
        const int error = errno;
        free(name);
        return files_report_fail(report, FILES_IO_ERROR, "cannot be replaced: %s", strerror(error));
    }
    staged->replaced = name;
    return FILES_OK;
}

static enum files_status take_name(struct staged_file *staged, const struct files_report *report) {
    if (rename(staged->temporary, staged->target) != 0) {
        return files_report_fail(report, FILES_IO_ERROR, "cannot take its name: %s", strerror(errno));
    }
    free(staged->temporary);
    staged->temporary = NULL;
    return FILES_OK;
}

static void put_back(struct staged_file *staged) {
    if (staged->replaced == NULL) {
        if (staged->temporary == NULL) {
            unlink(staged->target);
        }
    } else if (rename(staged->replaced, staged->target) != 0) {
        free(staged->replaced); /* what it names stays, if only there */
        staged->replaced = NULL;
    }
}

enum files_status staged_files_commit(struct staged_file *const *staged, int count, char *message, size_t message_bytes,
                                      int *out_failed) {
    enum files_status status = FILES_OK;
    int done = 0;
    while (done < count && status == FILES_OK) {
        const struct files_report report = {staged[done]->path, message, message_bytes};
        if (done < count - 1) {
            status = keep_replaced(staged[done], &report);
        }
        if (status == FILES_OK) {
            status = take_name(staged[done], &report);
        }
        if (status != FILES_OK) {
            *out_failed = done;
        }
        done++;
    }
    for (int i = 0; i < done; i++) {
        if (status != FILES_OK) {
            put_back(staged[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        staged_file_discard(staged[i]);
    }
    return status;
}

void staged_file_discard(struct staged_file *staged) {
    if (staged->temporary != NULL) {
        unlink(staged->temporary);
    }
    if (staged->replaced != NULL) {
        unlink(staged->replaced);
    }
    free(staged->replaced);
    free(staged->temporary);
    free(staged->target);
    *staged = (struct staged_file){0};
}
