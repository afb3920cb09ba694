/*
 * The opencl backend against a library without a device, through the public API: every call of the library may fail on
 * every path, and then there is a sentence and nothing is lost.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "opencl_session.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/host.h"
#include "failing_calls.h"

/* ---- Before the library is there; these come first, since it is opened once ---- */

static void missing_library(void **state) {
    (void)state;
    attune_device *device = NULL;
    setenv("ATTUNE_OPENCL_LIBRARY", "libattune_no_such_loader.so.9", 1);
    assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, "libattune_no_such_loader.so.9");
    setenv("ATTUNE_OPENCL_LIBRARY", TEST_STUB_OPENCL, 1);
}

static void missing_symbol(void **state) {
    (void)state;
    attune_device *device = NULL;
    setenv("ATTUNE_OPENCL_LIBRARY", TEST_STUB_OPENCL_OLDER, 1);
    assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, "clEnqueueNDRangeKernel");
    assert_contains(attune_last_error(), TEST_STUB_OPENCL_OLDER);
    setenv("ATTUNE_OPENCL_LIBRARY", TEST_STUB_OPENCL, 1);
}

static void no_platform(void **state) {
    (void)state;
    attune_device *device = NULL;
    stub->platforms = 0;
    assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, "no platform");
}

static void no_device(void **state) {
    (void)state;
    attune_device *device = NULL;
    stub->devices = 0;
    assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, "no device");
}

/* ---- All that an application does, once; stops at the first failure ---- */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const attune_status tried = (call);                                                                            \
        if (tried != ATTUNE_OK) {                                                                                      \
            return tried;                                                                                              \
        }                                                                                                              \
    } while (0)

static attune_status look_around(struct session *session) {
    attune_device_info info = {.struct_size = sizeof info};
    attune_device_limits limits = {.struct_size = sizeof limits};
    const cl_device_id native = stub->device(0, 0);
    session->native_context = stub->context_create(native);
    session->native_queue = stub->queue_create(session->native_context, native, CL_QUEUE_PROFILING_ENABLE);
    const struct native_device pair = {session->native_context, native};
    TRY(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &session->device));
    TRY(attune_device_get_info(session->device, &info));
    TRY(attune_device_get_limits(session->device, &limits));
    assert_string_equal(info.name, "Stub 0.0");
    assert_string_equal(info.selector, "opencl:0");
    assert_true(limits.processors == 4 && limits.shared_memory_bytes == 48 * 1024 && limits.alignment_bytes == 128);
    return ATTUNE_OK;
}

static attune_status use_memory(struct session *session) {
    attune_device *device = session->device;
    attune_memory_range range;
    uint8_t host[16] = {0};
    for (int index = 0; index < SESSION_DATA; index++) {
        TRY(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, SESSION_BYTES, &session->data[index]));
    }
    TRY(attune_memory_alloc(device, ATTUNE_MEMORY_SVM, SESSION_BYTES, &session->shared));
    TRY(attune_memory_alloc(device, ATTUNE_MEMORY_PINNED, SESSION_BYTES, &session->pinned));
    memset(session->pinned, 9, SESSION_BYTES);
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, session->data[3], 0, session->pinned, 16, 16));
    TRY(attune_memory_fill(device, NULL, session->data[0], 0, SESSION_BYTES, 7));
    TRY(attune_memory_fill(device, NULL, session->shared, 0, SESSION_BYTES, 5));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_DEVICE, session->data[1], 16, session->data[0], 0, 16));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, host, 0, session->data[1], 16, sizeof host));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, session->data[2], 0, host, 0, sizeof host));
    assert_int_equal(host[15], 7);
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, host, 0, session->shared, 16, sizeof host));
    assert_int_equal(host[15], 5);
    TRY(attune_memory_get_range(device, session->data[3], &range));
    assert_true(range.size_bytes == SESSION_BYTES && range.offset == 0);
    TRY(attune_memory_get_range(device, (char *)session->shared + 32, &range));
    assert_true(range.size_bytes == SESSION_BYTES - 32);
    return ATTUNE_OK;
}

static attune_status use_streams(struct session *session) {
    double seconds = 0.0;
    TRY(attune_stream_create(session->device, &session->stream));
    TRY(attune_stream_wrap(session->device, session->native_queue, &session->wrapped_stream));
    for (int index = 0; index < 2; index++) {
        TRY(attune_event_create(session->device, &session->events[index]));
        TRY(attune_event_record(session->events[index], session->stream));
    }
    TRY(attune_event_wait(session->events[0], session->wrapped_stream));
    TRY(attune_event_record(session->events[1], session->stream));
    TRY(attune_event_elapsed(session->events[0], session->events[1], &seconds));
    assert_true(seconds > 0.0);
    return ATTUNE_OK;
}

static attune_status use_plans(struct session *session) {
    attune_quantize_args args = session_args(session);
    TRY(attune_plan_create(session->device, ATTUNE_OP_QUANTIZE, &args, &session->plan));
    TRY(attune_plan_run(session->plan, session->wrapped_stream, &args, session->data[3], 0, SESSION_BYTES));
    assert_ptr_equal(stub->last_queue, session->native_queue);
    args.x.data = session->shared;
    args.x.memory = ATTUNE_MEMORY_SVM;
    TRY(attune_quantize(session->device, session->stream, &args));
    session->native_shared = stub->shared_create(session->native_context, SESSION_BYTES);
    args.x.data = session->native_shared;
    TRY(attune_quantize(session->device, session->stream, &args));
    TRY(attune_stream_synchronize(session->device, session->stream));
    return ATTUNE_OK;
}

/* Takes its program from the cache. */
static attune_status use_another_device(struct session *session) {
    attune_quantize_args args = session_args(session);
    TRY(attune_device_open("opencl:0", &session->other));
    attune_plan *plan = NULL;
    for (int index = 0; index < 3; index++) {
        (&args.x)[index].data = NULL;
    }
    TRY(attune_plan_create(session->other, ATTUNE_OP_QUANTIZE, &args, &plan));
    attune_plan_close(plan);
    return ATTUNE_OK;
}

static attune_status run_session(void) {
    struct session session = {0};
    attune_status status = look_around(&session);
    status = status == ATTUNE_OK ? use_memory(&session) : status;
    status = status == ATTUNE_OK ? use_streams(&session) : status;
    status = status == ATTUNE_OK ? use_plans(&session) : status;
    status = status == ATTUNE_OK ? use_another_device(&session) : status;
    session_close(&session);
    return status;
}

static void everything_works(void **state) {
    (void)state;
    assert_ok(run_session());
    assert_int_equal(stub->launches, 9);
    assert_int_equal(stub->built_from_source, 1);
    assert_int_equal(stub->built_from_binary, 1);
}

/* ---- Every call of the library fails ---- */

/* Others go on without some where a platform has no devices, devices are only counted, a program comes from the cache,
 * or something is closed. */
static struct quiet_function quiet_functions[] = {
    {"clReleaseContext", false, false},
    {"clReleaseCommandQueue", false, false},
    {"clReleaseMemObject", false, false},
    {"clReleaseEvent", false, false},
    {"clReleaseProgram", false, false},
    {"clReleaseKernel", false, false},
    {"clSVMFree", false, false},
    {"clEnqueueUnmapMemObject", false, false},
    {"clFlush", true, false},
    {"clCreateProgramWithBinary", false, false},
    {"clGetProgramInfo", false, false},
    {"clGetProgramBuildInfo", false, false},
    {"clGetPlatformInfo", false, false},
    {"clGetPlatformIDs", true, false},
    {"clGetDeviceIDs", true, false},
    {"clGetDeviceInfo", true, false},
    {"clBuildProgram", true, false},
    {"clFinish", true, false},
    {"clEnqueueMarkerWithWaitList", true, false},
};

static cl_int failing_with;
static attune_status expected;

static const char *run_failing(int64_t call, attune_status *out_status) {
    (void)stub_begin_test(NULL);
    stub->fail_at = call;
    stub->fail_with = failing_with;
    *out_status = run_session();
    return stub->failed;
}

/* A platform that lists no device, and shared memory that is not given, have no error of their own; and a device that
 * does not know what shared memory is has none. */
static bool has_no_error(const char *function) {
    return strcmp(function, "clGetDeviceIDs") == 0 || strcmp(function, "clSVMAlloc") == 0 ||
           (strcmp(function, "clGetDeviceInfo") == 0 &&
            strcmp(attune_last_error(), "Stub 0.0 has no shared virtual memory") == 0);
}

static void assert_failure_told(const char *function, attune_status status) {
    char error[32];
    (void)snprintf(error, sizeof error, "(%d)", (int)failing_with);
    if (has_no_error(function)) {
        assert_int_not_equal(status, ATTUNE_OK);
        return;
    }
    if (status != expected) {
        fail_msg("%s (call %lld): status %s, sentence \"%s\"", function, (long long)stub->fail_at,
                 attune_status_name(status), attune_last_error());
    }
    assert_contains(attune_last_error(), error);
}

static void assert_cleaned_up(const char *function, attune_status status) {
    (void)function, (void)status;
    assert_nothing_lives();
}

static void fail_each_call(cl_int error, attune_status status) {
    const struct failing_calls calls = {quiet_functions, sizeof quiet_functions / sizeof quiet_functions[0],
                                        run_failing, assert_failure_told, assert_cleaned_up};
    failing_with = error;
    expected = status;
    failing_calls_walk(&calls);
}

static void each_call_fails_for_memory(void **state) {
    (void)state;
    fail_each_call(CL_OUT_OF_HOST_MEMORY, ATTUNE_OUT_OF_MEMORY);
}

static void each_call_fails_for_a_lost_device(void **state) {
    (void)state;
    fail_each_call(-9999, ATTUNE_DEVICE_LOST);
}

static void each_call_fails_for_no_known_reason(void **state) {
    (void)state;
    fail_each_call(CL_INVALID_VALUE, ATTUNE_INTERNAL);
}

static void each_host_allocation_fails(void **state) {
    (void)state;
    for (int64_t allocations = 0;; allocations++) {
        (void)stub_begin_test(NULL);
        attune_host_limit_allocations(allocations);
        const attune_status status = run_session();
        attune_host_limit_allocations(-1);
        assert_nothing_lives();
        if (status == ATTUNE_OK && stub->built_from_binary > 0) {
            assert_true(allocations > 10);
            return;
        }
        if (status != ATTUNE_OK) {
            assert_int_equal(status, ATTUNE_OUT_OF_MEMORY);
        }
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stub_begin_test, stub_end_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(missing_library),
        TEST(missing_symbol),
        TEST(no_platform),
        TEST(no_device),
        TEST(everything_works),
        TEST(each_call_fails_for_memory),
        TEST(each_call_fails_for_a_lost_device),
        TEST(each_call_fails_for_no_known_reason),
        TEST(each_host_allocation_fails),
    };
    return cmocka_run_group_tests(tests, stub_start, stub_stop);
}
