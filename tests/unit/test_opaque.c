/*
 * The opaque backend's device: handles that point nowhere, queues that do not wait, two devices, wrapping, forks. All
 * through the public API, as an application has it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attune/attune.h"
#include "tests/support/image.h"
#include "tests/support/opaque_extension.h"

#define BYTES 64

static attune_device *device;
static attune_device *other_device;
static const struct opaque_extension *extension;

static int start(void **state) {
    (void)state;
    void *found = NULL;
    setenv("ATTUNE_BACKEND_PATH", TEST_MODULE_DIR, 1);
    if (attune_device_open("opaque:0", &device) != ATTUNE_OK ||
        attune_device_open("opaque:1", &other_device) != ATTUNE_OK ||
        attune_device_get_extension(device, OPAQUE_EXTENSION, &found) != ATTUNE_OK) {
        print_error("%s\n", attune_last_error());
        return -1;
    }
    extension = found;
    return 0;
}

static int stop(void **state) {
    (void)state;
    attune_device_close(other_device);
    attune_device_close(device);
    return 0;
}

static void *alloc(attune_device *on, uint64_t bytes) {
    void *data = NULL;
    assert_ok(attune_memory_alloc(on, ATTUNE_MEMORY_DEFAULT, bytes, &data));
    return data;
}

static void assert_bytes(attune_device *on, attune_stream *stream, const void *data, uint8_t value) {
    uint8_t host[BYTES];
    assert_ok(attune_memory_copy(on, stream, ATTUNE_COPY_DEVICE_TO_HOST, host, 0, data, 0, BYTES));
    assert_ok(attune_stream_synchronize(on, stream));
    for (int index = 0; index < BYTES; index++) {
        assert_int_equal(host[index], value);
    }
}

/* ---- What it says of itself ---- */

static void info_limits_and_extensions(void **state) {
    (void)state;
    attune_device_info info = {.struct_size = sizeof info};
    attune_device_limits limits = {.struct_size = sizeof limits};
    void *found = NULL;
    assert_ok(attune_device_get_info(other_device, &info));
    assert_string_equal(info.selector, "opaque:1");
    assert_true(info.is_emulation);
    assert_ok(attune_device_get_limits(device, &limits));
    assert_int_equal(limits.alignment_bytes, 256);
    assert_fails(attune_device_get_extension(device, "clear", &found), ATTUNE_NOT_FOUND, "opaque has no such");
    assert_fails(attune_device_get_extension(device, NULL, &found), ATTUNE_INVALID_ARGUMENT, "name");
    assert_fails(attune_device_get_extension(NULL, "opaque", &found), ATTUNE_INVALID_ARGUMENT, "device");
    assert_fails(attune_device_get_extension(device, "opaque", NULL), ATTUNE_INVALID_ARGUMENT, "out_extension");
    assert_null(found);
}

static void auto_never_takes_it(void **state) {
    (void)state;
    attune_device *chosen = NULL;
    attune_device_info info = {.struct_size = sizeof info};
    assert_ok(attune_device_open("auto", &chosen));
    assert_ok(attune_device_get_info(chosen, &info));
    assert_null(strstr(info.selector, "opaque"));
    attune_device_close(chosen);
}

/* ---- Memory ---- */

static void handles_point_nowhere(void **state) {
    (void)state;
    void *handles[8];
    int ascents = 0;
    for (int index = 0; index < 8; index++) {
        handles[index] = alloc(device, 100 + (uint64_t)index);
        attune_memory_range range;
        assert_true((uintptr_t)handles[index] >= 4096 && (uintptr_t)handles[index] < 65536);
        assert_ok(attune_memory_get_range(device, handles[index], &range));
        assert_int_equal(range.offset, 0);
        assert_int_equal(range.size_bytes, 100 + index);
        assert_int_equal(range.space, (uintptr_t)handles[index]);
        ascents += index > 0 && handles[index] > handles[index - 1];
    }
    assert_true(ascents > 0 && ascents < 7);
    for (int index = 0; index < 8; index++) {
        attune_memory_free(device, handles[index]);
    }
}

static void handles_that_are_wrong(void **state) {
    (void)state;
    attune_memory_range range;
    uint8_t host[BYTES] = {0};
    void *freed = alloc(device, BYTES);
    void *foreign = alloc(other_device, BYTES);
    attune_memory_free(device, freed);
    assert_fails(attune_memory_get_range(device, freed, &range), ATTUNE_INVALID_ARGUMENT, "no memory of device 0");
    assert_fails(attune_memory_get_range(device, foreign, &range), ATTUNE_INVALID_ARGUMENT, "no memory of device 0");
    assert_fails(attune_memory_get_range(device, host, &range), ATTUNE_INVALID_ARGUMENT, "no memory of device 0");
    assert_fails(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, foreign, 0, host, 0, BYTES),
                 ATTUNE_INVALID_ARGUMENT, "no memory of device 0");
    assert_fails(attune_memory_fill(device, NULL, freed, 0, BYTES, 1), ATTUNE_INVALID_ARGUMENT, "no memory");
    assert_fails(attune_memory_fill(other_device, NULL, foreign, 1, BYTES, 1), ATTUNE_INVALID_ARGUMENT, "byte");
    attune_memory_free(other_device, foreign);
}

static void memory_kinds_and_room(void **state) {
    (void)state;
    void *data = NULL;
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_PINNED, 1, &data), ATTUNE_UNSUPPORTED, "kind = 2");
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_HOST, 1, &data), ATTUNE_UNSUPPORTED, "kind = 1");
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_DEVICE, (uint64_t)1 << 40, &data), ATTUNE_OUT_OF_MEMORY,
                 "1099511627776");
    assert_null(data);
    assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEVICE, 1, &data));
    attune_memory_free(device, data);
}

/* ---- Queues ---- */

struct stream {
    void *native;
    attune_stream *handle;
};

static struct stream open_stream(int32_t index, attune_device *on) {
    struct stream stream;
    assert_ok(extension->stream_create(index, &stream.native));
    assert_ok(attune_stream_wrap(on, stream.native, &stream.handle));
    return stream;
}

static void close_stream(struct stream *stream) {
    attune_stream_close(stream->handle);
    extension->stream_destroy(stream->native);
}

static void calls_return_before_their_work_is_done(void **state) {
    (void)state;
    struct stream stream = open_stream(0, device);
    void *data = alloc(device, BYTES);
    uint8_t host[BYTES];
    uint8_t back[BYTES];
    memset(host, 1, BYTES);
    memset(back, 0, BYTES);
    extension->stream_pause(stream.native);
    assert_ok(attune_memory_copy(device, stream.handle, ATTUNE_COPY_HOST_TO_DEVICE, data, 0, host, 0, BYTES));
    assert_ok(attune_memory_copy(device, stream.handle, ATTUNE_COPY_DEVICE_TO_HOST, back, 0, data, 0, BYTES));
    memset(host, 2, BYTES); /* the queue has not got there */
    assert_int_equal(back[0], 0);
    extension->stream_resume(stream.native);
    assert_ok(attune_stream_synchronize(device, stream.handle));
    assert_int_equal(back[0], 2);
    attune_memory_free(device, data);
    close_stream(&stream);
}

/* Work of A that B needs: with an event B waits for it, without it B does not. */
static void copy_behind(bool with_event, uint8_t expected) {
    struct stream a = open_stream(0, device);
    struct stream b = open_stream(0, device);
    void *from = alloc(device, BYTES);
    void *to = alloc(device, BYTES);
    attune_event *event = NULL;
    assert_ok(attune_event_create(device, &event));
    extension->stream_pause(a.native);
    assert_ok(attune_memory_fill(device, a.handle, from, 0, BYTES, 7));
    assert_ok(attune_event_record(event, a.handle));
    if (with_event) {
        assert_ok(attune_event_wait(event, b.handle));
    }
    assert_ok(attune_memory_copy(device, b.handle, ATTUNE_COPY_DEVICE_TO_DEVICE, to, 0, from, 0, BYTES));
    if (!with_event) {
        assert_ok(attune_stream_synchronize(device, b.handle));
    }
    attune_event_close(event); /* what is queued keeps what it needs */
    extension->stream_resume(a.native);
    assert_bytes(device, b.handle, to, expected);
    close_stream(&b);
    close_stream(&a);
    attune_memory_free(device, to);
    attune_memory_free(device, from);
}

static void events_order_streams(void **state) {
    (void)state;
    copy_behind(true, 7);
    copy_behind(false, 0xFF);
}

static void events_are_timed(void **state) {
    (void)state;
    attune_event *begin = NULL;
    attune_event *end = NULL;
    double seconds = -1;
    void *data = alloc(device, BYTES);
    assert_ok(attune_event_create(device, &begin));
    assert_ok(attune_event_create(device, &end));
    assert_ok(attune_event_record(begin, NULL));
    for (int count = 0; count < 200; count++) { /* more than a queue holds */
        assert_ok(attune_memory_fill(device, NULL, data, 0, BYTES, (uint8_t)count));
    }
    assert_ok(attune_event_record(end, NULL));
    assert_ok(attune_event_elapsed(begin, end, &seconds));
    assert_true(seconds > 0 && seconds < 10);
    assert_bytes(device, NULL, data, 199);
    attune_event_close(end);
    attune_event_close(begin);
    attune_memory_free(device, data);
}

static void memory_freed_too_early_loses_the_device(void **state) {
    (void)state;
    attune_device *lost = NULL;
    assert_ok(attune_device_open("opaque:0", &lost));
    struct stream stream = open_stream(0, lost);
    void *data = alloc(lost, BYTES);
    extension->stream_pause(stream.native);
    assert_ok(attune_memory_fill(lost, stream.handle, data, 0, BYTES, 1));
    attune_memory_free(lost, data);
    extension->stream_resume(stream.native);
    assert_fails(attune_stream_synchronize(lost, stream.handle), ATTUNE_DEVICE_LOST, "queued work uses");
    assert_fails(attune_memory_alloc(lost, ATTUNE_MEMORY_DEFAULT, 1, &data), ATTUNE_DEVICE_LOST, "was freed");
    close_stream(&stream);
    attune_device_close(lost);

    assert_ok(attune_device_open("opaque:0", &lost));
    void *foreign = alloc(other_device, BYTES);
    attune_memory_free(lost, foreign);
    assert_fails(attune_stream_synchronize(lost, NULL), ATTUNE_DEVICE_LOST, "none of the device");
    attune_device_close(lost);
    attune_memory_free(other_device, foreign);
}

/* ---- Two devices, and what the application has made itself ---- */

static void devices_are_apart(void **state) {
    (void)state;
    void *here = alloc(device, BYTES);
    void *there = alloc(other_device, BYTES);
    attune_stream *stream = NULL;
    assert_ok(attune_stream_create(other_device, &stream));
    assert_fails(attune_memory_fill(device, stream, here, 0, BYTES, 3), ATTUNE_INVALID_ARGUMENT, "another device");
    assert_ok(attune_memory_fill(device, NULL, here, 0, BYTES, 3));
    assert_ok(attune_stream_synchronize(device, NULL));
    assert_ok(attune_memory_copy_peer(other_device, stream, there, 0, device, here, 0, BYTES));
    assert_bytes(other_device, stream, there, 3);
    assert_fails(attune_memory_copy_peer(other_device, stream, here, 0, device, here, 0, BYTES),
                 ATTUNE_INVALID_ARGUMENT, "no memory of device 1");
    assert_fails(attune_memory_copy_peer(other_device, stream, there, 0, device, here, 1, BYTES),
                 ATTUNE_INVALID_ARGUMENT, "source");
    attune_stream_close(stream);
    attune_memory_free(other_device, there);
    attune_memory_free(device, here);
}

static void one_device_opened_twice_is_one(void **state) {
    (void)state;
    int32_t index = 1;
    attune_device *wrapped = NULL;
    attune_device_info info = {.struct_size = sizeof info};
    assert_ok(attune_device_wrap("opaque", &index, &wrapped));
    assert_ok(attune_device_get_info(wrapped, &info));
    assert_string_equal(info.selector, "opaque:1");
    void *data = alloc(other_device, BYTES);
    assert_ok(attune_memory_fill(wrapped, NULL, data, 0, BYTES, 4));
    assert_bytes(wrapped, NULL, data, 4);
    attune_memory_free(other_device, data);
    attune_device_close(wrapped);
    index = 2;
    assert_fails(attune_device_wrap("opaque", &index, &wrapped), ATTUNE_INVALID_ARGUMENT, "index 2");
}

static void streams_of_the_application(void **state) {
    (void)state;
    void *native = NULL;
    attune_stream *stream = NULL;
    assert_fails(extension->stream_create(2, &native), ATTUNE_INVALID_ARGUMENT, "device_index = 2");
    assert_ok(extension->stream_create(1, &native));
    assert_fails(attune_stream_wrap(device, native, &stream), ATTUNE_INVALID_ARGUMENT, "of device 1, not of 0");
    assert_fails(attune_stream_wrap(device, &native, &stream), ATTUNE_INVALID_ARGUMENT, "no stream");
    assert_null(stream);
    void *data = alloc(other_device, BYTES);
    for (uint8_t value = 1; value < 3; value++) { /* closing the handle leaves the stream */
        assert_ok(attune_stream_wrap(other_device, native, &stream));
        assert_ok(attune_memory_fill(other_device, stream, data, 0, BYTES, value));
        assert_bytes(other_device, stream, data, value);
        attune_stream_close(stream);
    }
    extension->stream_destroy(native);
    attune_memory_free(other_device, data);
}

/* ---- Forks ---- */

#define CHILD_EXPECTS(call, status)                                                                                    \
    do {                                                                                                               \
        if ((call) != (status)) {                                                                                      \
            _exit(__LINE__ % 255 + 1);                                                                                 \
        }                                                                                                              \
    } while (0)

static void run_child(void *data, attune_stream *stream, attune_event *event) {
    const attune_forward_args args = image_forward_args(data);
    attune_device *opened = NULL;
    void *more = NULL;
    alarm(20); /* rather than to wait for threads that are not there */
    CHILD_EXPECTS(attune_forward(device, NULL, &args), ATTUNE_DEVICE_LOST);
    CHILD_EXPECTS(strstr(attune_last_error(), "fork") == NULL, false);
    CHILD_EXPECTS(attune_stream_synchronize(device, stream), ATTUNE_DEVICE_LOST);
    CHILD_EXPECTS(attune_event_wait(event, NULL), ATTUNE_DEVICE_LOST);
    CHILD_EXPECTS(attune_memory_fill(device, NULL, data, 0, 1, 0), ATTUNE_DEVICE_LOST);
    CHILD_EXPECTS(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 1, &more), ATTUNE_DEVICE_LOST);
    CHILD_EXPECTS(attune_device_open("opaque", &opened), ATTUNE_DEVICE_LOST);
    attune_memory_free(device, data);
    attune_event_close(event);
    attune_stream_close(stream);
    attune_device_close(device);
    _exit(0);
}

static void a_forked_child_has_lost_the_device(void **state) {
    (void)state;
    struct image image;
    void *data = alloc(device, sizeof image);
    attune_stream *stream = NULL;
    attune_event *event = NULL;
    const attune_forward_args args = image_forward_args(data);
    image_fill(&image, 1);
    assert_ok(attune_stream_create(device, &stream));
    assert_ok(attune_event_create(device, &event));
    assert_ok(image_upload(device, NULL, data, &image));
    assert_ok(attune_forward(device, NULL, &args));
    assert_ok(attune_event_record(event, NULL));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_child(data, stream, event);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(attune_forward(device, NULL, &args)); /* nothing happened to the parent's */
    assert_ok(attune_stream_synchronize(device, NULL));
    attune_event_close(event);
    attune_stream_close(stream);
    attune_memory_free(device, data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_limits_and_extensions),
        cmocka_unit_test(auto_never_takes_it),
        cmocka_unit_test(handles_point_nowhere),
        cmocka_unit_test(handles_that_are_wrong),
        cmocka_unit_test(memory_kinds_and_room),
        cmocka_unit_test(calls_return_before_their_work_is_done),
        cmocka_unit_test(events_order_streams),
        cmocka_unit_test(events_are_timed),
        cmocka_unit_test(memory_freed_too_early_loses_the_device),
        cmocka_unit_test(devices_are_apart),
        cmocka_unit_test(one_device_opened_twice_is_one),
        cmocka_unit_test(streams_of_the_application),
        cmocka_unit_test(a_forked_child_has_lost_the_device),
    };
    return cmocka_run_group_tests_name("opaque", tests, start, stop);
}
