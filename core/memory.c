/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/device.h"

#include <inttypes.h>

#include "core/args.h"
#include "core/device_internal.h"
#include "core/status_internal.h"

attune_status attune_memory_alloc(attune_device *device, attune_memory kind, uint64_t bytes, void **out_data) {
    if (device == NULL || out_data == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : "out_data");
    }
    if (kind < ATTUNE_MEMORY_DEFAULT || kind > ATTUNE_MEMORY_SVM) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "kind = %d: must be one of attune_memory", (int)kind);
    }
    void *data = NULL;
    attune_status status = bytes == 0 ? ATTUNE_OK : device->backend->memory_alloc(device->handle, kind, bytes, &data);
    if (status == ATTUNE_OK) {
        *out_data = data;
    }
    return status;
}

void attune_memory_free(attune_device *device, void *data) {
    if (device != NULL && data != NULL) {
        device->backend->memory_free(device->handle, data);
    }
}

/* One side of a copy or a fill. */
struct side {
    const char *name;
    attune_pointer pointer;
    attune_device *device; /* whose memory it is; NULL: the host's, of which nothing is known */
};

static attune_status check_side(const struct side *side, uint64_t bytes) {
    uint64_t offset = side->pointer.byte_offset;
    if (side->pointer.data == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = NULL: must not be NULL for %" PRIu64 " bytes", side->name,
                           bytes);
    }
    if (bytes > UINT64_MAX - offset) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s_offset = %" PRIu64 ": with %" PRIu64 " bytes must not pass 2^64", side->name, offset,
                           bytes);
    }
    if (side->device == NULL) {
        return ATTUNE_OK;
    }
    attune_memory_range range = {0, 0, UINT64_MAX};
    attune_status status =
        side->device->backend->memory_range(side->device->handle, side->pointer.memory, side->pointer.data, &range);
    if (status == ATTUNE_OK && range.size_bytes != UINT64_MAX && offset + bytes > range.size_bytes) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s_offset = %" PRIu64 ": with %" PRIu64 " bytes must stay within the allocation's %" PRIu64,
                           side->name, offset, bytes, range.size_bytes);
    }
    return status;
}

static attune_status check_sides(const struct side *destination, const struct side *source, uint64_t bytes) {
    attune_status status = check_side(destination, bytes);
    return status == ATTUNE_OK ? check_side(source, bytes) : status;
}

attune_status attune_memory_copy(attune_device *device, attune_stream *stream, attune_copy_direction direction,
                                 void *destination, uint64_t destination_offset, const void *source,
                                 uint64_t source_offset, uint64_t bytes) {
    void *stream_handle = NULL;
    attune_status status = attune_stream_resolve(device, stream, &stream_handle);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (direction < ATTUNE_COPY_HOST_TO_DEVICE || direction > ATTUNE_COPY_DEVICE_TO_DEVICE) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "direction = %d: must be one of attune_copy_direction",
                           (int)direction);
    }
    struct side to = {"destination",
                      {destination, destination_offset, ATTUNE_MEMORY_DEFAULT},
                      direction == ATTUNE_COPY_DEVICE_TO_HOST ? NULL : device};
    struct side from = {"source",
                        {(void *)source, source_offset, ATTUNE_MEMORY_DEFAULT},
                        direction == ATTUNE_COPY_HOST_TO_DEVICE ? NULL : device};
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    status = check_sides(&to, &from, bytes);
    return status == ATTUNE_OK
               ? device->backend->memory_copy(device->handle, stream_handle, direction, to.pointer, from.pointer, bytes)
               : status;
}

attune_status attune_memory_copy_peer(attune_device *destination_device, attune_stream *stream, void *destination,
                                      uint64_t destination_offset, attune_device *source_device, const void *source,
                                      uint64_t source_offset, uint64_t bytes) {
    if (destination_device == NULL || source_device == NULL) {
        return attune_args_refuse_null(destination_device == NULL ? "destination_device" : "source_device");
    }
    void *stream_handle = NULL;
    attune_status status = attune_stream_resolve(destination_device, stream, &stream_handle);
    if (status != ATTUNE_OK) {
        return status;
    }
    const attune_backend *backend = destination_device->backend;
    if (backend != source_device->backend) {
        return attune_fail(ATTUNE_UNSUPPORTED, "source_device = %s: must be of destination_device's backend, %s",
                           source_device->info.selector, backend->name);
    }
    if (backend->memory_copy_peer == NULL) {
        return attune_fail(ATTUNE_UNSUPPORTED, "%s copies nothing from device to device", backend->name);
    }
    if (bytes == 0) {
        return ATTUNE_OK;
    }
    struct side to = {"destination", {destination, destination_offset, ATTUNE_MEMORY_DEFAULT}, destination_device};
    struct side from = {"source", {(void *)source, source_offset, ATTUNE_MEMORY_DEFAULT}, source_device};
    status = check_sides(&to, &from, bytes);
    return status == ATTUNE_OK ? backend->memory_copy_peer(destination_device->handle, stream_handle, to.pointer,
                                                           source_device->handle, from.pointer, bytes)
                               : status;
}

attune_status attune_memory_fill(attune_device *device, attune_stream *stream, void *data, uint64_t byte_offset,
                                 uint64_t bytes, uint8_t value) {
    void *stream_handle = NULL;
    attune_status status = attune_stream_resolve(device, stream, &stream_handle);
    if (status != ATTUNE_OK || bytes == 0) {
        return status;
    }
    struct side to = {"data", {data, byte_offset, ATTUNE_MEMORY_DEFAULT}, device};
    status = check_side(&to, bytes);
    return status == ATTUNE_OK ? device->backend->memory_fill(device->handle, stream_handle, to.pointer, bytes, value)
                               : status;
}

attune_status attune_memory_get_range(attune_device *device, const void *data, attune_memory_range *out_range) {
    if (device == NULL || data == NULL || out_range == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : data == NULL ? "data" : "out_range");
    }
    attune_memory_range range = {0, 0, UINT64_MAX};
    attune_status status = device->backend->memory_range(device->handle, ATTUNE_MEMORY_DEFAULT, data, &range);
    if (status == ATTUNE_OK) {
        *out_range = range;
    }
    return status;
}
