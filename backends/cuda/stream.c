/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/device.h"

CUstream cuda_stream_of(const void *stream) {
    return stream == NULL ? CU_STREAM_PER_THREAD : ((const struct cuda_stream *)stream)->stream;
}

static attune_status make_stream(CUstream stream, bool owned, void **out_stream) {
    struct cuda_stream *made = cuda_host->alloc(sizeof *made);
    if (made == NULL) {
        return cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "cuda: a stream handle of %zu bytes", sizeof *made);
    }
    made->stream = stream;
    made->owned = owned;
    *out_stream = made;
    return ATTUNE_OK;
}

attune_status cuda_stream_open(void *handle, void **out_stream) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUstream stream = NULL;
    status = cuda_check(device->api, device->api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == ATTUNE_OK) {
        status = make_stream(stream, true, out_stream);
        if (status != ATTUNE_OK) {
            (void)device->api->StreamDestroy(stream);
        }
    }
    cuda_leave(device);
    return status;
}

attune_status cuda_stream_wrap(void *handle, void *native, void **out_stream) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUcontext context = NULL;
    status = cuda_check(device->api, device->api->StreamGetCtx(native, &context), "cuStreamGetCtx");
    cuda_leave(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (context != device->context) {
        return cuda_host->fail(ATTUNE_INVALID_ARGUMENT, "native is a CUstream of another context than the device's");
    }
    return make_stream(native, false, out_stream);
}

void cuda_stream_close(void *handle, void *stream_handle) {
    const struct cuda_device *device = handle;
    struct cuda_stream *stream = stream_handle;
    if (cuda_enter(device) == ATTUNE_OK) {
        (void)device->api->StreamSynchronize(stream->stream);
        if (stream->owned) {
            (void)device->api->StreamDestroy(stream->stream);
        }
        cuda_leave(device);
    }
    cuda_host->free(stream);
}

attune_status cuda_stream_sync(void *handle, void *stream) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = cuda_check(device->api, device->api->StreamSynchronize(cuda_stream_of(stream)), "cuStreamSynchronize");
        cuda_leave(device);
    }
    return status;
}

attune_status cuda_stream_capturing(void *handle, void *stream, bool *out_capturing) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status == ATTUNE_OK) {
        CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
        status = cuda_check(device->api, device->api->StreamIsCapturing(cuda_stream_of(stream), &capture),
                            "cuStreamIsCapturing");
        *out_capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
        cuda_leave(device);
    }
    return status;
}

attune_status cuda_event_open(void *handle, void **out_event) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status == ATTUNE_OK) {
        CUevent event = NULL;
        status = cuda_check(device->api, device->api->EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
        *out_event = event;
        cuda_leave(device);
    }
    return status;
}

void cuda_event_close(void *handle, void *event) {
    const struct cuda_device *device = handle;
    if (cuda_enter(device) == ATTUNE_OK) {
        (void)device->api->EventDestroy(event);
        cuda_leave(device);
    }
}

attune_status cuda_event_record(void *handle, void *event, void *stream) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = cuda_check(device->api, device->api->EventRecord(event, cuda_stream_of(stream)), "cuEventRecord");
        cuda_leave(device);
    }
    return status;
}

attune_status cuda_event_wait(void *handle, void *event, void *stream) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = cuda_check(device->api, device->api->StreamWaitEvent(cuda_stream_of(stream), event, 0),
                            "cuStreamWaitEvent");
        cuda_leave(device);
    }
    return status;
}

attune_status cuda_event_elapsed(void *handle, void *start, void *end, double *out_seconds) {
    const struct cuda_device *device = handle;
    attune_status status = cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    float milliseconds = 0.0F;
    status = cuda_check(device->api, device->api->EventSynchronize(end), "cuEventSynchronize");
    if (status == ATTUNE_OK) {
        status =
            cuda_check(device->api, device->api->EventElapsedTime(&milliseconds, start, end), "cuEventElapsedTime");
        *out_seconds = 1e-3 * (double)milliseconds;
    }
    cuda_leave(device);
    return status;
}
