/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/device.h"

#include "core/args.h"
#include "core/device_internal.h"
#include "core/host.h"
#include "core/plan_cache.h"
#include "core/status_internal.h"

attune_status attune_stream_resolve(attune_device *device, attune_stream *stream, void **out_handle) {
    if (device == NULL) {
        return attune_args_refuse_null("device");
    }
    if (stream != NULL && stream->device != device) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "stream is of another device, %s: must be of %s",
                           stream->device->info.selector, device->info.selector);
    }
    *out_handle = stream == NULL ? NULL : stream->handle;
    return ATTUNE_OK;
}

static attune_stream *new_stream(attune_device *device) {
    attune_stream *stream = attune_host_alloc(sizeof *stream);
    if (stream == NULL) {
        (void)attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a stream");
        return NULL;
    }
    stream->device = device;
    return stream;
}

/* What the backend answered decides whether the new stream is given out. */
static attune_status finish_stream(attune_status status, attune_stream *stream, attune_stream **out_stream) {
    if (status == ATTUNE_OK) {
        *out_stream = stream;
    } else {
        attune_host_free(stream);
    }
    return status;
}

attune_status attune_stream_create(attune_device *device, attune_stream **out_stream) {
    if (device == NULL || out_stream == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : "out_stream");
    }
    attune_stream *stream = new_stream(device);
    if (stream == NULL) {
        return ATTUNE_OUT_OF_MEMORY;
    }
    return finish_stream(device->backend->stream_open(device->handle, &stream->handle), stream, out_stream);
}

attune_status attune_stream_wrap(attune_device *device, void *native, attune_stream **out_stream) {
    if (device == NULL || out_stream == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : "out_stream");
    }
    if (device->backend->stream_wrap == NULL) {
        return attune_fail(ATTUNE_UNSUPPORTED, "%s has no streams of its own to wrap", device->info.selector);
    }
    if (native == NULL) {
        return attune_args_refuse_null("native");
    }
    attune_stream *stream = new_stream(device);
    if (stream == NULL) {
        return ATTUNE_OUT_OF_MEMORY;
    }
    return finish_stream(device->backend->stream_wrap(device->handle, native, &stream->handle), stream, out_stream);
}

static attune_status read_capturing(attune_device *device, void *handle, bool *out_capturing) {
    *out_capturing = false;
    return device->backend->stream_capturing == NULL
               ? ATTUNE_OK
               : device->backend->stream_capturing(device->handle, handle, out_capturing);
}

/* The work is waited for first: it may use the workspace that the plan cache then frees. A stream that is being
 * captured cannot be waited for: that would break the capture. */
void attune_stream_close(attune_stream *stream) {
    if (stream == NULL) {
        return;
    }
    struct attune_sentence before;
    attune_sentence_save(&before);
    attune_device *device = stream->device;
    bool capturing = false;
    if (read_capturing(device, stream->handle, &capturing) != ATTUNE_OK || !capturing) {
        (void)device->backend->stream_sync(device->handle, stream->handle);
    }
    attune_plan_cache_forget_stream(device->plan_cache, stream, capturing);
    device->backend->stream_close(device->handle, stream->handle);
    attune_host_free(stream);
    attune_sentence_restore(&before);
}

attune_status attune_stream_synchronize(attune_device *device, attune_stream *stream) {
    void *handle = NULL;
    attune_status status = attune_stream_resolve(device, stream, &handle);
    bool capturing = false;
    if (status == ATTUNE_OK) {
        status = read_capturing(device, handle, &capturing);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    return capturing ? attune_fail(ATTUNE_INVALID_ARGUMENT, "stream is being captured: must not be waited for")
                     : device->backend->stream_sync(device->handle, handle);
}

attune_status attune_stream_is_capturing(attune_device *device, attune_stream *stream, bool *out_capturing) {
    void *handle = NULL;
    attune_status status = attune_stream_resolve(device, stream, &handle);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (out_capturing == NULL) {
        return attune_args_refuse_null("out_capturing");
    }
    bool capturing = false;
    status = read_capturing(device, handle, &capturing);
    if (status == ATTUNE_OK) {
        *out_capturing = capturing;
    }
    return status;
}
