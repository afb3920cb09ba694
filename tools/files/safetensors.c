/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors.h"

#include "allocate.h"
#include "input.h"
#include "safetensors_header.h"

#include <stdlib.h>

/* The tensor without its data, and where that starts in the file. */
static enum files_status read_header(const struct input *input, const char *name, const struct files_report *report,
                                     struct array *out_array, int64_t *out_data_offset) {
    unsigned char prefix[SAFETENSORS_PREFIX_BYTES];
    const int64_t prefix_bytes =
        input->size_bytes < SAFETENSORS_PREFIX_BYTES ? input->size_bytes : SAFETENSORS_PREFIX_BYTES;
    int64_t header_bytes = 0, data_offset = 0;
    void *header = NULL;

    enum files_status status = input_read(input, 0, prefix_bytes, report, prefix);
    if (status == FILES_OK) {
        status = safetensors_prefix_parse(prefix, input->size_bytes, report, &header_bytes);
    }
    const int64_t data_start = SAFETENSORS_PREFIX_BYTES + header_bytes;
    if (status == FILES_OK) {
        status = files_allocate(header_bytes + 1, report, &header);
    }
    if (status == FILES_OK) {
        status = input_read(input, SAFETENSORS_PREFIX_BYTES, header_bytes, report, header);
    }
    if (status == FILES_OK) {
        ((char *)header)[header_bytes] = '\0';
        status = safetensors_find(header, header_bytes, input->size_bytes - data_start, name, report, out_array,
                                  &data_offset);
    }
    if (status == FILES_OK) {
        *out_data_offset = data_start + data_offset;
    }
    free(header);
    return status;
}

static enum files_status load(const struct input *input, const char *name, const struct files_report *report,
                              struct array *out_array) {
    struct array array = {0};
    int64_t data_offset = 0;
    enum files_status status = read_header(input, name, report, &array, &data_offset);
    if (status == FILES_OK) {
        status = array_allocate(&array, report);
    }
    if (status == FILES_OK) {
        status = input_read(input, data_offset, array.bytes, report, array.data);
    }
    if (status == FILES_OK) {
        *out_array = array;
    } else {
        array_release(&array);
    }
    return status;
}

enum files_status safetensors_read(const char *path, const char *name, struct array *out_array, char *message,
                                   size_t message_bytes) {
    const struct files_report report = {path, message, message_bytes};
    struct input input;
    enum files_status status = input_open(path, &report, &input);
    if (status != FILES_OK) {
        return status;
    }
    status = load(&input, name, &report, out_array);
    input_close(&input);
    return status;
}

enum files_status safetensors_parse(const void *bytes, size_t size_bytes, const char *name, struct array *out_array,
                                    char *message, size_t message_bytes) {
    const struct files_report report = {".safetensors in memory", message, message_bytes};
    const struct input input = input_from_memory(bytes, size_bytes);
    return load(&input, name, &report, out_array);
}
