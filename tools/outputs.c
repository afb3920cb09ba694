/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs.h"

#include <string.h>

#include "files/npy.h"

/* FNV-1a, 64 bits (RFC 9923). */
static uint64_t checksum(const void *data, int64_t bytes) {
    const unsigned char *byte = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < bytes; i++) {
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* One file may be named in several ways, which the text of the flags does not tell. */
static enum tool_exit check_differs(const struct outputs *outputs, const struct output *output) {
    for (int i = 0; output->path && i < outputs->count; i++) {
        const struct output *other = &outputs->item[i];
        if (other->path && strcmp(other->staged.target, output->staged.target) == 0) {
            return tool_fail(TOOL_BAD_INPUT, "%s %s and %s %s are one file: each output needs a file of its own",
                             other->flag, other->path, output->flag, output->path);
        }
    }
    return TOOL_OK;
}

static enum tool_exit add(struct outputs *outputs, const struct output *output) {
    enum tool_exit status = check_differs(outputs, output);
    outputs->item[outputs->count++] = *output;
    return status;
}

enum tool_exit outputs_add(struct outputs *outputs, struct tensors *tensors, const char *flag, const char *path,
                           const attune_tensor *tensor) {
    if (outputs->count == OUTPUTS_MAX) {
        return tool_fail(TOOL_FAILED, "%s: more than %d outputs", flag, OUTPUTS_MAX);
    }
    struct array array;
    enum tool_exit status = tensors_download(tensors, tensor, &array);
    if (status) {
        return status;
    }
    struct output output = {.flag = flag, .path = path, .checksum = checksum(array.data, array.bytes)};
    char message[FILES_MESSAGE_BYTES];
    enum files_status staged = FILES_OK;
    if (path) {
        staged = npy_stage(path, &array, &output.staged, message, sizeof message);
    }
    array_release(&array);
    return staged ? tool_fail_file(staged, flag, message) : add(outputs, &output);
}

enum tool_exit outputs_add_text(struct outputs *outputs, const char *flag, const char *path, const char *text,
                                size_t size_bytes) {
    struct output output = {.flag = flag, .path = path, .checksum = checksum(text, (int64_t)size_bytes)};
    char message[FILES_MESSAGE_BYTES];
    struct files_report report = {path, message, sizeof message};
    const struct staged_part part = {text, size_bytes};
    enum files_status staged = staged_file_create(path, &part, 1, &report, &output.staged);
    return staged ? tool_fail_file(staged, flag, message) : add(outputs, &output);
}

enum tool_exit outputs_commit(struct outputs *outputs) {
    struct staged_file *staged[OUTPUTS_MAX];
    const char *flags[OUTPUTS_MAX];
    int count = 0;
    for (int i = 0; i < outputs->count; i++) {
        if (outputs->item[i].path) {
            flags[count] = outputs->item[i].flag;
            staged[count++] = &outputs->item[i].staged;
        }
    }
    char message[FILES_MESSAGE_BYTES];
    int failed = 0;
    enum files_status status = staged_files_commit(staged, count, message, sizeof message, &failed);
    return status ? tool_fail_file(status, flags[failed], message) : TOOL_OK;
}

void outputs_release(struct outputs *outputs) {
    for (int i = 0; i < outputs->count; i++) {
        staged_file_discard(&outputs->item[i].staged);
    }
}
