/*
 * What a device, a stream and an event are inside core.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_DEVICE_INTERNAL_H
#define ATTUNE_CORE_DEVICE_INTERNAL_H

#include <stdatomic.h>

#include "attune/backend.h"
#include "core/env.h"
#include "core/memory_account.h"

struct attune_plan_cache; /* plan_cache.h: plans and workspaces of the one-call functions */

struct attune_device {
    const attune_backend *backend;
    void *handle; /* the backend's */
    int32_t index;
    attune_device_info info;
    attune_device_limits limits;     /* with ATTUNE_DEVICE_LIMITS applied */
    struct attune_settings settings; /* as they were when the device was opened */
    struct attune_plan_cache *plan_cache;
    struct attune_memory_account memory;
    char *tuned_tiles; /* tuned_tile.h: text; NULL: none. Never changes while the device is open */
};

struct attune_stream {
    attune_device *device;
    void *handle;
};

struct attune_event {
    attune_device *device;
    void *handle;
    atomic_bool recorded;
};

/* The backend's handle of a stream that may be NULL; INVALID_ARGUMENT if the stream is another device's. */
attune_status attune_stream_resolve(attune_device *device, attune_stream *stream, void **out_handle);

#endif
