/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/inventory.h"

#include <stdio.h>

#include "core/args.h"
#include "core/status_internal.h"
#include "core/text.h"

attune_status attune_entry_check(const struct attune_backend_entry *entry) {
    if (entry->vendor != NULL) {
        return attune_vendor_refuse(entry->vendor);
    }
    return entry->status == ATTUNE_OK ? ATTUNE_OK : attune_fail(entry->status, "%s", entry->reason);
}

static void end_texts(attune_device_info *info) {
    info->name[sizeof info->name - 1] = '\0';
    info->driver[sizeof info->driver - 1] = '\0';
}

/* What a backend that failed without a word is taken to have meant. */
static attune_status say_what_failed(attune_status status, int32_t device_index) {
    if (attune_last_error()[0] != '\0') {
        return status;
    }
    return status == ATTUNE_NOT_FOUND
               ? attune_fail(status, "there is no device %d", (int)device_index)
               : attune_fail(status, "device %d: %s", (int)device_index, attune_status_name(status));
}

attune_status attune_entry_describe_device(const struct attune_backend_entry *entry, int32_t device_index,
                                           attune_device_info *out_info) {
    attune_status status = attune_entry_check(entry);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_device_info info = {.struct_size = sizeof info};
    attune_sentence_clear();
    status = device_index < 0 ? ATTUNE_NOT_FOUND : entry->backend.enumerate(device_index, &info);
    if (status != ATTUNE_OK) {
        return say_what_failed(status, device_index);
    }
    end_texts(&info);
    attune_text_format(info.selector, sizeof info.selector, "%s:%d", entry->name, (int)device_index);
    *out_info = info;
    return ATTUNE_OK;
}

attune_status attune_entry_count_devices(const struct attune_backend_entry *entry, int32_t *out_count) {
    attune_device_info info;
    attune_status status = attune_entry_describe_device(entry, 0, &info);
    if (status == ATTUNE_NOT_FOUND) {
        return attune_fail(ATTUNE_UNAVAILABLE, "there is no device");
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    int32_t count = 0;
    do {
        count++;
    } while (count < ATTUNE_DEVICES_MAX && attune_entry_describe_device(entry, count, &info) != ATTUNE_NOT_FOUND);
    *out_count = count;
    return ATTUNE_OK;
}

static attune_status read_registry(const struct attune_registry **out_registry) {
    struct attune_settings settings;
    attune_status status = attune_settings_read(&settings);
    return status == ATTUNE_OK ? attune_registry_get(&settings, out_registry) : status;
}

static attune_status find_entry(int32_t index, const struct attune_backend_entry **out_entry) {
    const struct attune_registry *registry = NULL;
    attune_status status = read_registry(&registry);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (index < 0 || index >= registry->count) {
        return attune_fail(ATTUNE_NOT_FOUND, "index = %d: must be from 0 to %d", (int)index, (int)registry->count - 1);
    }
    *out_entry = &registry->entry[index];
    return ATTUNE_OK;
}

attune_status attune_backend_count(int32_t *out_count) {
    if (out_count == NULL) {
        return attune_args_refuse_null("out_count");
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    const struct attune_registry *registry = NULL;
    attune_status status = read_registry(&registry);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_sentence_restore(&before);
    *out_count = registry->count;
    return ATTUNE_OK;
}

static attune_backend_info describe_backend(const struct attune_backend_entry *entry) {
    attune_backend_info info = {.struct_size = sizeof info, .priority = entry->priority};
    attune_text_format(info.name, sizeof info.name, "%s", entry->name);
    attune_text_format(info.description, sizeof info.description, "%s", entry->description);
    info.status = attune_entry_count_devices(entry, &info.device_count);
    if (info.status != ATTUNE_OK) {
        attune_text_format(info.reason, sizeof info.reason, "%s", attune_last_error());
    }
    return info;
}

attune_status attune_backend_get(int32_t index, attune_backend_info *out_info) {
    if (out_info == NULL) {
        return attune_args_refuse_null("out_info");
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    const struct attune_backend_entry *entry = NULL;
    attune_status status = find_entry(index, &entry);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_backend_info info = describe_backend(entry);
    status = attune_args_export("attune_backend_info", &info, sizeof info, out_info);
    if (status == ATTUNE_OK) {
        attune_sentence_restore(&before);
    }
    return status;
}

attune_status attune_backend_get_device(int32_t index, int32_t device_index, attune_device_info *out_info) {
    if (out_info == NULL) {
        return attune_args_refuse_null("out_info");
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    const struct attune_backend_entry *entry = NULL;
    attune_status status = find_entry(index, &entry);
    attune_device_info info;
    if (status == ATTUNE_OK) {
        status = attune_entry_describe_device(entry, device_index, &info);
    }
    if (status == ATTUNE_OK) {
        status = attune_args_export("attune_device_info", &info, sizeof info, out_info);
    }
    if (status == ATTUNE_OK) {
        attune_sentence_restore(&before);
    }
    return status;
}
