/*
 * A file is eight bytes with the header's length, the header in JSON, and the tensors' bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "safetensors.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s\n", what, why);
    return -1;
}

/* The whole file, from malloc. */
static char *read_whole(const char *path, size_t *out_size) {
    FILE *stream = fopen(path, "rb");
    char *bytes = NULL;
    long size = stream && fseek(stream, 0, SEEK_END) == 0 ? ftell(stream) : -1;
    if (size > 0 && fseek(stream, 0, SEEK_SET) == 0) {
        bytes = malloc((size_t)size);
    }
    if (bytes && fread(bytes, 1, (size_t)size, stream) != (size_t)size) {
        free(bytes);
        bytes = NULL;
    }
    if (stream) {
        fclose(stream);
    }
    *out_size = bytes ? (size_t)size : 0;
    return bytes;
}

int safetensors_open(const char *path, struct safetensors *out_file) {
    size_t size;
    uint64_t header_size;
    char *bytes = read_whole(path, &size);
    if (!bytes) {
        return fail(path, "cannot be read");
    }
    memcpy(&header_size, bytes, size >= sizeof header_size ? sizeof header_size : 0);
    if (size < sizeof header_size || header_size > size - sizeof header_size) {
        free(bytes);
        return fail(path, "is not a .safetensors file");
    }
    out_file->header = cJSON_ParseWithLength(bytes + sizeof header_size, (size_t)header_size);
    out_file->size = size - sizeof header_size - (size_t)header_size;
    memmove(bytes, bytes + size - out_file->size, out_file->size);
    out_file->bytes = bytes;
    return out_file->header ? 0 : fail(path, "its header is not JSON");
}

void safetensors_close(struct safetensors *file) {
    cJSON_Delete(file->header);
    free(file->bytes);
    *file = (struct safetensors){0};
}

static double number(const cJSON *list, int index) {
    const cJSON *item = cJSON_GetArrayItem(list, index);
    return cJSON_IsNumber(item) ? item->valuedouble : -1;
}

int safetensors_read(const struct safetensors *file, const char *name, int64_t rows, int64_t columns,
                     float *out_values) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(file->header, name);
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    int rank = cJSON_GetArraySize(shape);
    double bytes = 4.0 * (double)rows * (double)columns;
    if (!cJSON_IsString(dtype) || strcmp(dtype->valuestring, "F32") != 0) {
        return fail(name, "there is no such tensor of f32");
    }
    if (rank < 1 || rank > 2 || number(shape, rank - 1) != (double)columns ||
        (rank == 2 ? number(shape, 0) : 1) != (double)rows) {
        return fail(name, "has another shape than this model's");
    }
    double begin = number(offsets, 0);
    if (begin < 0 || number(offsets, 1) - begin != bytes || begin + bytes > (double)file->size) {
        return fail(name, "lies outside of its file");
    }
    memcpy(out_values, file->bytes + (size_t)begin, (size_t)bytes);
    return 0;
}
