/*
 * The opencl backend against a library without a device: platforms, what a device lacks, programs and their cache,
 * contexts, queues, threads and forks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "opencl_session.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- What is there ---- */

static void devices_of_all_platforms_are_counted_on(void **state) {
    (void)state;
    attune_backend_info backend = {.struct_size = sizeof backend};
    attune_device_info info = {.struct_size = sizeof info};
    int32_t index = -1;
    stub->platforms = 2;
    do {
        assert_ok(attune_backend_get(++index, &backend));
    } while (strcmp(backend.name, "opencl") != 0);
    assert_int_equal(backend.device_count, 2 * STUB_OPENCL_DEVICES);
    assert_ok(attune_backend_get_device(index, 3, &info));
    assert_string_equal(info.name, "Stub 1.1");
    assert_string_equal(info.driver, "OpenCL, driver 7.1");
    assert_false(info.is_cpu || info.is_emulation);
    attune_device *device = session_open_device("opencl:stub 1.0");
    assert_ok(attune_device_get_info(device, &info));
    assert_string_equal(info.selector, "opencl:2");
    attune_device_close(device);
}

static void what_a_device_lacks_is_told(void **state) {
    (void)state;
    static const struct {
        cl_device_info fact;
        const char *sentence;
    } cases[] = {
        {CL_DEVICE_COMPILER_AVAILABLE, "Stub 0.0 lacks a compiler"},
        {CL_DEVICE_LOCAL_MEM_SIZE, "Stub 0.0 lacks local memory"},
        {CL_DEVICE_ENDIAN_LITTLE, "Stub 0.0 lacks little-endian memory"},
    };
    attune_device *device = NULL;
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        stub->lacking = cases[index].fact;
        assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, cases[index].sentence);
        assert_nothing_lives();
    }
}

/* Split states, 2^63 of them, that no workspace could hold. */
static void splits_past_63_bits_are_refused(void **state) {
    (void)state;
    const int64_t rows[] = {INT64_C(1) << 50, 16, 4, 8};
    const int64_t keys[] = {INT64_C(1) << 50, 64, 1, 8};
    attune_device *device = session_open_device("opencl");
    attune_explanation explanation = attune_explanation_init();
    attune_forward_args args = attune_forward_args_init();
    args.q = args.o = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 4, rows);
    args.k = args.v = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 4, keys);
    args.splits = ATTUNE_MERGE_PARTS_MAX;
    assert_fails(attune_explain(device, ATTUNE_OP_FORWARD, &args, &explanation), ATTUNE_OUT_OF_MEMORY, "128 splits");
    attune_device_close(device);
}

static void a_device_that_computes_wrongly(void **state) {
    (void)state;
    attune_device *device = NULL;
    stub->name = "llvmpipe (LLVM 15.0.6, 256 bits)";
    assert_fails(attune_device_open("opencl", &device), ATTUNE_UNAVAILABLE, "ends the loops of a work-item");
}

static void limits_may_be_overridden(void **state) {
    (void)state;
    attune_device_limits limits = {.struct_size = sizeof limits};
    setenv("ATTUNE_DEVICE_LIMITS", "SHARED=16KiB,workgroup=64", 1);
    attune_device *device = session_open_device("opencl");
    unsetenv("ATTUNE_DEVICE_LIMITS");
    assert_ok(attune_device_get_limits(device, &limits));
    assert_int_equal(limits.shared_memory_bytes, 16 * 1024);
    assert_int_equal(limits.work_group_size_max, 64);
    assert_int_equal(limits.processors, 4);
    attune_device_close(device);
}

/* ---- Programs ---- */

static attune_status plan_quantize(attune_device *device) {
    const struct session none = {0};
    const attune_quantize_args args = session_args(&none);
    attune_plan *plan = NULL;
    const attune_status status = attune_plan_create(device, ATTUNE_OP_QUANTIZE, &args, &plan);
    attune_plan_close(plan);
    return status;
}

static attune_status plan_on_a_new_device(void) {
    attune_device *device = session_open_device("opencl");
    const attune_status status = plan_quantize(device);
    attune_device_close(device);
    return status;
}

static void a_kernel_that_does_not_build(void **state) {
    (void)state;
    stub->build_log = "warning: one\nfile.cl:7:2: error: no such thing\nerror: another\n";
    assert_fails(plan_on_a_new_device(), ATTUNE_UNSUPPORTED,
                 "Stub 0.0 cannot build the kernel: file.cl:7:2: error: no "
                 "such thing: clBuildProgram: CL_BUILD_PROGRAM_FAILURE");
    stub->build_log = "";
    assert_fails(plan_on_a_new_device(), ATTUNE_UNSUPPORTED, "cannot build the kernel");
    stub->build_log = NULL;
    stub->fail_function = "clBuildProgram";
    stub->fail_with = CL_COMPILER_NOT_AVAILABLE;
    assert_fails(plan_on_a_new_device(), ATTUNE_UNAVAILABLE, "CL_COMPILER_NOT_AVAILABLE");
}

static void a_kernel_of_too_many_work_items(void **state) {
    (void)state;
    stub->kernel_work_group = 32;
    assert_fails(plan_on_a_new_device(), ATTUNE_UNSUPPORTED, "wants work-groups of 64 work-items");
}

static void a_program_is_built_once(void **state) {
    (void)state;
    attune_device *device = session_open_device("opencl");
    assert_ok(plan_quantize(device));
    assert_ok(plan_quantize(device));
    attune_device_close(device);
    assert_int_equal(stub->built_from_source, 1);
    assert_contains(stub->last_options, "-cl-std=CL1.2 ");
    assert_null(strstr(stub->last_options, "math"));
    assert_ok(plan_on_a_new_device());
    assert_int_equal(stub->built_from_source, 1);
    assert_int_equal(stub->built_from_binary, 1);
}

/* Another device has another program. */
static void a_cached_program_is_one_devices(void **state) {
    (void)state;
    assert_ok(plan_on_a_new_device());
    attune_device *other = session_open_device("opencl:1");
    assert_ok(plan_quantize(other));
    attune_device_close(other);
    assert_int_equal(stub->built_from_source, 2);
    assert_int_equal(stub->built_from_binary, 0);
}

/* A program of the application's context has a binary for each of its devices. */
static void a_context_of_two_devices(void **state) {
    (void)state;
    stub->beside = stub->device(0, 1);
    assert_ok(plan_on_a_new_device());
    stub->beside = NULL;
    assert_ok(plan_on_a_new_device());
    assert_int_equal(stub->built_from_source, 1);
    assert_int_equal(stub->built_from_binary, 1);
}

static void a_damaged_cache_is_built_again(void **state) {
    (void)state;
    assert_ok(plan_on_a_new_device());
    assert_int_equal(cache_replace("no file of a cache", false), 1);
    assert_ok(plan_on_a_new_device());
    assert_int_equal(cache_replace("", false), 1);
    assert_ok(plan_on_a_new_device());
    assert_int_equal(cache_replace("whole, but no program", true), 1);
    assert_ok(plan_on_a_new_device());
    assert_int_equal(stub->built_from_source, 4);
    assert_int_equal(stub->built_from_binary, 0);
    stub->refuses_binaries = true;
    assert_ok(plan_on_a_new_device());
    assert_int_equal(stub->built_from_source, 5);
    stub->refuses_binaries = false;
    assert_ok(plan_on_a_new_device());
    assert_int_equal(stub->built_from_binary, 1);
}

static void a_cache_that_cannot_be_written(void **state) {
    (void)state;
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s", getenv("ATTUNE_CACHE_DIR"));
    setenv("ATTUNE_CACHE_DIR", "/proc/no/such/folder", 1);
    assert_ok(plan_on_a_new_device());
    assert_ok(plan_on_a_new_device());
    setenv("ATTUNE_CACHE_DIR", folder, 1);
    assert_int_equal(stub->built_from_source, 2);
}

/* ---- Launches ---- */

static void fail_each_argument(struct session *session) {
    const attune_quantize_args args = session_args(session);
    const int64_t calls = stub->calls;
    assert_ok(attune_plan_run(session->plan, NULL, &args, session->data[3], 0, SESSION_BYTES));
    const int64_t calls_of_a_run = stub->calls - calls;
    int64_t refused = 0;
    for (int64_t call = 1; call <= calls_of_a_run; call++) {
        stub->launches = 0;
        stub->fail_at = stub->calls + call;
        stub->failed = NULL;
        const attune_status status = attune_plan_run(session->plan, NULL, &args, session->data[3], 0, SESSION_BYTES);
        if (status != ATTUNE_OK && strcmp(stub->failed, "clSetKernelArg") == 0) {
            assert_int_equal(stub->launches, 0);
            refused++;
        }
    }
    assert_true(refused > 3 * 3); /* of three steps */
}

/* What is found before the launch writes nothing, in none of a plan's steps. */
static void an_argument_that_is_refused(void **state) {
    (void)state;
    struct session session = session_open("opencl:0");
    const attune_quantize_args args = session_args(&session);
    assert_ok(attune_plan_create(session.device, ATTUNE_OP_QUANTIZE, &args, &session.plan));
    stub->fail_with = CL_INVALID_MEM_OBJECT;
    fail_each_argument(&session);
    session_close(&session);
}

/* ---- Contexts, queues ---- */

static void a_wrapped_context(void **state) {
    (void)state;
    const cl_device_id native = stub->device(0, 1);
    const cl_context context = stub->context_create(native);
    const struct native_device pair = {context, native};
    const struct native_device strange_pair = {context, stub->device(0, 0)};
    const struct native_device no_context = {(cl_context)(uintptr_t)&pair, native};
    const struct native_device half = {context, NULL};
    attune_device *device = NULL;
    attune_device_info info = {.struct_size = sizeof info};
    assert_fails(attune_device_wrap("opencl", (void *)(uintptr_t)&strange_pair, &device), ATTUNE_INVALID_ARGUMENT,
                 "not a device of native.context");
    assert_fails(attune_device_wrap("opencl", (void *)(uintptr_t)&no_context, &device), ATTUNE_INVALID_ARGUMENT,
                 "not a cl_context");
    assert_fails(attune_device_wrap("opencl", (void *)(uintptr_t)&half, &device), ATTUNE_INVALID_ARGUMENT,
                 "native.device is NULL");
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &device));
    assert_ok(attune_device_get_info(device, &info));
    assert_string_equal(info.selector, "opencl:1");
    attune_device_close(device);
    stub->release(context);
}

static void a_part_of_a_device(void **state) {
    (void)state;
    const cl_device_id part = stub->part_of(stub->device(0, 1));
    const cl_context context = stub->context_create(part);
    const struct native_device pair = {context, part};
    attune_device *device = NULL;
    attune_device_info info = {.struct_size = sizeof info};
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &device));
    assert_ok(attune_device_get_info(device, &info));
    assert_string_equal(info.selector, "opencl:1");
    attune_device_close(device);
    stub->release(context);
}

static void queues_that_are_refused(void **state) {
    (void)state;
    const cl_device_id native = stub->device(0, 0);
    const cl_context context = stub->context_create(native);
    const cl_context other = stub->context_create(native);
    const struct native_device pair = {context, native};
    const cl_command_queue outside = stub->queue_create(other, native, 0);
    const cl_command_queue strange = stub->queue_create(context, stub->device(0, 1), 0);
    const cl_command_queue unordered = stub->queue_create(context, native, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    attune_device *device = NULL;
    attune_stream *stream = NULL;
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &device));
    assert_fails(attune_stream_wrap(device, outside, &stream), ATTUNE_INVALID_ARGUMENT, "another cl_context");
    assert_fails(attune_stream_wrap(device, strange, &stream), ATTUNE_INVALID_ARGUMENT, "another cl_device_id");
    assert_fails(attune_stream_wrap(device, unordered, &stream), ATTUNE_INVALID_ARGUMENT, "out of order");
    assert_fails(attune_stream_wrap(device, (void *)(uintptr_t)&pair, &stream), ATTUNE_INVALID_ARGUMENT,
                 "not a cl_command_queue");
    attune_device_close(device);
    stub->release(outside);
    stub->release(strange);
    stub->release(unordered);
    stub->release(context);
    stub->release(other);
}

/* Times are only known in a queue that keeps them. */
static void a_queue_without_profiling(void **state) {
    (void)state;
    const cl_device_id native = stub->device(0, 0);
    struct session session = {.native_context = stub->context_create(native)};
    session.native_queue = stub->queue_create(session.native_context, native, 0);
    const struct native_device pair = {session.native_context, native};
    double seconds = 0.0;
    assert_ok(attune_device_wrap("opencl", (void *)(uintptr_t)&pair, &session.device));
    assert_ok(attune_stream_wrap(session.device, session.native_queue, &session.wrapped_stream));
    for (int index = 0; index < 2; index++) {
        assert_ok(attune_event_create(session.device, &session.events[index]));
        assert_ok(attune_event_record(session.events[index], session.wrapped_stream));
    }
    assert_fails(attune_event_elapsed(session.events[0], session.events[1], &seconds), ATTUNE_UNSUPPORTED,
                 "CL_QUEUE_PROFILING_ENABLE");
    session_close(&session);
}

/* ---- Threads ---- */

#define THREADS 8
#define RUNS    20

struct work {
    const struct session *session;
    attune_status status;
};

/* All run one plan at once: the arguments of its kernels are one thread's until they are launched. */
static void *work_on_one_plan(void *given) {
    struct work *work = given;
    const attune_quantize_args args = session_args(work->session);
    for (int run = 0; run < RUNS && work->status == ATTUNE_OK; run++) {
        work->status = attune_plan_run(work->session->plan, NULL, &args, work->session->data[3], 0, SESSION_BYTES);
    }
    return NULL;
}

static void threads_at_once(void **state) {
    (void)state;
    struct session session = session_open("opencl:0");
    const attune_quantize_args args = session_args(&session);
    struct work work[THREADS] = {0};
    pthread_t threads[THREADS];
    assert_ok(attune_plan_create(session.device, ATTUNE_OP_QUANTIZE, &args, &session.plan));
    for (int index = 0; index < THREADS; index++) {
        work[index].session = &session;
        assert_int_equal(pthread_create(&threads[index], NULL, work_on_one_plan, &work[index]), 0);
    }
    for (int index = 0; index < THREADS; index++) {
        assert_int_equal(pthread_join(threads[index], NULL), 0);
        assert_ok(work[index].status);
    }
    assert_int_equal(stub->launches, 3 * THREADS * RUNS);
    assert_false(stub->raced);
    session_close(&session);
}

/* ---- Forks ---- */

static bool child_is_told(struct session *session, const attune_quantize_args *args) {
    attune_device *device = NULL;
    const int64_t calls = stub->calls;
    const bool told = attune_quantize(session->device, NULL, args) == ATTUNE_DEVICE_LOST &&
                      strstr(attune_last_error(), "fork") != NULL &&
                      attune_device_open("opencl", &device) == ATTUNE_UNAVAILABLE &&
                      strstr(attune_last_error(), "fork") != NULL;
    session_close(session);
    return told && stub->calls == calls; /* the library must not be called at all */
}

static void a_fork_is_told(void **state) {
    (void)state;
    struct session session = session_open("opencl:0");
    const attune_quantize_args args = session_args(&session);
    assert_ok(attune_memory_alloc(session.device, ATTUNE_MEMORY_SVM, SESSION_BYTES, &session.shared));
    assert_ok(attune_quantize(session.device, NULL, &args));
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(child_is_told(&session, &args) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(attune_quantize(session.device, NULL, &args));
    session_close(&session);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stub_begin_test, stub_end_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(devices_of_all_platforms_are_counted_on),
        TEST(what_a_device_lacks_is_told),
        TEST(a_device_that_computes_wrongly),
        TEST(splits_past_63_bits_are_refused),
        TEST(limits_may_be_overridden),
        TEST(a_kernel_that_does_not_build),
        TEST(a_kernel_of_too_many_work_items),
        TEST(a_program_is_built_once),
        TEST(a_cached_program_is_one_devices),
        TEST(a_context_of_two_devices),
        TEST(a_damaged_cache_is_built_again),
        TEST(a_cache_that_cannot_be_written),
        TEST(an_argument_that_is_refused),
        TEST(a_wrapped_context),
        TEST(a_part_of_a_device),
        TEST(queues_that_are_refused),
        TEST(a_queue_without_profiling),
        TEST(threads_at_once),
        TEST(a_fork_is_told),
    };
    return cmocka_run_group_tests(tests, stub_start, stub_stop);
}
