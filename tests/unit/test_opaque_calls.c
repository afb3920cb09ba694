/*
 * Core's calls on a device that looks into no pointer and waits for nothing: every operation, plans, capture, threads.
 * Results are compared bit for bit with the CPU's, which runs the same kernels.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <pthread.h>
#include <stdlib.h>

#include "attune/attune.h"
#include "tests/support/image.h"
#include "tests/support/opaque_extension.h"

static attune_device *device;
static attune_device *cpu;
static const struct opaque_extension *extension;

static int start(void **state) {
    (void)state;
    void *found = NULL;
    setenv("ATTUNE_BACKEND_PATH", TEST_MODULE_DIR, 1);
    setenv("ATTUNE_CPU_ISA", "reference", 1); /* the same kernels on both sides, so that results are the same bits */
    setenv("ATTUNE_NUM_THREADS", "1", 1);     /* a sanitizer does not know the CPU's threads */
    if (attune_device_open("opaque", &device) != ATTUNE_OK || attune_device_open("cpu", &cpu) != ATTUNE_OK ||
        attune_device_get_extension(device, OPAQUE_EXTENSION, &found) != ATTUNE_OK) {
        print_error("%s\n", attune_last_error());
        return -1;
    }
    extension = found;
    return 0;
}

static int stop(void **state) {
    (void)state;
    attune_device_close(cpu);
    attune_device_close(device);
    return 0;
}

/* ---- One image on the device ---- */

struct subject {
    struct image image; /* what was uploaded, then what was downloaded */
    void *data;
    void *native;
    attune_stream *stream; /* wraps native */
};

static void subject_open(struct subject *subject, uint32_t seed) {
    image_fill(&subject->image, seed);
    assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, sizeof subject->image, &subject->data));
    assert_ok(extension->stream_create(0, &subject->native));
    assert_ok(attune_stream_wrap(device, subject->native, &subject->stream));
    assert_ok(image_upload(device, subject->stream, subject->data, &subject->image));
    assert_ok(attune_stream_synchronize(device, subject->stream));
}

static void subject_close(struct subject *subject) {
    attune_stream_close(subject->stream);
    extension->stream_destroy(subject->native);
    attune_memory_free(device, subject->data);
}

static void subject_download(struct subject *subject, attune_stream *stream) {
    assert_ok(image_download(device, stream, &subject->image, subject->data));
    assert_ok(attune_stream_synchronize(device, stream));
}

/* Of the last row, which sees keys; the first rows see none. */
#define LAST(array) ((array)[sizeof(array) / sizeof(array)[0] - 1])

/* What the CPU makes of the image. */
static void expect_all(const struct image *image, struct image *out_expected) {
    memcpy(out_expected, image, sizeof *image);
    assert_ok(image_run_all(cpu, NULL, out_expected));
}

static void expect_forward(const struct image *image, struct image *out_expected) {
    memcpy(out_expected, image, sizeof *image);
    const attune_forward_args args = image_forward_args(out_expected);
    assert_ok(attune_forward(cpu, NULL, &args));
}

#define assert_same(result, expected) assert_memory_equal((result), (expected), sizeof(struct image))

/* ---- Calls ---- */

static void every_operation_on(bool on_default_stream) {
    struct subject subject;
    struct image expected;
    subject_open(&subject, 11);
    attune_stream *stream = on_default_stream ? NULL : subject.stream;
    expect_all(&subject.image, &expected);
    assert_ok(image_run_all(device, stream, subject.data));
    subject_download(&subject, stream);
    assert_same(&subject.image, &expected);
    assert_true(LAST(expected.o) != 0 && LAST(expected.dq) != 0 && LAST(expected.merged_o) != 0 &&
                LAST(expected.stored) != 0);
    subject_close(&subject);
}

static void every_operation_by_handle_and_offset(void **state) {
    (void)state;
    every_operation_on(true);
    every_operation_on(false);
}

static void memory_that_is_not_the_device_s(void **state) {
    (void)state;
    struct subject subject;
    subject_open(&subject, 12);
    attune_forward_args args = image_forward_args(subject.data);
    args.q.data = &subject.image;
    assert_fails(attune_forward(device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "no memory of device 0");
    args = image_forward_args(subject.data);
    args.o.byte_offset = sizeof subject.image - 16;
    assert_fails(attune_forward(device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "o ");
    args = image_forward_args(subject.data);
    args.k.memory = ATTUNE_MEMORY_HOST;
    assert_fails(attune_forward(device, NULL, &args), ATTUNE_UNSUPPORTED, "memory kind 1");
    args = image_forward_args(subject.data);
    args.o.byte_offset = args.k.byte_offset; /* found without a look at an address */
    assert_fails(attune_forward(device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "share an element");
    subject_close(&subject);
}

/* ---- Plans ---- */

static attune_plan *make_plan(void **out_workspace, uint64_t *out_bytes) {
    attune_plan *plan = NULL;
    const attune_forward_args args = image_forward_args(NULL);
    assert_ok(attune_plan_create(device, ATTUNE_OP_FORWARD, &args, &plan));
    assert_ok(attune_plan_get_workspace(plan, out_bytes));
    assert_true(*out_bytes > 0);
    assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, *out_bytes, out_workspace));
    return plan;
}

static void a_plan_is_queued_and_outlives_its_handle(void **state) {
    (void)state;
    struct subject subject;
    struct image expected;
    void *workspace = NULL;
    uint64_t bytes = 0;
    subject_open(&subject, 13);
    expect_forward(&subject.image, &expected);
    attune_plan *plan = make_plan(&workspace, &bytes);
    const attune_forward_args args = image_forward_args(subject.data);
    assert_fails(attune_plan_run(plan, subject.stream, &args, workspace, 0, bytes - 1), ATTUNE_INVALID_ARGUMENT,
                 "workspace");
    assert_fails(attune_plan_run(plan, subject.stream, &args, workspace, 256, bytes), ATTUNE_INVALID_ARGUMENT,
                 "workspace");
    extension->stream_pause(subject.native);
    assert_ok(attune_plan_run(plan, subject.stream, &args, workspace, 0, bytes));
    attune_plan_close(plan);
    extension->stream_resume(subject.native);
    subject_download(&subject, subject.stream);
    assert_same(&subject.image, &expected);
    attune_memory_free(device, workspace);
    subject_close(&subject);
}

struct worker {
    struct subject subject;
    struct image expected;
    attune_plan *plan; /* NULL: one-call functions, on the default stream too */
    void *workspace;
    uint64_t bytes;
    attune_status status;
};

static attune_status run_worker_once(struct worker *worker, bool on_default_stream) {
    const attune_forward_args args = image_forward_args(worker->subject.data);
    attune_stream *stream = on_default_stream ? NULL : worker->subject.stream;
    if (worker->plan != NULL) {
        return attune_plan_run(worker->plan, worker->subject.stream, &args, worker->workspace, 0, worker->bytes);
    }
    attune_status status = image_run_all(device, stream, worker->subject.data);
    return status == ATTUNE_OK ? attune_stream_synchronize(device, stream) : status;
}

static void *work(void *context) {
    struct worker *worker = context;
    for (int round = 0; round < 8 && worker->status == ATTUNE_OK; round++) {
        worker->status = run_worker_once(worker, round % 2 == 1);
    }
    return NULL;
}

#define WORKER_COUNT 4

static void run_workers(struct worker workers[WORKER_COUNT]) {
    pthread_t threads[WORKER_COUNT];
    for (int index = 0; index < WORKER_COUNT; index++) {
        assert_int_equal(pthread_create(&threads[index], NULL, work, &workers[index]), 0);
    }
    for (int index = 0; index < WORKER_COUNT; index++) {
        pthread_join(threads[index], NULL);
    }
    for (int index = 0; index < WORKER_COUNT; index++) {
        assert_ok(workers[index].status);
        subject_download(&workers[index].subject, workers[index].subject.stream);
        assert_same(&workers[index].subject.image, &workers[index].expected);
        subject_close(&workers[index].subject);
    }
}

static void one_plan_runs_on_many_streams_at_once(void **state) {
    (void)state;
    static struct worker workers[WORKER_COUNT];
    void *workspace = NULL;
    uint64_t bytes = 0;
    attune_plan *plan = make_plan(&workspace, &bytes);
    memset(workers, 0, sizeof workers);
    for (int index = 0; index < WORKER_COUNT; index++) {
        struct worker *worker = &workers[index];
        subject_open(&worker->subject, 20 + (uint32_t)index);
        expect_forward(&worker->subject.image, &worker->expected);
        worker->plan = plan;
        worker->bytes = bytes;
        assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, bytes, &worker->workspace));
    }
    run_workers(workers);
    for (int index = 0; index < WORKER_COUNT; index++) {
        attune_memory_free(device, workers[index].workspace);
    }
    attune_plan_close(plan);
    attune_memory_free(device, workspace);
}

/* Append makes the key and value that forward then reads, so that the second round's result differs from the first's,
 * and stays from then on. */
static void one_call_functions_from_many_threads(void **state) {
    (void)state;
    static struct worker workers[WORKER_COUNT];
    memset(workers, 0, sizeof workers);
    for (int index = 0; index < WORKER_COUNT; index++) {
        struct worker *worker = &workers[index];
        subject_open(&worker->subject, 30 + (uint32_t)index);
        expect_all(&worker->subject.image, &worker->expected);
        assert_ok(image_run_all(cpu, NULL, &worker->expected));
    }
    run_workers(workers);
}

/* ---- Capture ---- */

static void a_graph_runs_with_what_lies_in_memory(void **state) {
    (void)state;
    struct subject subject;
    struct image expected;
    void *workspace = NULL;
    void *graph = NULL;
    uint64_t bytes = 0;
    bool capturing = false;
    subject_open(&subject, 40);
    attune_plan *plan = make_plan(&workspace, &bytes);
    const attune_forward_args args = image_forward_args(subject.data);
    assert_ok(extension->capture_begin(subject.native));
    assert_ok(attune_stream_is_capturing(device, subject.stream, &capturing));
    assert_true(capturing);
    assert_ok(image_upload(device, subject.stream, subject.data, &subject.image));
    assert_ok(attune_plan_run(plan, subject.stream, &args, workspace, 0, bytes));
    assert_ok(extension->capture_end(subject.native, &graph));
    attune_plan_close(plan);

    struct image before;
    assert_ok(image_download(device, subject.stream, &before, subject.data));
    assert_ok(attune_stream_synchronize(device, subject.stream));
    assert_same(&before, &subject.image); /* nothing has run */
    for (uint32_t seed = 41; seed < 44; seed++) {
        image_fill(&subject.image, seed);
        subject.image.lengths[0] = (int32_t)(seed % 3); /* 2, 0, 1 */
        expect_forward(&subject.image, &expected);
        assert_ok(extension->graph_replay(graph, subject.native));
        subject_download(&subject, subject.stream);
        assert_same(&subject.image, &expected);
    }
    attune_memory_free(device, workspace);
    assert_fails(extension->graph_replay(graph, subject.native), ATTUNE_INTERNAL, "no memory of device 0");
    extension->graph_destroy(graph);
    subject_close(&subject);
}

static void nothing_is_allocated_in_a_capture(void **state) {
    (void)state;
    struct subject subject;
    struct image expected;
    void *graph = NULL;
    subject_open(&subject, 50);
    expect_forward(&subject.image, &expected);
    const attune_forward_args args = image_forward_args(subject.data);
    assert_ok(extension->capture_begin(subject.native));
    assert_fails(attune_forward(device, subject.stream, &args), ATTUNE_OUT_OF_MEMORY, "while the stream is captured");
    assert_ok(extension->capture_end(subject.native, &graph));
    extension->graph_destroy(graph);

    assert_ok(attune_forward(device, subject.stream, &args)); /* now the workspace is there */
    assert_ok(attune_memory_fill(device, subject.stream, subject.data, args.o.byte_offset, sizeof subject.image.o, 0));
    assert_ok(
        attune_memory_fill(device, subject.stream, subject.data, args.lse.byte_offset, sizeof subject.image.lse, 0));
    assert_ok(extension->capture_begin(subject.native));
    assert_ok(attune_forward(device, subject.stream, &args));
    assert_ok(extension->capture_end(subject.native, &graph));
    subject_download(&subject, subject.stream);
    assert_true(LAST(subject.image.o) == 0 && LAST(expected.o) != 0);
    assert_ok(extension->graph_replay(graph, subject.native));
    subject_download(&subject, subject.stream);
    assert_same(&subject.image, &expected);
    extension->graph_destroy(graph);
    subject_close(&subject);
}

static void what_would_block_is_refused_in_a_capture(void **state) {
    (void)state;
    struct subject subject;
    void *graph = NULL;
    subject_open(&subject, 60);
    attune_forward_args args = image_forward_args(subject.data);
    args.check = true;
    assert_ok(attune_forward(device, subject.stream, &args));
    assert_ok(extension->capture_begin(subject.native));
    assert_fails(extension->capture_begin(subject.native), ATTUNE_INVALID_ARGUMENT, "already");
    assert_fails(attune_forward(device, subject.stream, &args), ATTUNE_INVALID_ARGUMENT, "captured");
    assert_fails(attune_stream_synchronize(device, subject.stream), ATTUNE_INVALID_ARGUMENT, "captured");
    assert_ok(extension->capture_end(subject.native, &graph));
    extension->graph_destroy(graph);
    assert_fails(extension->capture_end(subject.native, &graph), ATTUNE_INVALID_ARGUMENT, "not being captured");
    subject_close(&subject);
}

static void a_capture_can_be_broken(void **state) {
    (void)state;
    struct subject subject;
    void *graph = NULL;
    void *data = NULL;
    attune_event *event = NULL;
    subject_open(&subject, 70);
    assert_ok(attune_event_create(device, &event));
    assert_ok(extension->capture_begin(subject.native));
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 1, &data), ATTUNE_INTERNAL, "captures");
    assert_fails(attune_event_record(event, subject.stream), ATTUNE_INTERNAL, "an event");
    assert_fails(extension->capture_end(subject.native, &graph), ATTUNE_INTERNAL, "broken: an event");
    assert_null(graph);
    assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 1, &data));
    attune_memory_free(device, data);
    attune_event_close(event);
    subject_close(&subject);
}

/* ---- Lengths that lie ---- */

static void a_check_reads_lengths_from_the_device(void **state) {
    (void)state;
    struct subject subject;
    subject_open(&subject, 80);
    attune_forward_args args = image_forward_args(subject.data);
    args.check = true;
    subject.image.lengths[1] = 8;
    assert_ok(image_upload(device, subject.stream, subject.data, &subject.image));
    assert_fails(attune_forward(device, subject.stream, &args), ATTUNE_INVALID_ARGUMENT, "seqused_k");
    subject_download(&subject, subject.stream);
    assert_true(LAST(subject.image.o) == 0);
    subject_close(&subject);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_by_handle_and_offset),
        cmocka_unit_test(memory_that_is_not_the_device_s),
        cmocka_unit_test(a_plan_is_queued_and_outlives_its_handle),
        cmocka_unit_test(one_plan_runs_on_many_streams_at_once),
        cmocka_unit_test(one_call_functions_from_many_threads),
        cmocka_unit_test(a_graph_runs_with_what_lies_in_memory),
        cmocka_unit_test(nothing_is_allocated_in_a_capture),
        cmocka_unit_test(what_would_block_is_refused_in_a_capture),
        cmocka_unit_test(a_capture_can_be_broken),
        cmocka_unit_test(a_check_reads_lengths_from_the_device),
    };
    return cmocka_run_group_tests_name("opaque calls", tests, start, stop);
}
