/*
 * Tensors of a .safetensors file by name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ENCODER_SAFETENSORS_H
#define ENCODER_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* All zeros is no file. */
struct safetensors {
    struct cJSON *header;
    char *bytes; /* from malloc: what follows the header */
    size_t size;
};

/* 0, or -1 after a sentence on stderr; so for all below. */
int safetensors_open(const char *path, struct safetensors *out_file);
void safetensors_close(struct safetensors *file);

/* Copies rows x columns elements of f32 into memory of the caller. rows 1: the tensor may have one axis. */
int safetensors_read(const struct safetensors *file, const char *name, int64_t rows, int64_t columns,
                     float *out_values);

#endif
