/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700

#include "files_scratch.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "files/npy.h"

enum { PATH_BYTES = 512, PATHS = 8 };

static char folder[64];

static void require(bool condition, const char *what) {
    if (condition) {
        return;
    }
    perror(what);
    exit(EXIT_FAILURE);
}

void scratch_open(void) {
    strcpy(folder, "/tmp/attune-files-XXXXXX");
    require(mkdtemp(folder) != NULL, "mkdtemp");
}

const char *scratch_path(const char *name) {
    static char paths[PATHS][PATH_BYTES];
    static int next;
    char *path = paths[next++ % PATHS];
    snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return path;
}

const char *scratch_file(const char *name, const void *bytes, size_t size_bytes) {
    const char *path = scratch_path(name);
    FILE *file = fopen(path, "wb");
    require(file != NULL, path);
    require(fwrite(bytes, 1, size_bytes, file) == size_bytes, path);
    require(fclose(file) == 0, path);
    return path;
}

static int visit_entries(void (*visit)(const char *path)) {
    int count = 0;
    DIR *directory = opendir(folder);
    require(directory != NULL, folder);
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        count++;
        if (visit != NULL) {
            visit(scratch_path(entry->d_name));
        }
    }
    closedir(directory);
    return count;
}

int scratch_count(void) {
    return visit_entries(NULL);
}

static void remove_entry(const char *path) {
    require(remove(path) == 0, path);
}

void scratch_close(void) {
    visit_entries(remove_entry);
    require(rmdir(folder) == 0, folder);
}

static void append(struct file_bytes *file, const void *bytes, size_t size_bytes) {
    require(size_bytes <= sizeof file->bytes - file->size_bytes, "struct file_bytes");
    memcpy(file->bytes + file->size_bytes, bytes, size_bytes);
    file->size_bytes += size_bytes;
}

static void append_length(struct file_bytes *file, size_t length, int length_bytes) {
    for (int i = 0; i < length_bytes; i++) {
        const unsigned char byte = (unsigned char)((uint64_t)length >> (8 * i));
        append(file, &byte, 1);
    }
}

static void append_data(struct file_bytes *file, size_t data_bytes) {
    for (size_t i = 0; i < data_bytes; i++) {
        const unsigned char byte = (unsigned char)i;
        append(file, &byte, 1);
    }
}

struct file_bytes compose_npy(int version, const char *header, size_t data_bytes) {
    struct file_bytes file = {.size_bytes = 0};
    const char version_bytes[2] = {(char)version, 0};
    append(&file, "\x93NUMPY", 6);
    append(&file, version_bytes, 2);
    append_length(&file, strlen(header), version == 1 ? 2 : 4);
    append(&file, header, strlen(header));
    append_data(&file, data_bytes);
    return file;
}

struct file_bytes compose_safetensors(const char *header, size_t header_bytes, size_t data_bytes) {
    struct file_bytes file = {.size_bytes = 0};
    append_length(&file, header_bytes, 8);
    append(&file, header, header_bytes);
    append_data(&file, data_bytes);
    return file;
}

unsigned char *exact_copy(const struct file_bytes *file) {
    unsigned char *copy = malloc(file->size_bytes == 0 ? 1 : file->size_bytes);
    require(copy != NULL, "malloc");
    memcpy(copy, file->bytes, file->size_bytes);
    return copy;
}

struct array scratch_array(enum array_type type, int rank, const int64_t *shape) {
    const struct files_report silent = {"", NULL, 0};
    struct array array = {.type = type, .rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        array.shape[axis] = shape[axis];
    }
    require(array_measure(&array), "array_measure");
    require(array_allocate(&array, &silent) == FILES_OK, "array_allocate");
    for (int64_t i = 0; i < array.bytes; i++) {
        ((unsigned char *)array.data)[i] = (unsigned char)(i % 251);
    }
    return array;
}

void assert_arrays_equal(const struct array *left, const struct array *right) {
    assert_int_equal(left->type, right->type);
    assert_int_equal(left->rank, right->rank);
    for (int axis = 0; axis < left->rank; axis++) {
        assert_int_equal(left->shape[axis], right->shape[axis]);
    }
    assert_int_equal(left->count, right->count);
    assert_int_equal(left->bytes, right->bytes);
    if (left->bytes == 0) {
        assert_null(left->data);
        assert_null(right->data);
    } else {
        assert_memory_equal(left->data, right->data, (size_t)left->bytes);
    }
}

void assert_told(const char *message, const char *fragment) {
    if (strstr(message, fragment) == NULL) {
        fail_msg("'%s' does not say '%s'", message, fragment);
    }
}

enum files_status scratch_write_npy(const char *path, const struct array *array, char *message, size_t message_bytes) {
    struct staged_file staged = {0};
    const enum files_status status = npy_stage(path, array, &staged, message, message_bytes);
    if (status != FILES_OK) {
        return status;
    }
    return staged_files_commit(&(struct staged_file *){&staged}, 1, message, message_bytes, &(int){0});
}
