/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/env.h"
#include "core/host.h"
#include "core/status_internal.h"

#define KEY_BYTES_MAX 200 /* with the temporary name's ending under what file systems allow a name */

/* In the machine's own byte order: a file from another one is a damaged file. */
struct file_header {
    char magic[8];
    uint64_t size_bytes;
    uint64_t checksum;
};

static const char magic[8] = "attune1";

/* FNV-1a, 64 bits (draft-eastlake-fnv). It finds damage, not forgery: who can write here can run code anyway. */
static uint64_t checksum_add(uint64_t checksum, const void *bytes, size_t size) {
    const unsigned char *byte = bytes;
    for (size_t index = 0; index < size; index++) {
        checksum = (checksum ^ byte[index]) * UINT64_C(0x100000001b3);
    }
    return checksum;
}

/* The key is part of it, so that a file under another's name is a damaged one. */
static uint64_t checksum_of(const char *key, const void *bytes, size_t size) {
    uint64_t checksum = checksum_add(UINT64_C(0xcbf29ce484222325), key, strlen(key));
    return checksum_add(checksum, bytes, size);
}

static attune_status check_key(const char *key) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
    size_t length = key == NULL ? 0 : strnlen(key, KEY_BYTES_MAX + 1);
    if (length == 0 || length > KEY_BYTES_MAX || key[0] == '.' || strspn(key, letters) != length) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "key = \"%.200s\": must be 1 to %d of a-z, 0-9, _, . and -, and not begin with .",
                           key == NULL ? "" : key, KEY_BYTES_MAX);
    }
    return ATTUNE_OK;
}

static bool read_all(int file, void *out_bytes, size_t size) {
    unsigned char *at = out_bytes;
    while (size > 0) {
        ssize_t count = read(file, at, size);
        if (count <= 0 && !(count < 0 && errno == EINTR)) {
            return false;
        }
        at += count > 0 ? count : 0;
        size -= count > 0 ? (size_t)count : 0;
    }
    return true;
}

static bool write_all(int file, const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    while (size > 0) {
        ssize_t count = write(file, at, size);
        if (count < 0 && errno != EINTR) {
            return false;
        }
        at += count > 0 ? count : 0;
        size -= count > 0 ? (size_t)count : 0;
    }
    return true;
}

/* Whether the file holds a header that tells its length truly. */
static bool read_header(int file, struct file_header *out_header) {
    struct stat info;
    return fstat(file, &info) == 0 && S_ISREG(info.st_mode) && read_all(file, out_header, sizeof *out_header) &&
           memcmp(out_header->magic, magic, sizeof magic) == 0 &&
           (uint64_t)info.st_size - sizeof *out_header == out_header->size_bytes;
}

static attune_status read_content(int file, const char *key, void **out_bytes, size_t *out_size) {
    struct file_header header;
    if (!read_header(file, &header) || header.size_bytes > SIZE_MAX) {
        return attune_fail(ATTUNE_NOT_FOUND, "cache file %s is damaged", key);
    }
    size_t size = (size_t)header.size_bytes;
    void *bytes = attune_host_alloc(size);
    if (bytes == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for cache file %s, %zu bytes", key, size);
    }
    if (!read_all(file, bytes, size) || checksum_of(key, bytes, size) != header.checksum) {
        attune_host_free(bytes);
        return attune_fail(ATTUNE_NOT_FOUND, "cache file %s is damaged", key);
    }
    *out_bytes = bytes;
    *out_size = size;
    return ATTUNE_OK;
}

attune_status attune_cache_file_read(const char *key, void **out_bytes, size_t *out_size) {
    attune_status status = check_key(key);
    if (status != ATTUNE_OK) {
        return status;
    }
    char folder[PATH_MAX];
    char path[PATH_MAX + KEY_BYTES_MAX + 1];
    if (!attune_env_cache_dir(folder, sizeof folder)) {
        return attune_fail(ATTUNE_NOT_FOUND, "there is no cache folder: ATTUNE_CACHE_DIR and HOME are unset");
    }
    snprintf(path, sizeof path, "%s/%s", folder, key);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* where a pipe lies, nobody may ever write */
    if (file < 0) {
        return attune_fail(ATTUNE_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    status = read_content(file, key, out_bytes, out_size);
    close(file);
    return status;
}

static bool have_folder(const char *path) {
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

static bool make_folder(const char *path) {
    if (have_folder(path)) {
        return true;
    }
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (errno != ENOENT || slash == NULL || slash == parent) {
        return false;
    }
    *slash = '\0';
    return have_folder(parent) && have_folder(path);
}

/* Not synchronised to the disk: a file that a crash cut short fails its checksum, and is written again. */
static bool write_file(const char *temporary_path, int file, const char *path, const char *key, const void *bytes,
                       size_t size) {
    struct file_header header = {.size_bytes = size, .checksum = checksum_of(key, bytes, size)};
    memcpy(header.magic, magic, sizeof magic);
    bool written = write_all(file, &header, sizeof header) && write_all(file, bytes, size);
    written = close(file) == 0 && written;
    return written && rename(temporary_path, path) == 0;
}

attune_status attune_cache_file_write(const char *key, const void *bytes, size_t size) {
    attune_status status = check_key(key);
    if (status != ATTUNE_OK) {
        return status;
    }
    char folder[PATH_MAX];
    char path[PATH_MAX + KEY_BYTES_MAX + 1];
    char temporary_path[sizeof path + sizeof ".XXXXXX"];
    if (!attune_env_cache_dir(folder, sizeof folder)) {
        return attune_fail(ATTUNE_UNAVAILABLE, "there is no cache folder: ATTUNE_CACHE_DIR and HOME are unset");
    }
    if (!make_folder(folder)) {
        return attune_fail(ATTUNE_UNAVAILABLE, "%s: %s", folder, strerror(errno));
    }
    snprintf(path, sizeof path, "%s/%s", folder, key);
    snprintf(temporary_path, sizeof temporary_path, "%s/.%s.XXXXXX", folder, key);
    int file = mkstemp(temporary_path);
    if (file < 0) {
        return attune_fail(ATTUNE_UNAVAILABLE, "%s: %s", folder, strerror(errno));
    }
    if (!write_file(temporary_path, file, path, key, bytes, size)) {
        int error = errno;
        unlink(temporary_path);
        return attune_fail(ATTUNE_UNAVAILABLE, "%s: %s", path, strerror(error));
    }
    return ATTUNE_OK;
}
