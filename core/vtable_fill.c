/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "core/vtable_fill.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "attune/backend_util.h"
#include "core/host.h"
#include "core/status_internal.h"

static void keep_device(void *device) {
    (void)device;
}

/* ---- Memory ---- */

static void *last_word(void *data) {
    return (char *)data - sizeof(void *);
}

/* What the allocator gave is kept in the word before the aligned address. */
static attune_status alloc_memory(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    (void)device;
    const uint64_t extra = ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES + sizeof(void *);
    if (kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_HOST) {
        return attune_fail(ATTUNE_UNSUPPORTED, "kind = %d: the device has only host memory, %d", (int)kind,
                           (int)ATTUNE_MEMORY_HOST);
    }
    char *base = bytes > SIZE_MAX - extra ? NULL : attune_host_alloc((size_t)(bytes + extra));
    if (base == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no host memory for %" PRIu64 " bytes", bytes);
    }
    const uintptr_t first = (uintptr_t)base + sizeof(void *);
    *out_data = base + sizeof(void *) + -first % ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES;
    memcpy(last_word(*out_data), &base, sizeof base);
    return ATTUNE_OK;
}

static void free_memory(void *device, void *data) {
    (void)device;
    void *base = NULL;
    memcpy(&base, last_word(data), sizeof base);
    attune_host_free(base);
}

static attune_status copy_memory(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device, (void)stream, (void)direction;
    memcpy(attune_pointer_address(destination), attune_pointer_address(source), (size_t)bytes);
    return ATTUNE_OK;
}

static attune_status fill_memory(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value) {
    (void)device, (void)stream;
    memset(attune_pointer_address(data), value, (size_t)bytes);
    return ATTUNE_OK;
}

/* One space, in which offsets are addresses. Whoever allocated it, its end is unknown. */
static attune_status find_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)device, (void)kind;
    *out_range = (attune_memory_range){.space = 0, .offset = (uintptr_t)data, .size_bytes = UINT64_MAX};
    return ATTUNE_OK;
}

/* ---- Streams ---- */

static attune_status open_stream(void *device, void **out_stream) {
    (void)device;
    *out_stream = NULL;
    return ATTUNE_OK;
}

static void close_stream(void *device, void *stream) {
    (void)device, (void)stream;
}

static attune_status sync_stream(void *device, void *stream) {
    (void)device, (void)stream;
    return ATTUNE_OK;
}

/* ---- Events: the host's time in nanoseconds ---- */

static attune_status open_event(void *device, void **out_event) {
    (void)device;
    *out_event = attune_host_alloc(sizeof(_Atomic int64_t));
    return *out_event != NULL ? ATTUNE_OK : attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for an event");
}

static void close_event(void *device, void *event) {
    (void)device;
    attune_host_free(event);
}

static attune_status record_event(void *device, void *event, void *stream) {
    (void)device, (void)stream;
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
        return attune_fail(ATTUNE_INTERNAL, "the monotonic clock cannot be read");
    }
    atomic_store((_Atomic int64_t *)event, INT64_C(1000000000) * now.tv_sec + now.tv_nsec);
    return ATTUNE_OK;
}

static attune_status wait_for_event(void *device, void *event, void *stream) {
    (void)device, (void)event, (void)stream;
    return ATTUNE_OK;
}

static attune_status time_events(void *device, void *start, void *end, double *out_seconds) {
    (void)device;
    *out_seconds = 1e-9 * (double)(atomic_load((_Atomic int64_t *)end) - atomic_load((_Atomic int64_t *)start));
    return ATTUNE_OK;
}

void attune_vtable_fill(attune_backend *backend) {
    if (backend->device_close == NULL) {
        backend->device_close = keep_device;
    }
    if (backend->memory_alloc == NULL) {
        backend->memory_alloc = alloc_memory;
        backend->memory_free = free_memory;
        backend->memory_copy = copy_memory;
        backend->memory_fill = fill_memory;
        backend->memory_range = find_range;
    }
    if (backend->stream_open == NULL) {
        backend->stream_open = open_stream;
        backend->stream_close = close_stream;
        backend->stream_sync = sync_stream;
    }
    if (backend->event_open == NULL) {
        backend->event_open = open_event;
        backend->event_close = close_event;
        backend->event_record = record_event;
        backend->event_wait = wait_for_event;
        backend->event_elapsed = time_events;
    }
}
