/*
 * The one-call functions: plans that are kept, workspaces that are lent, by one thread or many, through captures,
 * failures and forks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/plan_cache.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attune/attention.h"
#include "attune/kvcache.h"
#include "core/host.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/fake_backend.h"
#include "tests/support/problems.h"

static struct fake fake;
static _Alignas(256) float memory[1 << 15];

static int set_up(void **state) {
    (void)state;
    fake_init(&fake);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    attune_host_limit_allocations(-1);
    fake_finish(&fake);
    return 0;
}

/* Problems that differ by their length. */
static attune_status call_on(attune_stream *stream, int64_t length) {
    const attune_forward_args args = test_forward_args(memory, 1, length, 1, 8);
    return attune_forward(&fake.device, stream, &args);
}

static attune_status call(int64_t length) {
    return call_on(NULL, length);
}

/* ---- Plans ---- */

static void test_a_plan_is_built_once(void **state) {
    (void)state;
    attune_forward_args args = test_forward_args(memory, 1, 4, 1, 8);
    for (int i = 0; i < 5; i++) {
        args.scale = i;
        args.v.data = memory + 8192 + 64 * i;
        assert_ok(attune_forward(&fake.device, NULL, &args));
    }
    assert_int_equal(fake.builds, 1);
    assert_int_equal(fake.executions, 5);
}

/* All that a plan has baked in makes another plan. */
static void test_what_differs_is_planned_anew(void **state) {
    (void)state;
    fake.rows[0].features |= ATTUNE_FEATURE_CAUSAL;
    attune_forward_args args = test_forward_args(memory, 1, 4, 1, 8);
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.causal = true;
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.tile_rows = 16;
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.tile_keys = 16;
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.splits = 2;
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.kernel = "fake_forward";
    assert_ok(attune_forward(&fake.device, NULL, &args));
    args.v.data = memory + 8193; /* less aligned */
    assert_ok(attune_forward(&fake.device, NULL, &args));
    assert_int_equal(fake.builds, 7);
    args.kernel = NULL;
    args.v.data = memory + 8192;
    assert_ok(attune_forward(&fake.device, NULL, &args));
    assert_int_equal(fake.builds, 7);
}

static void test_the_plan_that_was_used_longest_ago_goes(void **state) {
    (void)state;
    for (int64_t length = 1; length <= ATTUNE_PLAN_CACHE_SIZE; length++) {
        assert_ok(call(length));
    }
    assert_ok(call(1)); /* now 2 is the oldest */
    assert_int_equal(fake.builds, ATTUNE_PLAN_CACHE_SIZE);
    assert_ok(call(ATTUNE_PLAN_CACHE_SIZE + 1));
    assert_int_equal(fake.releases, 1);
    assert_ok(call(1));
    assert_ok(call(3));
    assert_int_equal(fake.builds, ATTUNE_PLAN_CACHE_SIZE + 1);
    assert_ok(call(2));
    assert_int_equal(fake.builds, ATTUNE_PLAN_CACHE_SIZE + 2);
}

static void test_failures_leave_the_cache_as_it_was(void **state) {
    (void)state;
    fake.build_status = ATTUNE_UNAVAILABLE;
    assert_int_equal(call(4), ATTUNE_UNAVAILABLE);
    fake.build_status = ATTUNE_OK;
    fake.execute_status = ATTUNE_DEVICE_LOST;
    assert_int_equal(call(4), ATTUNE_DEVICE_LOST);
    fake.execute_status = ATTUNE_OK;
    fake.rows[0].dtypes = 0;
    assert_int_equal(call(5), ATTUNE_UNSUPPORTED);
    fake.rows[0].dtypes = UINT64_MAX;
    assert_ok(call(4));
    assert_int_equal(fake.builds, 1);
    assert_int_equal(call(-1), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_forward(NULL, NULL, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_forward(&fake.device, NULL, NULL), ATTUNE_INVALID_ARGUMENT);
    struct attune_device elsewhere = fake.device;
    struct attune_stream stream = {&elsewhere, NULL};
    assert_int_equal(call_on(&stream, 4), ATTUNE_INVALID_ARGUMENT);
}

static void test_calls_without_host_memory(void **state) {
    (void)state;
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    int64_t allowed = 0;
    fake.own_bytes = 100;
    while (status != ATTUNE_OK) {
        attune_host_limit_allocations(allowed++);
        status = call(4);
        attune_host_limit_allocations(-1);
        assert_true(status == ATTUNE_OK || status == ATTUNE_OUT_OF_MEMORY);
    }
    assert_true(allowed > 3);
    struct attune_plan_cache *cache = NULL;
    attune_host_limit_allocations(0);
    assert_int_equal(attune_plan_cache_create(&fake.device, &cache), ATTUNE_OUT_OF_MEMORY);
    assert_null(cache);
    attune_plan_cache_destroy(NULL);
}

static void test_every_operation_has_its_call(void **state) {
    (void)state;
    const attune_forward_args forward = attune_forward_args_init();
    const attune_merge_args merge = attune_merge_args_init();
    const attune_kvcache_append_args append = attune_kvcache_append_args_init();
    const attune_quantize_args quantize = attune_quantize_args_init();
    assert_int_equal(attune_backward(&fake.device, NULL, &forward), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "q");
    assert_int_equal(attune_merge(&fake.device, NULL, &merge), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "part");
    assert_int_equal(attune_kvcache_append(&fake.device, NULL, &append), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "k_cache");
    assert_int_equal(attune_quantize(&fake.device, NULL, &quantize), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "x");
}

/* ---- Workspaces ---- */

static attune_pointer scratch_of_last_call(void) {
    return fake.last_bindings.workspace;
}

static void test_a_workspace_is_kept_and_grown(void **state) {
    (void)state;
    fake.own_bytes = 100;
    assert_ok(call(1));
    const attune_pointer first = scratch_of_last_call();
    assert_int_equal(((uintptr_t)first.data + first.byte_offset) % 256, 0);
    assert_ok(call(1));
    assert_ptr_equal(scratch_of_last_call().data, first.data);
    assert_int_equal(fake.allocations, 1);
    assert_int_equal(fake.syncs, 0);
    fake.own_bytes = 100000;
    assert_ok(call(2));
    assert_int_equal(fake.allocations, 1);
    assert_int_equal(fake.syncs, 1); /* the old one may have been in use */
    assert_ok(call(1));
    assert_int_equal(fake.syncs, 1);
}

static void test_no_workspace_where_none_is_needed(void **state) {
    (void)state;
    assert_ok(call(1));
    assert_int_equal(fake.allocations, 0);
    assert_null(scratch_of_last_call().data);
}

static void test_device_memory_runs_out(void **state) {
    (void)state;
    fake.own_bytes = 100;
    fake.alloc_status = ATTUNE_OUT_OF_MEMORY;
    assert_int_equal(call(1), ATTUNE_OUT_OF_MEMORY);
    assert_contains(attune_last_error(), "memory_alloc");
    fake.alloc_status = ATTUNE_OK;
    assert_ok(call(1));
    fake.own_bytes = 10000;
    fake.alloc_status = ATTUNE_OUT_OF_MEMORY;
    assert_int_equal(call(2), ATTUNE_OUT_OF_MEMORY);
    fake.alloc_status = ATTUNE_OK;
    assert_ok(call(2));
    assert_ok(call(1));
}

static void test_streams_have_their_own(void **state) {
    (void)state;
    attune_stream *a;
    attune_stream *b;
    fake.own_bytes = 100;
    assert_ok(fake_stream_open(&fake, &a));
    assert_ok(fake_stream_open(&fake, &b));
    assert_ok(call_on(a, 1));
    const void *of_a = scratch_of_last_call().data;
    assert_ok(call_on(b, 1));
    assert_ptr_not_equal(scratch_of_last_call().data, of_a);
    assert_ok(call_on(a, 1));
    assert_ptr_equal(scratch_of_last_call().data, of_a);
    assert_int_equal(fake.allocations, 2);
    fake_stream_close(a);
    assert_int_equal(fake.allocations, 1);
    fake_stream_close(b);
    assert_int_equal(fake.allocations, 0);
    attune_plan_cache_forget_stream(NULL, NULL, false);
}

/* ---- Captures ---- */

static void test_nothing_is_allocated_while_captured(void **state) {
    (void)state;
    fake.own_bytes = 100;
    fake.capturing = true;
    assert_int_equal(call(1), ATTUNE_OUT_OF_MEMORY);
    assert_contains(attune_last_error(), "captured");
    assert_int_equal(fake.allocations, 0);
    fake.capturing = false;
    assert_ok(call(1));
    fake.capturing = true;
    assert_ok(call(1));
    fake.own_bytes = 1000;
    assert_int_equal(call(2), ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(fake.allocations, 1);
}

/* The graph keeps the address: nobody else gets it, and it stays when another one grows, or the stream is closed. */
static void test_a_captured_workspace_is_the_graphs(void **state) {
    (void)state;
    attune_stream *stream;
    fake.own_bytes = 100;
    assert_ok(fake_stream_open(&fake, &stream));
    assert_ok(call_on(stream, 1));
    fake.capturing = true;
    assert_ok(call_on(stream, 1));
    const void *captured = scratch_of_last_call().data;
    fake.capturing = false;
    assert_ok(call_on(stream, 1));
    assert_ptr_not_equal(scratch_of_last_call().data, captured);
    fake.own_bytes = 5000;
    assert_ok(call_on(stream, 2));
    assert_int_equal(fake.allocations, 2);
    fake.capturing = true;
    assert_ok(call_on(stream, 1));
    assert_ptr_equal(scratch_of_last_call().data, captured);
    assert_ok(call_on(stream, 2)); /* larger: takes the other one for good */
    fake.capturing = false;
    assert_ok(call_on(stream, 2));
    assert_int_equal(fake.allocations, 3);
    fake_stream_close(stream);
    assert_int_equal(fake.allocations, 2);
    assert_ok(fake_stream_open(&fake, &stream)); /* where the other one was, perhaps */
    fake.capturing = true;
    assert_int_equal(call_on(stream, 1), ATTUNE_OUT_OF_MEMORY);
    fake.capturing = false;
    assert_ok(call_on(stream, 1));
    fake.capturing = true;
    fake_stream_close(stream); /* what it has not captured would not be freed in peace either */
    assert_int_equal(fake.allocations, 3);
}

/* ---- Threads ---- */

struct worker {
    pthread_t thread;
    attune_stream *stream;
    int64_t first_length;
    int64_t lengths;
    int32_t calls;
    attune_status status; /* the first that failed */
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int32_t i = 0; i < worker->calls && worker->status == ATTUNE_OK; i++) {
        worker->status = call_on(worker->stream, worker->first_length + i % worker->lengths);
    }
    return NULL;
}

static void run_workers(struct worker *workers, int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_ok(workers[i].status);
    }
}

#define WORKERS 8

static struct worker worker_of(attune_stream *stream, int64_t first_length, int64_t lengths, int32_t calls) {
    const struct worker worker = {0, stream, first_length, lengths, calls, ATTUNE_OK};
    return worker;
}

/* On the default stream, where calls may run at once: the fake notices scratch that two of them share. */
static void test_threads_on_the_default_stream(void **state) {
    struct worker workers[WORKERS];
    (void)state;
    fake.own_bytes = 300;
    fake.execute_microseconds = 50;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = worker_of(NULL, 1, 3, 100);
    }
    run_workers(workers, WORKERS);
    assert_int_equal(fake.executions, WORKERS * 100);
    assert_true(fake.allocations <= WORKERS);
}

static void test_threads_on_one_stream(void **state) {
    struct worker workers[WORKERS];
    attune_stream *stream;
    (void)state;
    fake.own_bytes = 300;
    fake.execute_microseconds = 50;
    assert_ok(fake_stream_open(&fake, &stream));
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = worker_of(stream, 1, 3, 50);
    }
    run_workers(workers, WORKERS);
    assert_int_equal(fake.allocations, 1);
    fake_stream_close(stream);
}

static void test_threads_on_their_own_streams(void **state) {
    struct worker workers[WORKERS];
    attune_stream *streams[WORKERS];
    (void)state;
    fake.own_bytes = 300;
    for (int i = 0; i < WORKERS; i++) {
        assert_ok(fake_stream_open(&fake, &streams[i]));
        workers[i] = worker_of(streams[i], 1, 3, 100);
    }
    run_workers(workers, WORKERS);
    assert_int_equal(fake.allocations, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        fake_stream_close(streams[i]);
    }
}

/* Every thread brings more problems than the cache keeps: plans are thrown out all the time, but never in use. */
static void test_plans_are_not_evicted_in_use(void **state) {
    struct worker workers[WORKERS];
    (void)state;
    fake.own_bytes = 64;
    fake.execute_microseconds = 20;
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = worker_of(NULL, 1 + 10 * i, ATTUNE_PLAN_CACHE_SIZE + 10, 300);
    }
    run_workers(workers, WORKERS);
    assert_true(fake.releases > ATTUNE_PLAN_CACHE_SIZE);
}

/* More plans in use at once than there are entries. */
static void test_more_calls_than_entries(void **state) {
    enum { CALLS = ATTUNE_PLAN_CACHE_SIZE + 8 };
    static struct worker workers[CALLS];
    (void)state;
    fake.own_bytes = 64;
    fake.execute_microseconds = 200000;
    for (int i = 0; i < CALLS; i++) {
        workers[i] = worker_of(NULL, 1 + i, 1, 1);
    }
    run_workers(workers, CALLS);
    assert_int_equal(fake.builds, CALLS);
    assert_true(fake.releases > 0);
}

/* Threads that come and go leave no workspace each; who takes another's over waits for its work. */
static void test_default_stream_workspaces_are_bounded(void **state) {
    (void)state;
    fake.own_bytes = 64;
    for (int i = 0; i < 60; i++) {
        struct worker worker = worker_of(NULL, 1, 1, 2);
        run_workers(&worker, 1);
    }
    assert_int_equal(fake.allocations, 16);
    assert_int_equal(fake.event_waits, 60 - 16); /* their second calls need none */
}

/* ---- Forks ---- */

static void *hold_the_stream(void *argument) {
    struct worker *worker = argument;
    worker->status = call_on(worker->stream, 1);
    return NULL;
}

/* The child has neither the thread that was in a call nor its locks, but the same stream. */
static void test_a_child_of_a_fork_can_go_on(void **state) {
    struct worker worker;
    attune_stream *stream;
    (void)state;
    fake.own_bytes = 64;
    fake.execute_microseconds = 300000;
    assert_ok(fake_stream_open(&fake, &stream));
    worker = worker_of(stream, 1, 1, 1);
    assert_int_equal(pthread_create(&worker.thread, NULL, hold_the_stream, &worker), 0);
    const struct timespec time = {0, 100000000};
    nanosleep(&time, NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        fake.execute_microseconds = 0;
        _exit(call_on(stream, 1) == ATTUNE_OK && call_on(NULL, 2) == ATTUNE_OK ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_ok(worker.status);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fake_stream_close(stream);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_plan_is_built_once),
        TEST(test_what_differs_is_planned_anew),
        TEST(test_the_plan_that_was_used_longest_ago_goes),
        TEST(test_failures_leave_the_cache_as_it_was),
        TEST(test_calls_without_host_memory),
        TEST(test_every_operation_has_its_call),
        TEST(test_a_workspace_is_kept_and_grown),
        TEST(test_no_workspace_where_none_is_needed),
        TEST(test_device_memory_runs_out),
        TEST(test_streams_have_their_own),
        TEST(test_nothing_is_allocated_while_captured),
        TEST(test_a_captured_workspace_is_the_graphs),
        TEST(test_threads_on_the_default_stream),
        TEST(test_threads_on_one_stream),
        TEST(test_threads_on_their_own_streams),
        TEST(test_plans_are_not_evicted_in_use),
        TEST(test_more_calls_than_entries),
        TEST(test_default_stream_workspaces_are_bounded),
        TEST(test_a_child_of_a_fork_can_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
