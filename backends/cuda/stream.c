/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/device.h"

CUstream attune_cuda_stream_of(const void *stream) {
    return stream == NULL ? CU_STREAM_PER_THREAD : ((const struct attune_cuda_stream *)stream)->stream;
}

static attune_status make_stream(CUstream stream, bool owned, void **out_stream) {
    struct attune_cuda_stream *made = attune_cuda_host->alloc(sizeof *made);
    if (made == NULL) {
        return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "a stream handle of %zu bytes", sizeof *made);
    }
    made->stream = stream;
    made->owned = owned;
    *out_stream = made;
    return ATTUNE_OK;
}

attune_status attune_cuda_stream_open(void *handle, void **out_stream) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUstream stream = NULL;
    status =
        attune_cuda_check(device->api, device->api->StreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
    if (status == ATTUNE_OK) {
        status = make_stream(stream, true, out_stream);
        if (status != ATTUNE_OK) {
            (void)device->api->StreamDestroy(stream);
        }
    }
    attune_cuda_leave(device);
    return status;
}

attune_status attune_cuda_stream_wrap(void *handle, void *native, void **out_stream) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    CUcontext context = NULL;
    const CUresult result = device->api->StreamGetCtx(native, &context);
    attune_cuda_leave(device);
    status = attune_cuda_check(device->api, result, "native is not a CUstream: cuStreamGetCtx");
    if (status != ATTUNE_OK) {
        return result == CUDA_ERROR_INVALID_HANDLE ? ATTUNE_INVALID_ARGUMENT : status;
    }
    if (context != device->context) {
        return attune_cuda_host->fail(ATTUNE_INVALID_ARGUMENT,
                                      "native is a CUstream of another context than the device's");
    }
    return make_stream(native, false, out_stream);
}

void attune_cuda_stream_close(void *handle, void *stream_handle) {
    const struct attune_cuda_device *device = handle;
    struct attune_cuda_stream *stream = stream_handle;
    if (stream->owned && attune_cuda_try_enter(device)) {
        (void)device->api->StreamDestroy(stream->stream);
        attune_cuda_leave(device);
    }
    attune_cuda_host->free(stream);
}

attune_status attune_cuda_stream_sync(void *handle, void *stream) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->StreamSynchronize(attune_cuda_stream_of(stream)),
                                   "cuStreamSynchronize");
        attune_cuda_leave(device);
    }
    return status;
}

attune_status attune_cuda_stream_capturing(void *handle, void *stream, bool *out_capturing) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
        status = attune_cuda_check(device->api, device->api->StreamIsCapturing(attune_cuda_stream_of(stream), &capture),
                                   "cuStreamIsCapturing");
        *out_capturing = capture != CU_STREAM_CAPTURE_STATUS_NONE;
        attune_cuda_leave(device);
    }
    return status;
}

attune_status attune_cuda_event_open(void *handle, void **out_event) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        CUevent event = NULL;
        status = attune_cuda_check(device->api, device->api->EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
        *out_event = event;
        attune_cuda_leave(device);
    }
    return status;
}

void attune_cuda_event_close(void *handle, void *event) {
    const struct attune_cuda_device *device = handle;
    if (attune_cuda_try_enter(device)) {
        (void)device->api->EventDestroy(event);
        attune_cuda_leave(device);
    }
}

attune_status attune_cuda_event_record(void *handle, void *event, void *stream) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->EventRecord(event, attune_cuda_stream_of(stream)),
                                   "cuEventRecord");
        attune_cuda_leave(device);
    }
    return status;
}

attune_status attune_cuda_event_wait(void *handle, void *event, void *stream) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->StreamWaitEvent(attune_cuda_stream_of(stream), event, 0),
                                   "cuStreamWaitEvent");
        attune_cuda_leave(device);
    }
    return status;
}

attune_status attune_cuda_event_elapsed(void *handle, void *start, void *end, double *out_seconds) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    float milliseconds = 0.0F;
    status = attune_cuda_check(device->api, device->api->EventSynchronize(end), "cuEventSynchronize");
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(device->api, device->api->EventElapsedTime(&milliseconds, start, end),
                                   "cuEventElapsedTime");
        *out_seconds = 1e-3 * (double)milliseconds;
    }
    attune_cuda_leave(device);
    return status;
}
