/*
 * attune devices: which backends and devices there are, and why the others are not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "attune/attune.h"
#include "commands.h"
#include "devices_verbose.h"
#include "json.h"
#include "values.h"

static const char usage[] = "attune devices - which backends and devices there are\n"
                            "\n"
                            "Usage: attune devices [--json] [--verbose]\n"
                            "\n"
                            "Lists every backend in the order in which 'auto' would try it, with its devices,\n"
                            "or the reason why it cannot be used here: a library that is missing, no device.\n"
                            "The first column is what --backend and the variable ATTUNE_BACKEND take.\n";

struct devices_options {
    bool help;
    bool json;
    bool verbose;
};

static const struct flag flags[] = {
    {"--json", NULL, flag_set_switch, offsetof(struct devices_options, json), 0, 0, 1, "Flags", "print JSON"},
    {"--verbose", NULL, flag_set_switch, offsetof(struct devices_options, verbose), 0, 0, 1, "Flags",
     "open each device, and tell its limits and kernel rows too"},
    {"--help", NULL, flag_set_switch, offsetof(struct devices_options, help), 0, 0, 1, "Flags", "print this text"},
};

static const struct flag_table table = {flags, sizeof flags / sizeof flags[0], 1};

static enum tool_exit get_backend(int32_t index, attune_backend_info *out_info) {
    memset(out_info, 0, sizeof *out_info);
    out_info->struct_size = sizeof *out_info;
    attune_status status = attune_backend_get(index, out_info);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static enum tool_exit get_device(int32_t index, int32_t device_index, attune_device_info *out_info) {
    memset(out_info, 0, sizeof *out_info);
    out_info->struct_size = sizeof *out_info;
    attune_status status = attune_backend_get_device(index, device_index, out_info);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

/* ---- Text ---- */

static const char *kind(const attune_device_info *device) {
    if (device->is_emulation) {
        return "emulation";
    }
    return device->is_cpu ? "CPU" : "GPU";
}

static enum tool_exit print_device(const attune_device_info *device, bool verbose) {
    char memory[32];
    snprintf(memory, sizeof memory, "%.1f GiB", (double)device->memory_bytes / 0x1p30);
    printf("%-12s %-10s %10s  %s%s%s\n", device->selector, kind(device), device->memory_bytes ? memory : "-",
           device->name, device->driver[0] ? ", " : "", device->driver);
    return verbose ? devices_print_verbose(device->selector) : TOOL_OK;
}

static enum tool_exit print_backend(int32_t index, bool verbose) {
    attune_backend_info backend;
    enum tool_exit status = get_backend(index, &backend);
    if (status) {
        return status;
    }
    if (backend.status != ATTUNE_OK) {
        printf("%-12s %-10s %10s  %s\n", backend.name, "-", "-", backend.reason);
        return TOOL_OK;
    }
    if (backend.device_count == 0) {
        printf("%-12s %-10s %10s  no device\n", backend.name, "-", "-");
    }
    for (int32_t i = 0; !status && i < backend.device_count; i++) {
        attune_device_info device;
        status = get_device(index, i, &device);
        if (!status) {
            status = print_device(&device, verbose);
        }
    }
    return status;
}

static enum tool_exit print_text(int32_t count, bool verbose) {
    printf("%-12s %-10s %10s  %s\n", "DEVICE", "KIND", "MEMORY", "NAME, OR WHY THERE IS NONE");
    enum tool_exit status = TOOL_OK;
    for (int32_t index = 0; !status && index < count; index++) {
        status = print_backend(index, verbose);
    }
    return status;
}

/* ---- JSON ---- */

static enum tool_exit add_device(cJSON *devices, const attune_device_info *device, bool verbose) {
    cJSON *object = json_add_object(devices, NULL);
    json_add_text(object, "selector", device->selector);
    json_add_text(object, "name", device->name);
    json_add_text(object, "driver", device->driver);
    json_add_bool(object, "is_cpu", device->is_cpu);
    json_add_bool(object, "is_emulation", device->is_emulation);
    json_add_number(object, "memory_bytes", (double)device->memory_bytes);
    return verbose ? devices_add_verbose(object, device->selector) : TOOL_OK;
}

static enum tool_exit add_backend(cJSON *backends, int32_t index, bool verbose) {
    attune_backend_info backend;
    enum tool_exit status = get_backend(index, &backend);
    if (status) {
        return status;
    }
    cJSON *object = json_add_object(backends, NULL);
    json_add_text(object, "name", backend.name);
    json_add_text(object, "description", backend.description);
    json_add_number(object, "priority", backend.priority);
    json_add_text(object, "status", attune_status_name(backend.status));
    json_add_text(object, "reason", backend.status == ATTUNE_OK ? NULL : backend.reason);
    cJSON *devices = json_add_array(object, "devices");
    for (int32_t i = 0; !status && i < backend.device_count; i++) {
        attune_device_info device;
        status = get_device(index, i, &device);
        if (!status) {
            status = add_device(devices, &device, verbose);
        }
    }
    return status;
}

static enum tool_exit print_json(int32_t count, bool verbose) {
    cJSON *root = json_root();
    cJSON *backends = json_add_array(root, "backends");
    enum tool_exit status = TOOL_OK;
    for (int32_t index = 0; !status && index < count; index++) {
        status = add_backend(backends, index, verbose);
    }
    if (!status) {
        return json_print(root);
    }
    cJSON_Delete(root);
    return status;
}

static enum tool_exit execute(const struct devices_options *options) {
    int32_t count;
    attune_status status = attune_backend_count(&count);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    return options->json ? print_json(count, options->verbose) : print_text(count, options->verbose);
}

int attune_tool_devices(int argc, char **argv) {
    struct devices_options options = {0};
    enum tool_exit status = flags_parse(&table, argc, argv, &options);
    if (status) {
        return status;
    }
    if (!options.help) {
        return execute(&options);
    }
    flags_print_help(usage, &table, "");
    return TOOL_OK;
}
