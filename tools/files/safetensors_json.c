/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors_json.h"

#include <stdlib.h>
#include <string.h>

/* cJSON returns NULL for wrong text and for missing memory alike; this tells them apart. */
static bool json_out_of_memory;

static void *json_allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        json_out_of_memory = true;
    }
    return memory;
}

/* Outside of strings a backslash is an error that cJSON finds, so that each one here starts an
 * escape. */
static bool has_nul(const char *text, int64_t text_bytes) {
    if (memchr(text, '\0', (size_t)text_bytes) != NULL) {
        return true;
    }
    for (const char *at = strchr(text, '\\'); at != NULL; at = strchr(at, '\\')) {
        if (strncmp(at + 1, "u0000", 5) == 0) {
            return true;
        }
        at += at[1] == '\0' ? 1 : 2;
    }
    return false;
}

enum files_status safetensors_json_parse(const char *text, int64_t text_bytes, const struct files_report *report,
                                         cJSON **out_object) {
    /* The format wants '{' first; cJSON would skip spaces and a byte order mark. */
    if (text_bytes == 0 || text[0] != '{') {
        return files_report_fail(report, FILES_INVALID, "header does not start with '{'");
    }
    if (has_nul(text, text_bytes)) {
        return files_report_fail(report, FILES_INVALID, "header has a NUL character");
    }

    cJSON_Hooks hooks = {.malloc_fn = json_allocate, .free_fn = free};
    const char *stopped_at = text;
    json_out_of_memory = false;
    cJSON_InitHooks(&hooks);
    /* The NUL is part of the text, and is required: nothing may follow the object. */
    cJSON *object = cJSON_ParseWithLengthOpts(text, (size_t)text_bytes + 1, &stopped_at, true);
    cJSON_InitHooks(NULL);

    if (object == NULL && json_out_of_memory) {
        return files_report_fail(report, FILES_OUT_OF_MEMORY, "no memory for its header");
    }
    if (object == NULL) {
        return files_report_fail(report, FILES_INVALID, "header is not JSON from byte %lld on",
                                 (long long)(stopped_at - text));
    }
    *out_object = object;
    return FILES_OK;
}

bool safetensors_json_integer(const cJSON *item, int64_t *out_value) {
    const double limit = 9007199254740992.0;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < limit)) {
        return false;
    }
    const int64_t value = (int64_t)item->valuedouble;
    if ((double)value != item->valuedouble) {
        return false;
    }
    *out_value = value;
    return true;
}
