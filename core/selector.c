/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/selector.h"

#include <string.h>

static const char name_letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
static const char digits[] = "0123456789";

static void copy_text(char *out_text, const char *text, size_t length) {
    memcpy(out_text, text, length);
    out_text[length] = '\0';
}

static bool read_index(const char *text, int32_t *out_index) {
    int64_t index = 0;
    for (; *text != '\0'; text++) {
        index = index * 10 + (*text - '0');
        if (index > INT32_MAX) {
            return false;
        }
    }
    *out_index = (int32_t)index;
    return true;
}

/* What follows the colon is in device_name. */
static const char *read_device(struct attune_selector *selector) {
    const char *device = selector->device_name;
    if (device[0] == '\0') {
        return "after ':' must come a device's index or name";
    }
    if (strcmp(selector->backend, "auto") == 0) {
        return "auto takes no device";
    }
    selector->kind = ATTUNE_SELECT_NAME;
    if (device[strspn(device, digits)] == '\0') {
        selector->kind = ATTUNE_SELECT_INDEX;
        return read_index(device, &selector->index) ? NULL : "a device's index must be from 0 to 2147483647";
    }
    return NULL;
}

const char *attune_selector_next(const char **list, struct attune_selector *out_selector) {
    const char *entry = *list;
    size_t length = strcspn(entry, ",");
    size_t backend_length = strspn(entry, name_letters);
    memset(out_selector, 0, sizeof *out_selector);
    *list = entry[length] == ',' ? entry + length + 1 : NULL;

    if (length == 0) {
        return "an entry must not be empty";
    }
    if (backend_length == 0 || (entry[backend_length] != ':' && backend_length != length)) {
        return "a backend's name must have only the letters a-z, 0-9 and _";
    }
    if (backend_length >= ATTUNE_NAME_MAX || length - backend_length > ATTUNE_NAME_MAX) {
        return "a name must have fewer than 64 letters";
    }
    copy_text(out_selector->text, entry, length);
    copy_text(out_selector->backend, entry, backend_length);
    if (backend_length < length) {
        copy_text(out_selector->device_name, entry + backend_length + 1, length - backend_length - 1);
        return read_device(out_selector);
    }
    out_selector->kind = strcmp(out_selector->backend, "auto") == 0 ? ATTUNE_SELECT_AUTO : ATTUNE_SELECT_BACKEND;
    return NULL;
}
