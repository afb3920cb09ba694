/*
 * An open device, its memory, streams and events, over a stub.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <stdlib.h>

#include "attune/device.h"
#include "core/builtin.h"
#include "core/host.h"
#include "tests/support/stub_backend.h"

/* ---- A backend that has what the stub leaves out ---- */

static int open_handles;
static int peer_copies;
static bool capturing;

static attune_status full_open(int32_t index, void **out_device) {
    open_handles++;
    return stub_open(index, out_device);
}

static void full_close(void *device) {
    open_handles--;
    stub_close(device);
}

static attune_status full_wrap(void *native, int32_t *out_index, void **out_device) {
    *out_index = *(int32_t *)native;
    return full_open(*out_index, out_device);
}

static attune_status full_copy_peer(void *destination_device, void *stream, attune_pointer destination,
                                    void *source_device, attune_pointer source, uint64_t bytes) {
    (void)source_device;
    peer_copies++;
    return stub_memory_copy(destination_device, stream, ATTUNE_COPY_DEVICE_TO_DEVICE, destination, source, bytes);
}

static attune_status full_stream_wrap(void *device, void *native, void **out_stream) {
    (void)native;
    return stub_handle_open(device, out_stream);
}

static attune_status full_capturing(void *device, void *stream, bool *out_capturing) {
    (void)device;
    (void)stream;
    *out_capturing = capturing;
    return ATTUNE_OK;
}

static attune_status full_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)device, (void)kind;
    out_range->offset = (uint64_t)(uintptr_t)data;
    out_range->size_bytes = UINT64_MAX;
    return ATTUNE_OK;
}

static const attune_backend *query_full(int32_t abi, const attune_host_services *services) {
    static attune_backend backend;
    (void)abi;
    (void)services;
    backend = stub_backend("full", 5);
    backend.device_open = full_open;
    backend.device_close = full_close;
    backend.device_wrap = full_wrap;
    backend.memory_copy_peer = full_copy_peer;
    backend.memory_range = full_range;
    backend.stream_wrap = full_stream_wrap;
    backend.stream_capturing = full_capturing;
    return &backend;
}

static const attune_backend *query_stub(int32_t abi, const attune_host_services *services) {
    static attune_backend backend;
    (void)abi;
    (void)services;
    backend = stub_backend("stub", 10);
    return &backend;
}

const struct attune_builtin_backend attune_builtin_backends[] = {
    {"stub", query_stub}, {"full", query_full}, {NULL, NULL}};

/* ---- Three devices ---- */

struct devices {
    attune_device *stub;
    attune_device *stub_other;
    attune_device *full;
};

static int start(void **state) {
    static struct devices devices;
    *state = &devices;
    return attune_device_open("stub", &devices.stub) != ATTUNE_OK ||
           attune_device_open("stub:1", &devices.stub_other) != ATTUNE_OK ||
           attune_device_open("full", &devices.full) != ATTUNE_OK;
}

static int stop(void **state) {
    struct devices *devices = *state;
    attune_device_close(devices->stub);
    attune_device_close(devices->stub_other);
    attune_device_close(devices->full);
    attune_device_close(NULL);
    return open_handles;
}

static void info_and_limits(void **state) {
    const struct devices *devices = *state;
    attune_device_info info = {.struct_size = sizeof info};
    assert_int_equal(attune_device_get_info(devices->stub_other, &info), ATTUNE_OK);
    assert_string_equal(info.selector, "stub:1");
    assert_string_equal(info.name, "Stub B");
    attune_device_limits limits = {.struct_size = sizeof limits};
    assert_int_equal(attune_device_get_limits(devices->stub, &limits), ATTUNE_OK);
    assert_int_equal(limits.processors, 4);
    assert_int_equal(limits.shared_memory_bytes, 1024);
    limits.struct_size = 3;
    assert_int_equal(attune_device_get_limits(devices->stub, &limits), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_limits(NULL, &limits), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_get_info(devices->stub, NULL), ATTUNE_INVALID_ARGUMENT);
}

static void the_variable_overrides_limits(void **state) {
    (void)state;
    attune_device *device;
    attune_device_limits limits = {.struct_size = sizeof limits};
    setenv("ATTUNE_DEVICE_LIMITS", "processors=132,workgroup=1K", 1);
    assert_int_equal(attune_device_open("stub", &device), ATTUNE_OK);
    unsetenv("ATTUNE_DEVICE_LIMITS");
    assert_int_equal(attune_device_get_limits(device, &limits), ATTUNE_OK);
    assert_int_equal(limits.processors, 132);
    assert_int_equal(limits.shared_memory_bytes, 1024);
    assert_int_equal(limits.work_group_size_max, 1024);
    attune_device_close(device);
}

static void a_wrapped_device(void **state) {
    (void)state;
    int32_t native = 1;
    attune_device *device;
    attune_device_info info = {.struct_size = sizeof info};
    assert_int_equal(attune_device_wrap("full", &native, &device), ATTUNE_OK);
    assert_int_equal(attune_device_get_info(device, &info), ATTUNE_OK);
    assert_string_equal(info.selector, "full:1");
    attune_device_close(device);
    native = 7; /* opens, but enumerate does not know it: must be closed again */
    int before = open_handles;
    assert_int_equal(attune_device_wrap("full", &native, &device), ATTUNE_NOT_FOUND);
    assert_int_equal(open_handles, before);
    assert_int_equal(attune_device_wrap("full", NULL, &device), ATTUNE_INVALID_ARGUMENT);
}

static void memory_is_allocated_copied_and_filled(void **state) {
    const struct devices *devices = *state;
    void *data = NULL;
    char text[8] = "";
    attune_device *device = devices->stub;
    assert_int_equal(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, STUB_ALLOCATION_BYTES, &data), ATTUNE_OK);
    assert_int_equal(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, data, 8, "xabcd", 1, 4), ATTUNE_OK);
    assert_int_equal(attune_memory_fill(device, NULL, data, 10, 1, 'z'), ATTUNE_OK);
    assert_int_equal(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, text, 1, data, 8, 4), ATTUNE_OK);
    assert_memory_equal(text, "\0abzd", 6);
    attune_memory_range range;
    assert_int_equal(attune_memory_get_range(device, data, &range), ATTUNE_OK);
    assert_int_equal(range.size_bytes, STUB_ALLOCATION_BYTES);
    assert_int_equal(attune_memory_get_range(device, NULL, &range), ATTUNE_INVALID_ARGUMENT);
    attune_memory_free(device, data);
    attune_memory_free(device, NULL);

    data = &range;
    assert_int_equal(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 0, &data), ATTUNE_OK);
    assert_null(data);
}

static void wrong_memory_arguments(void **state) {
    const struct devices *devices = *state;
    attune_device *device = devices->stub;
    char bytes[16] = "";
    void *data = NULL;
    const attune_copy_direction to_device = ATTUNE_COPY_HOST_TO_DEVICE;
    assert_int_equal(attune_memory_alloc(NULL, ATTUNE_MEMORY_DEFAULT, 1, &data), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 1, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_alloc(device, (attune_memory)77, 1, &data), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_copy(NULL, NULL, to_device, bytes, 0, bytes, 8, 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_copy(device, NULL, (attune_copy_direction)0, bytes, 0, bytes, 8, 1),
                     ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "direction = 0");
    assert_int_equal(attune_memory_copy(device, NULL, to_device, NULL, 0, bytes, 8, 1), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "destination = NULL");
    assert_int_equal(attune_memory_copy(device, NULL, to_device, bytes, 0, NULL, 8, 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_copy(device, NULL, to_device, NULL, 0, NULL, 0, 0), ATTUNE_OK);
    assert_int_equal(attune_memory_fill(device, NULL, NULL, 0, 1, 0), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_fill(device, NULL, NULL, 0, 0, 0), ATTUNE_OK);
}

/* Of the stub's memory it is known that STUB_ALLOCATION_BYTES follow each pointer. Nothing is written. */
static void copies_stay_in_their_allocations(void **state) {
    const struct devices *devices = *state;
    attune_device *device = devices->stub;
    char bytes[16] = "";
    const struct {
        uint64_t offset;
        uint64_t bytes;
    } bad[] = {
        {STUB_ALLOCATION_BYTES, 1}, {STUB_ALLOCATION_BYTES - 1, 2}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {0, UINT64_MAX}};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        uint64_t offset = bad[index].offset;
        uint64_t count = bad[index].bytes;
        assert_int_equal(attune_memory_fill(device, NULL, bytes, offset, count, 1), ATTUNE_INVALID_ARGUMENT);
        assert_contains(attune_last_error(), "data_offset = ");
        assert_int_equal(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, bytes, offset, bytes, 0, count),
                         ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, bytes, 0, bytes, offset, count),
                         ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_DEVICE, bytes, 0, bytes, offset, count),
                         ATTUNE_INVALID_ARGUMENT);
    }
    assert_int_equal(attune_memory_fill(devices->full, NULL, bytes, 1, UINT64_MAX, 1), ATTUNE_INVALID_ARGUMENT);
}

static void peer_copies_need_one_backend(void **state) {
    const struct devices *devices = *state;
    char to[4] = "";
    const char *from = "abc";
    assert_int_equal(attune_memory_copy_peer(devices->full, NULL, to, 0, devices->full, from, 0, 4), ATTUNE_OK);
    assert_string_equal(to, "abc");
    assert_int_equal(peer_copies, 1);
    assert_int_equal(attune_memory_copy_peer(devices->full, NULL, to, 0, devices->stub, from, 0, 4),
                     ATTUNE_UNSUPPORTED);
    assert_int_equal(attune_memory_copy_peer(devices->stub, NULL, to, 0, devices->stub_other, from, 0, 4),
                     ATTUNE_UNSUPPORTED);
    assert_int_equal(attune_memory_copy_peer(devices->stub, NULL, to, 0, NULL, from, 0, 4), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_copy_peer(devices->full, NULL, to, 0, devices->full, NULL, 0, 4),
                     ATTUNE_INVALID_ARGUMENT);
}

static void streams(void **state) {
    const struct devices *devices = *state;
    attune_stream *stream;
    bool is_capturing = true;
    char byte = 0;
    assert_int_equal(attune_stream_create(devices->stub, &stream), ATTUNE_OK);
    assert_int_equal(attune_stream_synchronize(devices->stub, stream), ATTUNE_OK);
    assert_int_equal(attune_stream_synchronize(devices->stub, NULL), ATTUNE_OK);
    assert_int_equal(attune_stream_is_capturing(devices->stub, stream, &is_capturing), ATTUNE_OK);
    assert_false(is_capturing);
    assert_int_equal(attune_stream_synchronize(devices->stub_other, stream), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "is of another device, stub:0: must be of stub:1");
    assert_int_equal(attune_memory_fill(devices->full, stream, &byte, 0, 1, 1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_memory_copy(devices->full, stream, ATTUNE_COPY_HOST_TO_DEVICE, &byte, 0, "x", 0, 1),
                     ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(byte, 0);
    attune_stream_close(stream);
    attune_stream_close(NULL);
    assert_int_equal(attune_stream_create(NULL, &stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_stream_create(devices->stub, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_stream_synchronize(NULL, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_stream_is_capturing(devices->stub, NULL, NULL), ATTUNE_INVALID_ARGUMENT);
}

static void wrapped_and_captured_streams(void **state) {
    const struct devices *devices = *state;
    attune_stream *stream;
    int native;
    bool is_capturing = false;
    assert_int_equal(attune_stream_wrap(devices->stub, &native, &stream), ATTUNE_UNSUPPORTED);
    assert_int_equal(attune_stream_wrap(devices->full, NULL, &stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_stream_wrap(devices->full, &native, &stream), ATTUNE_OK);
    capturing = true;
    assert_int_equal(attune_stream_is_capturing(devices->full, stream, &is_capturing), ATTUNE_OK);
    assert_true(is_capturing);
    assert_int_equal(attune_stream_synchronize(devices->full, stream), ATTUNE_INVALID_ARGUMENT);
    capturing = false;
    assert_int_equal(attune_stream_synchronize(devices->full, stream), ATTUNE_OK);
    attune_stream_close(stream);
}

static void events(void **state) {
    const struct devices *devices = *state;
    attune_event *start_event;
    attune_event *end_event;
    attune_event *other;
    attune_stream *stream;
    double seconds = -1.0;
    assert_int_equal(attune_event_create(devices->stub, &start_event), ATTUNE_OK);
    assert_int_equal(attune_event_create(devices->stub, &end_event), ATTUNE_OK);
    assert_int_equal(attune_event_create(devices->full, &other), ATTUNE_OK);
    assert_int_equal(attune_stream_create(devices->stub, &stream), ATTUNE_OK);

    assert_int_equal(attune_event_wait(start_event, stream), ATTUNE_OK);
    assert_int_equal(attune_event_elapsed(start_event, end_event, &seconds), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "start was never recorded");
    assert_int_equal(attune_event_record(start_event, stream), ATTUNE_OK);
    assert_int_equal(attune_event_elapsed(start_event, end_event, &seconds), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "end was never recorded");
    assert_int_equal(attune_event_record(end_event, NULL), ATTUNE_OK);
    assert_int_equal(attune_event_wait(end_event, stream), ATTUNE_OK);
    assert_true(seconds == -1.0);
    assert_int_equal(attune_event_elapsed(start_event, end_event, &seconds), ATTUNE_OK);
    assert_true(seconds == 0.5);

    assert_int_equal(attune_event_record(other, stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_wait(other, stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_elapsed(start_event, other, &seconds), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_record(NULL, stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_wait(NULL, stream), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_elapsed(NULL, end_event, &seconds), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_event_create(devices->stub, NULL), ATTUNE_INVALID_ARGUMENT);
    attune_stream_close(stream);
    attune_event_close(start_event);
    attune_event_close(end_event);
    attune_event_close(other);
    attune_event_close(NULL);
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    const struct devices *devices = *state;
    attune_stream *stream = NULL;
    attune_event *event = NULL;
    int32_t native = 0;
    attune_device *device = NULL;
    int before = open_handles;
    attune_host_limit_allocations(0);
    attune_status of_stream = attune_stream_create(devices->stub, &stream);
    attune_status of_event = attune_event_create(devices->stub, &event);
    attune_status of_device = attune_device_wrap("full", &native, &device);
    attune_host_limit_allocations(-1);
    assert_int_equal(of_stream, ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(of_event, ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(of_device, ATTUNE_OUT_OF_MEMORY);
    assert_null(stream);
    assert_null(event);
    assert_null(device);
    assert_int_equal(open_handles, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_and_limits),
        cmocka_unit_test(the_variable_overrides_limits),
        cmocka_unit_test(a_wrapped_device),
        cmocka_unit_test(memory_is_allocated_copied_and_filled),
        cmocka_unit_test(wrong_memory_arguments),
        cmocka_unit_test(copies_stay_in_their_allocations),
        cmocka_unit_test(peer_copies_need_one_backend),
        cmocka_unit_test(streams),
        cmocka_unit_test(wrapped_and_captured_streams),
        cmocka_unit_test(events),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("device", tests, start, stop);
}
