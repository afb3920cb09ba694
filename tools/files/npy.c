/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include "allocate.h"
#include "input.h"
#include "npy_header.h"

#include <inttypes.h>
#include <stdlib.h>

/* The array without its data, and where that starts. */
static enum files_status read_header(const struct input *input, const struct files_report *report,
                                     struct array *out_array, bool *out_fortran_order, int64_t *out_data_offset) {
    unsigned char prefix[NPY_PREFIX_BYTES];
    const int64_t prefix_bytes = input->size_bytes < NPY_PREFIX_BYTES ? input->size_bytes : NPY_PREFIX_BYTES;
    int64_t offset = 0, bytes = 0;
    void *text = NULL;

    enum files_status status = input_read(input, 0, prefix_bytes, report, prefix);
    if (status == FILES_OK) {
        status = npy_prefix_parse(prefix, input->size_bytes, report, &offset, &bytes);
    }
    if (status == FILES_OK) {
        status = files_allocate(bytes + 1, report, &text);
    }
    if (status == FILES_OK) {
        status = input_read(input, offset, bytes, report, text);
    }
    if (status == FILES_OK) {
        status = npy_dictionary_parse(text, bytes, report, out_array, out_fortran_order);
    }
    if (status == FILES_OK) {
        *out_data_offset = offset + bytes;
    }
    free(text);
    return status;
}

static enum files_status check_size(const struct array *array, int64_t held_bytes, const struct files_report *report) {
    if (array->bytes == held_bytes) {
        return FILES_OK;
    }
    char shape[ARRAY_SHAPE_TEXT_BYTES];
    array_shape_format(array, shape);
    return files_report_fail(report, FILES_INVALID,
                             "shape %s of %s takes %" PRId64 " bytes, but %" PRId64 " follow the header", shape,
                             array_type_name(array->type), array->bytes, held_bytes);
}

static enum files_status load(const struct input *input, const struct files_report *report, struct array *out_array) {
    struct array array = {0};
    bool fortran_order = false;
    int64_t data_offset = 0;
    enum files_status status = read_header(input, report, &array, &fortran_order, &data_offset);
    if (status == FILES_OK) {
        status = check_size(&array, input->size_bytes - data_offset, report);
    }
    if (status == FILES_OK) {
        status = array_allocate(&array, report);
    }
    if (status == FILES_OK) {
        status = input_read(input, data_offset, array.bytes, report, array.data);
    }
    if (status == FILES_OK && fortran_order) {
        status = array_reorder_from_fortran(&array, report);
    }
    if (status == FILES_OK) {
        *out_array = array;
    } else {
        array_release(&array);
    }
    return status;
}

enum files_status npy_read(const char *path, struct array *out_array, char *message, size_t message_bytes) {
    const struct files_report report = {path, message, message_bytes};
    struct input input;
    enum files_status status = input_open(path, &report, &input);
    if (status != FILES_OK) {
        return status;
    }
    status = load(&input, &report, out_array);
    input_close(&input);
    return status;
}

enum files_status npy_parse(const void *bytes, size_t size_bytes, struct array *out_array, char *message,
                            size_t message_bytes) {
    const struct files_report report = {".npy in memory", message, message_bytes};
    const struct input input = input_from_memory(bytes, size_bytes);
    return load(&input, &report, out_array);
}

enum files_status npy_stage(const char *path, const struct array *array, struct staged_file *out_staged, char *message,
                            size_t message_bytes) {
    const struct files_report report = {path, message, message_bytes};
    char header[NPY_FORMAT_BYTES];
    size_t header_bytes = 0;
    const enum files_status status = npy_header_format(array, &report, header, &header_bytes);
    if (status != FILES_OK) {
        return status;
    }
    const struct staged_part parts[] = {{header, header_bytes}, {array->data, (size_t)array->bytes}};
    return staged_file_create(path, parts, 2, &report, out_staged);
}
