/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TESTS_FILES_SCRATCH_H
#define ATTUNE_TESTS_FILES_SCRATCH_H

#include "files/array.h"

/* A new, empty folder for a test of file reading or writing. Failures of the system itself end the
 * test program with a message: they say nothing about the code under test. */
void scratch_open(void);

/* Removes the folder and what it holds. */
void scratch_close(void);

/* The path of `name` in the folder; valid until eight more calls. */
const char *scratch_path(const char *name);

/* Makes the file `name` of `bytes`, and gives its path as scratch_path() does. */
const char *scratch_file(const char *name, const void *bytes, size_t size_bytes);

/* Stages a .npy file and commits it. */
enum files_status scratch_write_npy(const char *path, const struct array *array, char *message, size_t message_bytes);

/* How many entries the folder has. */
int scratch_count(void);

/* A file's bytes, made by hand so that they may lie. */
struct file_bytes {
    unsigned char bytes[1 << 15];
    size_t size_bytes;
};

/* A .npy file of any version from 1 on with any header text, and `data_bytes` bytes that count up.
 */
struct file_bytes compose_npy(int version, const char *header, size_t data_bytes);

/* A .safetensors file with any header text, NULs included, and `data_bytes` bytes that count up. */
struct file_bytes compose_safetensors(const char *header, size_t header_bytes, size_t data_bytes);

/* A copy in memory of exactly that size, so that ASan sees a read past the end. free() it. */
unsigned char *exact_copy(const struct file_bytes *file);

/* An array with memory, its bytes all different modulo 251. */
struct array scratch_array(enum array_type type, int rank, const int64_t *shape);

/* Fails the running cmocka test unless both arrays are the same in every field and byte. */
void assert_arrays_equal(const struct array *left, const struct array *right);

/* Fails the running cmocka test unless `message` has `fragment` in it. */
void assert_told(const char *message, const char *fragment);

#endif
