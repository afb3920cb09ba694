/*
 * The table's entries that put commands into a queue: copies and fills; and those of streams.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/opaque.h"

struct opaque_queue *opaque_stream_queue(const struct opaque_device *device, void *stream) {
    return stream == NULL ? device->queue : stream;
}

/* ---- Streams ---- */

attune_status opaque_stream_open(void *device, void **out_stream) {
    const struct opaque_device *opened = device;
    struct opaque_queue *queue = NULL;
    attune_status status = opaque_device_check(opened);
    if (status == ATTUNE_OK) {
        status = opaque_queue_open(opened->index, false, &queue);
    }
    if (status == ATTUNE_OK) {
        *out_stream = queue;
    }
    return status;
}

attune_status opaque_stream_wrap(void *device, void *native, void **out_stream) {
    const struct opaque_device *opened = device;
    attune_status status = opaque_device_check(opened);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct opaque_queue *queue = opaque_queue_find_native(native);
    if (queue == NULL) {
        return opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "native is no stream that the extension made");
    }
    if (queue->device != opened->index) {
        return opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "native is a stream of device %d, not of %d",
                                 (int)queue->device, (int)opened->index);
    }
    *out_stream = queue;
    return ATTUNE_OK;
}

void opaque_stream_close(void *device, void *stream) {
    (void)device;
    struct opaque_queue *queue = stream;
    if (!opaque_process_is_fork() && !queue->is_native) {
        opaque_queue_close(queue);
    }
}

attune_status opaque_stream_sync(void *device, void *stream) {
    const struct opaque_device *opened = device;
    attune_status status = opaque_device_check(opened);
    return status == ATTUNE_OK ? opaque_queue_sync(opaque_stream_queue(opened, stream)) : status;
}

attune_status opaque_stream_capturing(void *device, void *stream, bool *out_capturing) {
    const struct opaque_device *opened = device;
    attune_status status = opaque_device_check(opened);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct opaque_queue *queue = opaque_stream_queue(opened, stream);
    pthread_mutex_lock(&queue->mutex);
    *out_capturing = queue->graph != NULL;
    pthread_mutex_unlock(&queue->mutex);
    return ATTUNE_OK;
}

/* ---- Copies and fills ---- */

static attune_status push(const struct opaque_device *device, void *stream, const struct opaque_command *command) {
    attune_status status = opaque_device_check(device);
    return status == ATTUNE_OK ? opaque_queue_push(opaque_stream_queue(device, stream), command) : status;
}

static enum opaque_command_kind kind_of(attune_copy_direction direction) {
    return direction == ATTUNE_COPY_HOST_TO_DEVICE   ? OPAQUE_COPY_IN
           : direction == ATTUNE_COPY_DEVICE_TO_HOST ? OPAQUE_COPY_OUT
                                                     : OPAQUE_COPY_WITHIN;
}

attune_status opaque_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes) {
    const struct opaque_device *opened = device;
    const struct opaque_command command = {
        .kind = kind_of(direction),
        .device = opened->index,
        .source_device = opened->index,
        .destination = destination,
        .source = source,
        .bytes = bytes,
    };
    return push(opened, stream, &command);
}

attune_status opaque_memory_copy_peer(void *destination_device, void *stream, attune_pointer destination,
                                      void *source_device, attune_pointer source, uint64_t bytes) {
    const struct opaque_device *opened = destination_device;
    const struct opaque_device *other = source_device;
    const struct opaque_command command = {
        .kind = OPAQUE_COPY_WITHIN,
        .device = opened->index,
        .source_device = other->index,
        .destination = destination,
        .source = source,
        .bytes = bytes,
    };
    attune_status status = opaque_device_check(other);
    return status == ATTUNE_OK ? push(opened, stream, &command) : status;
}

attune_status opaque_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value) {
    const struct opaque_device *opened = device;
    const struct opaque_command command = {
        .kind = OPAQUE_FILL,
        .device = opened->index,
        .destination = data,
        .bytes = bytes,
        .value = value,
    };
    return push(opened, stream, &command);
}
