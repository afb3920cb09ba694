/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/device.h"

#include "core/args.h"
#include "core/device_internal.h"
#include "core/host.h"
#include "core/status_internal.h"

attune_status attune_event_create(attune_device *device, attune_event **out_event) {
    if (device == NULL || out_event == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : "out_event");
    }
    attune_event *event = attune_host_alloc(sizeof *event);
    if (event == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for an event");
    }
    event->device = device;
    attune_status status = device->backend->event_open(device->handle, &event->handle);
    if (status != ATTUNE_OK) {
        attune_host_free(event);
        return status;
    }
    *out_event = event;
    return ATTUNE_OK;
}

void attune_event_close(attune_event *event) {
    if (event != NULL) {
        event->device->backend->event_close(event->device->handle, event->handle);
        attune_host_free(event);
    }
}

attune_status attune_event_record(attune_event *event, attune_stream *stream) {
    if (event == NULL) {
        return attune_args_refuse_null("event");
    }
    void *stream_handle = NULL;
    attune_status status = attune_stream_resolve(event->device, stream, &stream_handle);
    if (status == ATTUNE_OK) {
        status = event->device->backend->event_record(event->device->handle, event->handle, stream_handle);
    }
    if (status == ATTUNE_OK) {
        atomic_store(&event->recorded, true);
    }
    return status;
}

attune_status attune_event_wait(attune_event *event, attune_stream *stream) {
    if (event == NULL) {
        return attune_args_refuse_null("event");
    }
    void *stream_handle = NULL;
    attune_status status = attune_stream_resolve(event->device, stream, &stream_handle);
    if (status != ATTUNE_OK || !atomic_load(&event->recorded)) {
        return status;
    }
    return event->device->backend->event_wait(event->device->handle, event->handle, stream_handle);
}

attune_status attune_event_elapsed(const attune_event *start, const attune_event *end, double *out_seconds) {
    if (start == NULL || end == NULL || out_seconds == NULL) {
        return attune_args_refuse_null(start == NULL ? "start" : end == NULL ? "end" : "out_seconds");
    }
    if (start->device != end->device) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "end is of another device, %s: must be of %s",
                           end->device->info.selector, start->device->info.selector);
    }
    if (!atomic_load(&start->recorded) || !atomic_load(&end->recorded)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s was never recorded: must have been",
                           atomic_load(&start->recorded) ? "end" : "start");
    }
    double seconds = 0.0;
    attune_status status =
        start->device->backend->event_elapsed(start->device->handle, start->handle, end->handle, &seconds);
    if (status == ATTUNE_OK) {
        *out_seconds = seconds;
    }
    return status;
}
