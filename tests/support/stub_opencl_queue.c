/*
 * The stub's queues, in which everything is done at once, and events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/stub_opencl_internal.h"

bool stub_queue_fits(cl_command_queue queue, cl_context context) {
    return stub_object_is(queue, STUB_QUEUE) && queue->object.context == context;
}

/* ---- Queues ---- */

STUB_EXPORT cl_command_queue CL_API_CALL clCreateCommandQueue(cl_context context, cl_device_id device,
                                                              cl_command_queue_properties properties, cl_int *result) {
    STUB_BEGIN_MAKING("clCreateCommandQueue", result);
    if (!stub_object_is(context, STUB_CONTEXT) || !stub_context_has(context, device)) {
        *result = CL_INVALID_CONTEXT;
        return NULL;
    }
    return stub_opencl.queue_create(context, device, properties);
}

STUB_EXPORT cl_int CL_API_CALL clRetainCommandQueue(cl_command_queue queue) {
    STUB_BEGIN("clRetainCommandQueue");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    stub_object_retain(queue);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clReleaseCommandQueue(cl_command_queue queue) {
    const cl_int result = stub_count_call("clReleaseCommandQueue");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    stub_object_release(queue);
    return result;
}

STUB_EXPORT cl_int CL_API_CALL clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info fact,
                                                     size_t capacity, void *value, size_t *size) {
    STUB_BEGIN("clGetCommandQueueInfo");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    switch (fact) {
    case CL_QUEUE_CONTEXT:
        return stub_answer(&queue->object.context, sizeof queue->object.context, capacity, value, size);
    case CL_QUEUE_DEVICE:
        return stub_answer(&queue->device, sizeof queue->device, capacity, value, size);
    case CL_QUEUE_PROPERTIES:
        return stub_answer(&queue->properties, sizeof queue->properties, capacity, value, size);
    default:
        return CL_INVALID_VALUE;
    }
}

STUB_EXPORT cl_int CL_API_CALL clFlush(cl_command_queue queue) {
    STUB_BEGIN("clFlush");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clFinish(cl_command_queue queue) {
    STUB_BEGIN("clFinish");
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    return CL_SUCCESS;
}

/* ---- Events ---- */

static cl_int check_waits(cl_command_queue queue, cl_uint waits, const cl_event *wait_list) {
    STUB_REQUIRE(stub_object_is(queue, STUB_QUEUE), CL_INVALID_COMMAND_QUEUE);
    for (cl_uint index = 0; index < waits; index++) {
        STUB_REQUIRE(stub_object_is(wait_list[index], STUB_EVENT), CL_INVALID_EVENT_WAIT_LIST);
        STUB_REQUIRE(wait_list[index]->object.context == queue->object.context, CL_INVALID_CONTEXT);
    }
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint waits,
                                                           const cl_event *wait_list, cl_event *event) {
    STUB_BEGIN("clEnqueueMarkerWithWaitList");
    const cl_int result = check_waits(queue, waits, wait_list);
    STUB_REQUIRE(result == CL_SUCCESS && event != NULL, result);
    cl_event made = stub_object_make(STUB_EVENT, sizeof *made, queue->object.context);
    made->profiled = (queue->properties & CL_QUEUE_PROFILING_ENABLE) != 0;
    pthread_mutex_lock(&stub_lock);
    made->time = (cl_ulong)stub_opencl.calls * 1000;
    pthread_mutex_unlock(&stub_lock);
    *event = made;
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint waits,
                                                            const cl_event *wait_list, cl_event *event) {
    STUB_BEGIN("clEnqueueBarrierWithWaitList");
    STUB_REQUIRE(event == NULL, CL_INVALID_VALUE);
    return check_waits(queue, waits, wait_list);
}

STUB_EXPORT cl_int CL_API_CALL clWaitForEvents(cl_uint count, const cl_event *events) {
    STUB_BEGIN("clWaitForEvents");
    for (cl_uint index = 0; index < count; index++) {
        STUB_REQUIRE(stub_object_is(events[index], STUB_EVENT), CL_INVALID_EVENT);
    }
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clRetainEvent(cl_event event) {
    STUB_BEGIN("clRetainEvent");
    STUB_REQUIRE(stub_object_is(event, STUB_EVENT), CL_INVALID_EVENT);
    stub_object_retain(event);
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clReleaseEvent(cl_event event) {
    const cl_int result = stub_count_call("clReleaseEvent");
    STUB_REQUIRE(stub_object_is(event, STUB_EVENT), CL_INVALID_EVENT);
    stub_object_release(event);
    return result;
}

STUB_EXPORT cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info fact, size_t capacity,
                                                       void *value, size_t *size) {
    STUB_BEGIN("clGetEventProfilingInfo");
    STUB_REQUIRE(stub_object_is(event, STUB_EVENT), CL_INVALID_EVENT);
    STUB_REQUIRE(event->profiled, CL_PROFILING_INFO_NOT_AVAILABLE);
    STUB_REQUIRE(fact == CL_PROFILING_COMMAND_END, CL_INVALID_VALUE);
    return stub_answer(&event->time, sizeof event->time, capacity, value, size);
}
