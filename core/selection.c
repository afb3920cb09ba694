/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/selection.h"

#include <string.h>

#include "attune/backend_util.h"
#include "core/device_make.h"
#include "core/inventory.h"
#include "core/log_internal.h"
#include "core/selector.h"
#include "core/status_internal.h"
#include "core/text.h"

/* What was tried and failed, for the sentence and for the log. */
struct failures {
    int count;
    attune_status status; /* of all of them, or UNAVAILABLE */
    char lines[ATTUNE_SENTENCE_MAX];
};

static void add_failure(struct failures *failures, attune_status status) {
    failures->status = failures->count == 0 || failures->status == status ? status : ATTUNE_UNAVAILABLE;
    attune_text_append(failures->lines, sizeof failures->lines, "%s%s", failures->count == 0 ? "" : "\n",
                       attune_last_error());
    failures->count++;
}

static attune_status fail_as(attune_status status, const char *who) {
    return attune_fail(status, "%s: %s", who, attune_last_error());
}

static attune_status open_index(const struct attune_backend_entry *entry, int32_t index,
                                const struct attune_settings *settings, attune_device **out_device) {
    int32_t count = 0;
    attune_status status = attune_entry_count_devices(entry, &count);
    if (status == ATTUNE_OK && index >= count) {
        status = attune_fail(ATTUNE_NOT_FOUND, "no such device; there are %d, from 0", (int)count);
    }
    attune_device_info info;
    if (status == ATTUNE_OK) {
        status = attune_entry_describe_device(entry, index, &info);
    }
    return status == ATTUNE_OK ? attune_device_make(entry, index, &info, settings, out_device) : status;
}

enum name_match { NO_MATCH, BEGINNING_MATCHES, WHOLE_MATCHES };

static enum name_match match_name(const char *name, const char *wanted) {
    if (!attune_begins(name, wanted)) {
        return NO_MATCH;
    }
    return strlen(name) == strlen(wanted) ? WHOLE_MATCHES : BEGINNING_MATCHES;
}

static attune_status find_device(const struct attune_backend_entry *entry, const char *wanted, int32_t *out_index) {
    int32_t count;
    attune_status status = attune_entry_count_devices(entry, &count);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_device_info found = {.struct_size = 0};
    enum name_match best = NO_MATCH;
    bool ambiguous = false;
    for (int32_t index = 0; index < count; index++) {
        attune_device_info info;
        if (attune_entry_describe_device(entry, index, &info) != ATTUNE_OK) {
            continue;
        }
        enum name_match match = match_name(info.name, wanted);
        if (match > best) {
            best = match;
            ambiguous = false;
            found = info;
            *out_index = index;
        } else if (match == best && match == BEGINNING_MATCHES && strcmp(info.name, found.name) != 0) {
            ambiguous = true;
        }
    }
    if (best == NO_MATCH) {
        return attune_fail(ATTUNE_NOT_FOUND, "no device has a name that begins with \"%s\"", wanted);
    }
    return ambiguous ? attune_fail(ATTUNE_INVALID_ARGUMENT, "several devices have names that begin with \"%s\"", wanted)
                     : ATTUNE_OK;
}

static attune_status fail_unknown_backend(const struct attune_registry *registry) {
    char names[512] = "";
    for (int32_t index = 0; index < registry->count; index++) {
        attune_text_append(names, sizeof names, "%s%s", index == 0 ? "" : ", ", registry->entry[index].name);
    }
    return attune_fail(ATTUNE_NOT_FOUND, "no such backend; there are %s", names);
}

static attune_status open_named(const struct attune_registry *registry, const struct attune_settings *settings,
                                const struct attune_selector *selector, attune_device **out_device) {
    const struct attune_backend_entry *entry = attune_registry_find(registry, selector->backend);
    int32_t index = selector->index;
    attune_status status = ATTUNE_OK;
    if (entry == NULL) {
        status = fail_unknown_backend(registry);
    } else if (selector->kind == ATTUNE_SELECT_NAME) {
        status = find_device(entry, selector->device_name, &index);
    }
    if (status == ATTUNE_OK) {
        status = open_index(entry, index, settings, out_device);
    }
    return status == ATTUNE_OK ? ATTUNE_OK : fail_as(status, selector->text);
}

/* OpenCL on a CPU is left to the CPU backend, which is faster and always there. */
static const char *reason_to_skip(const struct attune_backend_entry *entry, const attune_device_info *info) {
    if (info->is_emulation) {
        return "an emulation";
    }
    return info->is_cpu && strcmp(entry->name, "opencl") == 0 ? "a CPU behind OpenCL" : NULL;
}

static attune_status open_first_device(const struct attune_backend_entry *entry, const struct attune_settings *settings,
                                       struct failures *failures, attune_device **out_device) {
    int32_t count = 0;
    attune_status status = attune_entry_count_devices(entry, &count);
    if (status != ATTUNE_OK) {
        add_failure(failures, fail_as(status, entry->name));
        attune_log_write_once(ATTUNE_LOG_DEBUG, "auto: passed over %s", attune_last_error());
    }
    for (int32_t index = 0; index < count; index++) {
        attune_device_info info;
        status = attune_entry_describe_device(entry, index, &info);
        const char *reason = status == ATTUNE_OK ? reason_to_skip(entry, &info) : NULL;
        if (reason != NULL) {
            add_failure(failures, attune_fail(ATTUNE_UNAVAILABLE, "%s: auto never takes %s", info.selector, reason));
            continue;
        }
        if (status == ATTUNE_OK) {
            status = attune_device_make(entry, index, &info, settings, out_device);
        }
        if (status == ATTUNE_OK) {
            return ATTUNE_OK;
        }
        add_failure(failures, fail_as(status, entry->name));
        attune_log_write_once(ATTUNE_LOG_WARN, "auto: passed over %s", attune_last_error());
    }
    return ATTUNE_UNAVAILABLE;
}

static attune_status open_auto(const struct attune_registry *registry, const struct attune_settings *settings,
                               attune_device **out_device) {
    struct failures failures = {.status = ATTUNE_UNAVAILABLE};
    for (int32_t index = 0; index < registry->count; index++) {
        const struct attune_backend_entry *entry = &registry->entry[index];
        if (entry->priority >= 0 && entry->vendor == NULL &&
            open_first_device(entry, settings, &failures, out_device) == ATTUNE_OK) {
            return ATTUNE_OK;
        }
    }
    return attune_fail(failures.status, "auto: no device works here\n%s", failures.lines);
}

static attune_status open_entry(const struct attune_registry *registry, const struct attune_settings *settings,
                                const struct attune_selector *selector, attune_device **out_device) {
    return selector->kind == ATTUNE_SELECT_AUTO ? open_auto(registry, settings, out_device)
                                                : open_named(registry, settings, selector, out_device);
}

static attune_status check_list(const char *list) {
    const char *rest = list;
    while (rest != NULL) {
        struct attune_selector selector;
        const char *broken_rule = attune_selector_next(&rest, &selector);
        if (broken_rule != NULL) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "selector = \"%.200s\": %s", list, broken_rule);
        }
    }
    return ATTUNE_OK;
}

attune_status attune_selection_open(const struct attune_registry *registry, const struct attune_settings *settings,
                                    const char *selector, attune_device **out_device) {
    const char *list = selector != NULL && selector[0] != '\0' ? selector : settings->backend;
    list = list[0] != '\0' ? list : "auto";
    attune_status status = check_list(list);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct failures failures = {.status = ATTUNE_UNAVAILABLE};
    for (const char *rest = list; rest != NULL;) {
        struct attune_selector entry;
        (void)attune_selector_next(&rest, &entry);
        status = open_entry(registry, settings, &entry, out_device);
        if (status == ATTUNE_OK) {
            break;
        }
        add_failure(&failures, status);
    }
    if (status != ATTUNE_OK) {
        return failures.count == 1 ? status
                                   : attune_fail(failures.status, "selector = \"%.200s\": no device works here\n%s",
                                                 list, failures.lines);
    }
    const attune_device_info *info = &(*out_device)->info;
    if (failures.count > 0) {
        attune_log_write_once(ATTUNE_LOG_WARN, "\"%.200s\" opens %s; passed over: %s", list, info->selector,
                              failures.lines);
    } else {
        attune_log_write(ATTUNE_LOG_INFO, "\"%.200s\" opens %s, %s", list, info->selector, info->name);
    }
    return ATTUNE_OK;
}
