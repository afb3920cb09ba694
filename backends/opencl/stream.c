/*
 * Queues in order, and events. What is queued is flushed at once: a queue that waits for another's event would
 * otherwise wait for a command that its driver still holds back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/device.h"

/* A stream handle is the queue itself, retained if it is the caller's. */
cl_command_queue attune_opencl_queue_of(const struct attune_opencl_device *device, const void *stream) {
    return stream == NULL ? device->queue : (cl_command_queue)(uintptr_t)stream;
}

attune_status attune_opencl_stream_open(void *handle, void **out_stream) {
    const struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    cl_int result = CL_SUCCESS;
    *out_stream = device->api->CreateCommandQueue(device->context, device->device, CL_QUEUE_PROFILING_ENABLE, &result);
    return attune_opencl_check(result, "clCreateCommandQueue");
}

/* What a caller's queue must be; the sentence of what it is not. */
static attune_status check_queue(const struct attune_opencl_device *device, cl_command_queue queue) {
    const struct attune_opencl_api *api = device->api;
    cl_context context = NULL;
    cl_device_id native = NULL;
    cl_command_queue_properties properties = 0;
    if (!attune_opencl_may_be_object(device, queue)) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "native is not a cl_command_queue of the device's platform");
    }
    const cl_int result = api->GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    attune_status status = attune_opencl_check(result, "native is not a cl_command_queue: clGetCommandQueueInfo");
    if (status != ATTUNE_OK) {
        return result == CL_INVALID_COMMAND_QUEUE ? ATTUNE_INVALID_ARGUMENT : status;
    }
    status = attune_opencl_check(api->GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof native, &native, NULL),
                                 "CL_QUEUE_DEVICE");
    if (status == ATTUNE_OK) {
        status = attune_opencl_check(
            api->GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
            "CL_QUEUE_PROPERTIES");
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (context != device->context || native != device->device) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "native is a cl_command_queue of another %s than the device's",
                                        context != device->context ? "cl_context" : "cl_device_id");
    }
    return (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0
               ? ATTUNE_OK
               : attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                          "native is a cl_command_queue out of order; a stream runs in order");
}

attune_status attune_opencl_stream_wrap(void *handle, void *native, void **out_stream) {
    const struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status == ATTUNE_OK) {
        status = check_queue(device, native);
    }
    if (status == ATTUNE_OK) {
        status = attune_opencl_check(device->api->RetainCommandQueue(native), "clRetainCommandQueue");
        *out_stream = native;
    }
    return status;
}

void attune_opencl_stream_close(void *handle, void *stream) {
    const struct attune_opencl_device *device = handle;
    if (!attune_opencl_api_is_forked(device->api)) {
        (void)device->api->ReleaseCommandQueue(stream);
    }
}

/* Rusticl (of Mesa 22.3) only waits in clFinish for what is not flushed yet: the marker is that. */
attune_status attune_opencl_stream_sync(void *handle, void *stream) {
    const struct attune_opencl_device *device = handle;
    const cl_command_queue queue = attune_opencl_queue_of(device, stream);
    attune_status status = attune_opencl_enter(device);
    if (status == ATTUNE_OK) {
        status = attune_opencl_check(device->api->EnqueueMarkerWithWaitList(queue, 0, NULL, NULL),
                                     "clEnqueueMarkerWithWaitList");
    }
    return status == ATTUNE_OK ? attune_opencl_check(device->api->Finish(queue), "clFinish") : status;
}

/* ---- Events ---- */

/* A cl_event is one point only; recording again makes another. */
struct event {
    pthread_mutex_t lock;
    cl_event reached; /* NULL: never recorded */
};

attune_status attune_opencl_event_open(void *device, void **out_event) {
    (void)device;
    struct event *event = attune_opencl_host->alloc(sizeof *event);
    if (event == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "an event handle of %zu bytes", sizeof *event);
    }
    (void)pthread_mutex_init(&event->lock, NULL);
    *out_event = event;
    return ATTUNE_OK;
}

static void replace(const struct attune_opencl_device *device, struct event *event, cl_event reached) {
    (void)pthread_mutex_lock(&event->lock);
    cl_event old = event->reached;
    event->reached = reached;
    (void)pthread_mutex_unlock(&event->lock);
    if (old != NULL) {
        (void)device->api->ReleaseEvent(old);
    }
}

/* The point, retained, or NULL. */
static attune_status hold(const struct attune_opencl_device *device, struct event *event, cl_event *out_reached) {
    attune_status status = ATTUNE_OK;
    (void)pthread_mutex_lock(&event->lock);
    *out_reached = event->reached;
    if (event->reached != NULL) {
        status = attune_opencl_check(device->api->RetainEvent(event->reached), "clRetainEvent");
    }
    (void)pthread_mutex_unlock(&event->lock);
    return status;
}

void attune_opencl_event_close(void *handle, void *event_handle) {
    const struct attune_opencl_device *device = handle;
    struct event *event = event_handle;
    if (!attune_opencl_api_is_forked(device->api)) {
        replace(device, event, NULL);
    }
    (void)pthread_mutex_destroy(&event->lock);
    attune_opencl_host->free(event);
}

attune_status attune_opencl_event_record(void *handle, void *event, void *stream) {
    const struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const cl_command_queue queue = attune_opencl_queue_of(device, stream);
    cl_event reached = NULL;
    status = attune_opencl_check(device->api->EnqueueMarkerWithWaitList(queue, 0, NULL, &reached),
                                 "clEnqueueMarkerWithWaitList");
    if (status != ATTUNE_OK) {
        return status;
    }
    status = attune_opencl_check(device->api->Flush(queue), "clFlush");
    if (status != ATTUNE_OK) {
        (void)device->api->ReleaseEvent(reached);
        return status;
    }
    replace(device, event, reached);
    return ATTUNE_OK;
}

attune_status attune_opencl_event_wait(void *handle, void *event, void *stream) {
    const struct attune_opencl_device *device = handle;
    cl_event reached = NULL;
    attune_status status = attune_opencl_enter(device);
    if (status == ATTUNE_OK) {
        status = hold(device, event, &reached);
    }
    if (status != ATTUNE_OK || reached == NULL) {
        return status;
    }
    status = attune_opencl_check(
        device->api->EnqueueBarrierWithWaitList(attune_opencl_queue_of(device, stream), 1, &reached, NULL),
        "clEnqueueBarrierWithWaitList");
    (void)device->api->ReleaseEvent(reached);
    return status;
}

static attune_status read_time(const struct attune_opencl_device *device, cl_event reached, cl_ulong *out_nanoseconds) {
    return attune_opencl_check(device->api->GetEventProfilingInfo(reached, CL_PROFILING_COMMAND_END,
                                                                  sizeof *out_nanoseconds, out_nanoseconds, NULL),
                               "the queue has no CL_QUEUE_PROFILING_ENABLE: clGetEventProfilingInfo");
}

static attune_status elapsed(const struct attune_opencl_device *device, const cl_event points[2], double *out_seconds) {
    cl_ulong start = 0;
    cl_ulong end = 0;
    attune_status status = attune_opencl_check(device->api->WaitForEvents(2, points), "clWaitForEvents");
    if (status == ATTUNE_OK) {
        status = read_time(device, points[0], &start);
    }
    if (status == ATTUNE_OK) {
        status = read_time(device, points[1], &end);
    }
    if (status == ATTUNE_OK) {
        *out_seconds = 1e-9 * ((double)end - (double)start);
    }
    return status;
}

attune_status attune_opencl_event_elapsed(void *handle, void *start, void *end, double *out_seconds) {
    const struct attune_opencl_device *device = handle;
    cl_event points[2] = {NULL, NULL};
    attune_status status = attune_opencl_enter(device);
    if (status == ATTUNE_OK) {
        status = hold(device, start, &points[0]);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = hold(device, end, &points[1]);
    if (status == ATTUNE_OK) {
        status = elapsed(device, points, out_seconds);
        (void)device->api->ReleaseEvent(points[1]);
    }
    (void)device->api->ReleaseEvent(points[0]);
    return status;
}
