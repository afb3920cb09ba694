/*
 * The memory of the opencl backend against a library without a device: objects, their parts, shared and pinned memory,
 * and pointers that are none of these.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "opencl_session.h"

#include <stdio.h>

/* Two sub-buffers of one object share memory where they meet, whoever cut them. */
static void sub_buffers_are_places_in_one_object(void **state) {
    (void)state;
    const cl_device_id native = stub->device(0, 0);
    const cl_context context = stub->context_create(native);
    const cl_context other = stub->context_create(native);
    const struct native_device pair = {context, native};
    const cl_mem whole = stub->memory_create(context, 8 * SESSION_BYTES);
    const cl_mem part = stub->memory_part(whole, SESSION_BYTES, 4 * SESSION_BYTES);
    const cl_mem outside = stub->memory_create(other, SESSION_BYTES);
    struct session session = {0};
    attune_memory_range range = {0};
    attune_memory_range range_of_part = {0};
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &session.device));
    assert_ok(attune_memory_get_range(session.device, whole, &range));
    assert_ok(attune_memory_get_range(session.device, part, &range_of_part));
    assert_true(range.space == range_of_part.space && range_of_part.offset == SESSION_BYTES);
    assert_true(range_of_part.size_bytes == 4 * SESSION_BYTES);
    assert_fails(attune_memory_get_range(session.device, outside, &range), ATTUNE_INVALID_ARGUMENT,
                 "another cl_context");
    assert_fails(attune_memory_get_range(session.device, &range, &range), ATTUNE_INVALID_ARGUMENT, "no cl_mem");

    const cl_mem misplaced = stub->memory_part(whole, 64, SESSION_BYTES);
    assert_fails(attune_memory_get_range(session.device, misplaced, &range), ATTUNE_INVALID_ARGUMENT,
                 "a sub-buffer from byte 64 on: must be a multiple of 128 bytes, the CL_DEVICE_MEM_BASE_ADDR_ALIGN");
    stub->release(misplaced);

    session.data[0] = part;
    session.data[1] = whole;
    session.data[2] = whole;
    attune_quantize_args args = session_args(&session);
    args.y.byte_offset = 2 * SESSION_BYTES - 4;
    args.descale.byte_offset = 4 * SESSION_BYTES;
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "share");
    args.y.byte_offset = 2 * SESSION_BYTES;
    assert_ok(attune_quantize(session.device, NULL, &args));
    args.x.byte_offset = 4 * SESSION_BYTES;
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "x");
    attune_device_close(session.device);
    stub->release(part);
    stub->release(whole);
    stub->release(outside);
    stub->release(context);
    stub->release(other);
}

/* The extension by which a loader finds an object's driver may stand anywhere in a long text. */
static void what_is_no_object_is_not_asked_about(void **state) {
    (void)state;
    char extensions[8000];
    const struct native_device nothing = {NULL, NULL};
    attune_memory_range range = {0};
    attune_stream *stream = NULL;
    (void)snprintf(extensions, sizeof extensions, "%*s cl_khr_icd cl_stub", 6000, "cl_stub");
    stub->extensions = extensions;
    stub->lacking = CL_DEVICE_SVM_CAPABILITIES;
    struct session session = session_open("opencl:0");
    const int64_t calls = stub->calls;
    assert_fails(attune_memory_get_range(session.device, &nothing, &range), ATTUNE_INVALID_ARGUMENT, "is no cl_mem");
    assert_fails(attune_stream_wrap(session.device, (void *)(uintptr_t)&nothing, &stream), ATTUNE_INVALID_ARGUMENT,
                 "not a cl_command_queue");
    assert_int_equal(stub->calls, calls);
    assert_ok(attune_memory_get_range(session.device, session.data[0], &range));
    session_close(&session);
}

/* A tensor may lie in what the application allocated, if it says so; other memory of the host is no tensor's. */
static void shared_memory_of_the_caller(void **state) {
    (void)state;
    const cl_device_id native = stub->device(0, 0);
    struct session session = {.native_context = stub->context_create(native)};
    const struct native_device pair = {session.native_context, native};
    char host[SESSION_BYTES];
    session.native_shared = stub->shared_create(session.native_context, 4 * SESSION_BYTES);
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &session.device));
    attune_quantize_args args = session_args(&session);
    for (int index = 0; index < 3; index++) {
        (&args.x)[index].data = session.native_shared;
        (&args.x)[index].byte_offset = (uint64_t)(index * SESSION_BYTES);
        (&args.x)[index].memory = ATTUNE_MEMORY_SVM;
    }
    assert_ok(attune_quantize(session.device, NULL, &args));
    args.y.byte_offset = SESSION_BYTES - 4;
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "share");
    args.y.byte_offset = SESSION_BYTES;
    args.x.memory = ATTUNE_MEMORY_DEFAULT;
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "x.data: ");
    assert_contains(attune_last_error(), "is no cl_mem");
    args.x.memory = ATTUNE_MEMORY_SVM;
    args.x.data = host;
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "not what clSVMAlloc gave");
    session_close(&session);
}

static void a_device_without_shared_memory(void **state) {
    (void)state;
    stub->lacking = CL_DEVICE_SVM_CAPABILITIES;
    struct session session = session_open("opencl:0");
    attune_quantize_args args = session_args(&session);
    args.x.memory = ATTUNE_MEMORY_SVM;
    assert_fails(attune_memory_alloc(session.device, ATTUNE_MEMORY_SVM, SESSION_BYTES, &session.shared),
                 ATTUNE_UNSUPPORTED, "Stub 0.0 has no shared virtual memory");
    assert_fails(attune_quantize(session.device, NULL, &args), ATTUNE_UNSUPPORTED,
                 "Stub 0.0 has no shared virtual memory");
    args.x.data = args.y.data = args.descale.data = NULL;
    assert_fails(attune_plan_create(session.device, ATTUNE_OP_QUANTIZE, &args, &session.plan), ATTUNE_UNSUPPORTED,
                 "Stub 0.0 has no shared virtual memory");
    session_close(&session);
}

/* Pinned memory is the host's: no tensor's, but copied like any other of the host. */
static void memory_kinds(void **state) {
    (void)state;
    struct session session = session_open("opencl:0");
    attune_memory_range range = {0};
    void *data = NULL;
    assert_ok(attune_memory_alloc(session.device, ATTUNE_MEMORY_PINNED, SESSION_BYTES, &session.pinned));
    assert_int_equal(stub->live[STUB_MAPPING], 1);
    assert_fails(attune_memory_get_range(session.device, (char *)session.pinned + 8, &range), ATTUNE_INVALID_ARGUMENT,
                 "is pinned host memory");
    assert_fails(attune_memory_alloc(session.device, ATTUNE_MEMORY_HOST, 16, &data), ATTUNE_UNSUPPORTED, "memory kind");
    for (int kind = ATTUNE_MEMORY_PINNED; kind <= ATTUNE_MEMORY_DEVICE; kind++) {
        assert_fails(attune_memory_alloc(session.device, (attune_memory)kind, UINT64_C(1) << 40, &data),
                     ATTUNE_OUT_OF_MEMORY, "1099511627776 bytes, where Stub 0.0 promises 1073741824 at once");
        assert_contains(attune_last_error(), "CL_INVALID_BUFFER_SIZE");
    }
    session_close(&session);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stub_begin_test, stub_end_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(sub_buffers_are_places_in_one_object),
        TEST(what_is_no_object_is_not_asked_about),
        TEST(shared_memory_of_the_caller),
        TEST(a_device_without_shared_memory),
        TEST(memory_kinds),
    };
    return cmocka_run_group_tests(tests, stub_start, stub_stop);
}
