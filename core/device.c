/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/device.h"

#include "core/args.h"
#include "core/device_internal.h"
#include "core/device_make.h"
#include "core/host.h"
#include "core/inventory.h"
#include "core/plan_cache.h"
#include "core/selection.h"
#include "core/status_internal.h"
#include "core/tuned_tile.h"

static attune_status read_limits(attune_device *device) {
    device->limits.struct_size = sizeof device->limits;
    attune_status status = device->backend->device_limits(device->handle, &device->limits);
    if (status == ATTUNE_OK) {
        device->limits.architecture[sizeof device->limits.architecture - 1] = '\0';
        attune_settings_override(&device->settings, &device->limits);
    }
    return status;
}

/* Owns handle from here on: closes it on an error. */
static attune_status make_from_handle(const struct attune_backend_entry *entry, void *handle, int32_t device_index,
                                      const attune_device_info *info, const struct attune_settings *settings,
                                      attune_device **out_device) {
    attune_status status = ATTUNE_OK;
    attune_device *device = attune_host_alloc(sizeof *device);
    if (device == NULL) {
        status = attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a device");
        goto close_handle;
    }
    device->backend = &entry->backend;
    device->handle = handle;
    device->index = device_index;
    device->info = *info;
    device->settings = *settings;
    status = read_limits(device);
    if (status != ATTUNE_OK) {
        goto free_device;
    }
    status = attune_plan_cache_create(device, &device->plan_cache);
    if (status != ATTUNE_OK) {
        goto free_device;
    }
    attune_tuned_tiles_load(device);
    *out_device = device;
    return ATTUNE_OK;

free_device:
    attune_host_free(device);
close_handle:
    entry->backend.device_close(handle);
    return status;
}

attune_status attune_device_make(const struct attune_backend_entry *entry, int32_t device_index,
                                 const attune_device_info *info, const struct attune_settings *settings,
                                 attune_device **out_device) {
    void *handle = NULL;
    attune_status status = entry->backend.device_open(device_index, &handle);
    return status == ATTUNE_OK ? make_from_handle(entry, handle, device_index, info, settings, out_device) : status;
}

static attune_status read_world(struct attune_settings *out_settings, const struct attune_registry **out_registry) {
    attune_status status = attune_settings_read(out_settings);
    return status == ATTUNE_OK ? attune_registry_get(out_settings, out_registry) : status;
}

attune_status attune_device_open(const char *selector, attune_device **out_device) {
    if (out_device == NULL) {
        return attune_args_refuse_null("out_device");
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    struct attune_settings settings;
    const struct attune_registry *registry = NULL;
    attune_status status = read_world(&settings, &registry);
    if (status == ATTUNE_OK) {
        status = attune_selection_open(registry, &settings, selector, out_device);
    }
    if (status == ATTUNE_OK) {
        attune_sentence_restore(&before);
    }
    return status;
}

static attune_status wrap_device(const struct attune_backend_entry *entry, void *native,
                                 const struct attune_settings *settings, attune_device **out_device) {
    attune_status status = attune_entry_check(entry);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (entry->backend.device_wrap == NULL) {
        return attune_fail(ATTUNE_UNSUPPORTED, "backend = \"%s\": has nothing to wrap; open it instead", entry->name);
    }
    if (native == NULL) {
        return attune_args_refuse_null("native");
    }
    int32_t index = 0;
    void *handle = NULL;
    status = entry->backend.device_wrap(native, &index, &handle);
    if (status != ATTUNE_OK) {
        return status;
    }
    attune_device_info info;
    status = attune_entry_describe_device(entry, index, &info);
    if (status != ATTUNE_OK) {
        entry->backend.device_close(handle);
        return status;
    }
    return make_from_handle(entry, handle, index, &info, settings, out_device);
}

attune_status attune_device_wrap(const char *backend, void *native, attune_device **out_device) {
    if (backend == NULL || out_device == NULL) {
        return attune_args_refuse_null(backend == NULL ? "backend" : "out_device");
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    struct attune_settings settings;
    const struct attune_registry *registry = NULL;
    attune_status status = read_world(&settings, &registry);
    if (status != ATTUNE_OK) {
        return status;
    }
    const struct attune_backend_entry *entry = attune_registry_find(registry, backend);
    if (entry == NULL) {
        return attune_fail(ATTUNE_NOT_FOUND, "backend = \"%.100s\": there is none of that name", backend);
    }
    status = wrap_device(entry, native, &settings, out_device);
    if (status == ATTUNE_OK) {
        attune_sentence_restore(&before);
    }
    return status;
}

void attune_device_close(attune_device *device) {
    if (device == NULL) {
        return;
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    attune_plan_cache_destroy(device->plan_cache);
    device->backend->device_close(device->handle);
    attune_host_free(device->tuned_tiles);
    attune_host_free(device);
    attune_sentence_restore(&before);
}

attune_status attune_device_get_info(const attune_device *device, attune_device_info *out_info) {
    return device == NULL ? attune_args_refuse_null("device")
                          : attune_args_export("attune_device_info", &device->info, sizeof device->info, out_info);
}

attune_status attune_device_get_limits(const attune_device *device, attune_device_limits *out_limits) {
    return device == NULL
               ? attune_args_refuse_null("device")
               : attune_args_export("attune_device_limits", &device->limits, sizeof device->limits, out_limits);
}

attune_status attune_device_get_extension(attune_device *device, const char *name, void **out_extension) {
    if (device == NULL || name == NULL || out_extension == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : name == NULL ? "name" : "out_extension");
    }
    void *extension = device->backend->extension == NULL ? NULL : device->backend->extension(name);
    if (extension == NULL) {
        return attune_fail(ATTUNE_NOT_FOUND, "name = \"%.100s\": %s has no such extension", name,
                           device->backend->name);
    }
    *out_extension = extension;
    return ATTUNE_OK;
}
