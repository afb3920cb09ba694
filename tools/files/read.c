/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L

#include "read.h"

#include "allocate.h"
#include "npy.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char safetensors_separator[] = ".safetensors:";

static bool ends_with(const char *text, const char *ending) {
    const size_t text_length = strlen(text), length = strlen(ending);
    return text_length >= length && strcmp(text + text_length - length, ending) == 0;
}

static enum files_status read_tensor(const char *spec, const char *colon, struct array *out_array, char *message,
                                     size_t message_bytes) {
    const struct files_report report = {spec, message, message_bytes};
    const char *name = colon + 1;
    if (*name == '\0') {
        return files_report_fail(&report, FILES_INVALID, "no tensor is named after the ':'");
    }
    const size_t path_length = (size_t)(colon - spec);
    void *path = NULL;
    enum files_status status = files_allocate((int64_t)path_length + 1, &report, &path);
    if (status != FILES_OK) {
        return status;
    }
    memcpy(path, spec, path_length);
    ((char *)path)[path_length] = '\0';
    status = safetensors_read(path, name, out_array, message, message_bytes);
    free(path);
    return status;
}

enum files_status array_read(const char *spec, struct array *out_array, char *message, size_t message_bytes) {
    const struct files_report report = {spec, message, message_bytes};
    const char *separator = strstr(spec, safetensors_separator);
    if (ends_with(spec, ".npy") && (separator == NULL || access(spec, F_OK) == 0)) {
        return npy_read(spec, out_array, message, message_bytes);
    }
    if (separator != NULL) {
        return read_tensor(spec, separator + strlen(safetensors_separator) - 1, out_array, message, message_bytes);
    }
    return files_report_fail(&report, FILES_INVALID,
                             ends_with(spec, ".safetensors")
                                 ? "no tensor is named; the spelling is FILE.safetensors:NAME"
                                 : "is neither FILE.npy nor FILE.safetensors:NAME");
}
