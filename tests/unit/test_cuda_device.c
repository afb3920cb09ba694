/*
 * The cuda backend against a driver without a device: chips, contexts, devices, streams, captures, threads and forks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "cuda_session.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Chips without an image ---- */

static void assert_unsupported(int compute_capability, const char *chip) {
    struct session session = {0};
    stub->compute_capability = compute_capability;
    session.device = session_open_device("cuda");
    attune_forward_args args = session_args(&session);
    attune_kernel_info row = {.struct_size = sizeof row};
    assert_ok(attune_device_get_kernel(session.device, 0, &row));
    assert_false(row.runnable);
    assert_contains(row.reason, chip);
    assert_fails(session_plan(&session, &args), ATTUNE_UNSUPPORTED, "compiled for sm_80");
    assert_contains(attune_last_error(), chip);
    session_close(&session);
}

static void chips_without_an_image(void **state) {
    (void)state;
    assert_unsupported(75, "sm_75");
    assert_unsupported(120, "sm_120");
    assert_int_equal(stub->modules_loaded, 0);
}

/* A driver that is older than the images. */
static void a_driver_that_refuses_the_image(void **state) {
    (void)state;
    struct session session = {.device = session_open_device("cuda")};
    attune_forward_args args = session_args(&session);
    stub->fail_function = "cuModuleLoadData";
    stub->fail_with = CUDA_ERROR_NO_BINARY_FOR_GPU;
    assert_fails(session_plan(&session, &args), ATTUNE_UNSUPPORTED, "on an sm_90: cuModuleLoadData: STUB_ERROR_209");
    session_close(&session);
}

/* ---- Sizes ---- */

static attune_explanation explain(const int64_t rows[4], const int64_t keys[4]) {
    attune_device *device = session_open_device("cuda");
    attune_explanation explanation = attune_explanation_init();
    attune_forward_args args = attune_forward_args_init();
    args.q = args.o = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 4, rows);
    args.k = args.v = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 4, keys);
    assert_ok(attune_explain(device, ATTUNE_OP_FORWARD, &args, &explanation));
    attune_device_close(device);
    return explanation;
}

/* Which decode's kernels count in 32 bits. */
static void tiles_past_31_bits_are_the_general_rows(void **state) {
    (void)state;
    const int64_t rows[] = {INT64_C(1) << 30, 16, 4, 8};
    const int64_t keys[] = {INT64_C(1) << 30, 64, 1, 8};
    assert_string_equal(explain(rows, keys).kernel, "sm80_forward_f16");
}

/* Nor may their number wrap before it is compared. */
static void tiles_past_63_bits_are_the_general_rows(void **state) {
    (void)state;
    const int64_t rows[] = {1, 1, INT64_C(1) << 56, 8};
    assert_string_equal(explain(rows, rows).kernel, "");
}

/* Whose dsink is 0: a row without a tile to launch would leave it unwritten. */
static void no_sequence_is_the_general_row(void **state) {
    (void)state;
    const int64_t rows[] = {5, 2, 64};
    const int64_t lse[] = {2, 5};
    const int64_t one[] = {1};
    attune_device *device = session_open_device("cuda");
    attune_explanation explanation = attune_explanation_init();
    attune_backward_args args = attune_backward_args_init();
    args.q = args.k = args.v = args.o = args.dout = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 3, rows);
    args.lse = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 2, lse);
    args.sink = args.dsink = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 1, lse);
    args.cu_seqlens_q = args.cu_seqlens_k = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_I32, 1, one);
    assert_ok(attune_explain(device, ATTUNE_OP_BACKWARD, &args, &explanation));
    assert_string_equal(explanation.kernel, "sm80_backward_f16");
    attune_device_close(device);
}

/* A chunk of a long prompt, whose tiles are fewer than processors: unless the keys are few, too. */
static void few_tiles_are_cut(void **state) {
    (void)state;
    const int64_t rows[] = {1, 128, 1, 64};
    const int64_t keys[] = {1, 65536, 1, 64};
    const attune_explanation cut = explain(rows, keys);
    assert_string_equal(cut.kernel, "sm90_forward_f16_d64_split");
    assert_in_range(cut.splits, 2, 16);
    assert_true(cut.workspace_bytes > 0);
    assert_string_equal(explain(rows, rows).kernel, "sm90_forward_f16_d64_full_short");
}

static void decode_takes_the_least_tile_that_holds_the_rows(void **state) {
    (void)state;
    static const struct {
        int64_t rows, group; /* query heads of a kv head */
        const char *kernel;
    } cases[] = {
        {1, 1, "sm90_decode_f16_d64_rows8"},   {1, 8, "sm90_decode_f16_d64_rows8"},
        {2, 4, "sm90_decode_f16_d64_rows8"},   {1, 9, "sm90_decode_f16_d64_rows16"},
        {16, 1, "sm90_decode_f16_d64_rows16"}, {1, 32, "sm90_decode_f16_d64_rows32"},
        {16, 4, "sm90_decode_f16_d64_rows32"},
    };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        const int64_t rows[] = {3, cases[n].rows, 2 * cases[n].group, 64};
        const int64_t keys[] = {3, 5000, 2, 64};
        assert_string_equal(explain(rows, keys).kernel, cases[n].kernel);
    }
}

/* ---- Contexts, devices, streams ---- */

/* The device of the handle, not the current one; functions are loaded, and limits raised, on each anew and once. */
static void a_handle_on_1_while_0_is_current(void **state) {
    (void)state;
    for (int ordinal = 0; ordinal < 2; ordinal++) {
        struct session session = session_open(ordinal == 0 ? "cuda:0" : "cuda:1");
        attune_forward_args args = session_args(&session);
        for (int run = 0; run < 3; run++) {
            assert_ok(attune_forward(session.device, NULL, &args));
            assert_int_equal(stub->last_launch.device, ordinal);
            assert_caller_undisturbed();
        }
        assert_int_equal(stub->modules_loaded, ordinal + 1);
        assert_int_equal(stub->shared_raised, ordinal + 1);
        session_close(&session);
    }
}

static void memory_of_the_other_device_is_refused(void **state) {
    (void)state;
    struct session session = session_open("cuda:0");
    session.other = session_open_device("cuda:1");
    attune_forward_args args = session_args(&session);
    assert_fails(attune_forward(session.other, NULL, &args), ATTUNE_INVALID_ARGUMENT, "device 0");
    assert_int_equal(stub->launches, 0);
    session_close(&session);
}

static void host_memory_is_refused(void **state) {
    (void)state;
    static uint16_t host[SESSION_ELEMENTS];
    struct session session = session_open("cuda:0");
    attune_forward_args args = session_args(&session);
    args.k.data = host;
    assert_fails(attune_forward(session.device, NULL, &args), ATTUNE_INVALID_ARGUMENT, "k");
    session_close(&session);
}

/* A context that is nobody's primary one, and a stream of it. */
/* What the driver does not know is left alone, and what it will not say the kind of is freed all the same. */
static void memory_of_no_known_kind(void **state) {
    (void)state;
    struct session session = session_open("cuda");
    const int memories = stub->live.memories;
    char host[16];
    attune_memory_free(session.device, host);
    assert_int_equal(stub->live.memories, memories);
    assert_ok(attune_memory_alloc(session.device, ATTUNE_MEMORY_PINNED, SESSION_BYTES, &session.pinned));
    stub->fail_function = "cuPointerGetAttributes";
    stub->fail_with = CUDA_ERROR_UNKNOWN;
    attune_memory_free(session.device, session.pinned);
    attune_memory_free(session.device, session.data[0]);
    assert_int_equal(stub->live.memories, memories - 1);
    attune_memory_free(session.device, session.data[0]); /* once more: nothing is there */
    assert_int_equal(stub->live.memories, memories - 1);
    stub->fail_function = NULL;
    session.pinned = session.data[0] = NULL;
    session_close(&session);
}

/* Nothing of a context that is gone can be freed, and closing does not insist. */
static void memory_of_a_lost_context(void **state) {
    (void)state;
    struct session session = session_open("cuda");
    stub->fail_function = "cuCtxPushCurrent";
    stub->fail_with = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    attune_memory_free(session.device, session.data[0]);
    assert_int_equal(stub->live.memories, SESSION_DATA);
    session_close(&session);
    assert_int_equal(stub->live.retained, 0);
    stub->forget_all();
}

static void a_wrapped_context(void **state) {
    (void)state;
    const CUcontext context = stub->context_create(1);
    const CUstream inside = stub->stream_create(context);
    const CUstream outside = stub->stream_create(stub->context_primary(1));
    struct session session = {0};
    attune_device_info info = {.struct_size = sizeof info};
    assert_ok(attune_device_wrap("cuda", context, &session.device));
    assert_ok(attune_device_get_info(session.device, &info));
    assert_string_equal(info.selector, "cuda:1");
    assert_fails(attune_stream_wrap(session.device, outside, &session.stream), ATTUNE_INVALID_ARGUMENT,
                 "another context");
    assert_fails(attune_stream_wrap(session.device, &info, &session.stream), ATTUNE_INVALID_ARGUMENT, "not a CUstream");
    assert_ok(attune_stream_wrap(session.device, inside, &session.wrapped_stream));
    session_allocate(&session);
    attune_forward_args args = session_args(&session);
    assert_ok(attune_forward(session.device, session.wrapped_stream, &args));
    assert_ptr_equal(stub->last_launch.stream, inside);
    session_close(&session);
    assert_int_equal(stub->live.retained, 0);
    stub->stream_destroy(inside);
    stub->stream_destroy(outside);
    stub->context_destroy(context);
}

/* Neither a run nor the end of the wrapper waits, allocates or frees. */
static void a_capture_is_not_broken(void **state) {
    (void)state;
    const CUstream native = stub->stream_create(stub->context_primary(0));
    struct session session = session_open("cuda:0");
    attune_forward_args args = session_args(&session);
    assert_ok(session_plan(&session, &args));
    assert_ok(attune_stream_wrap(session.device, native, &session.wrapped_stream));
    assert_ok(attune_forward(session.device, session.wrapped_stream, &args)); /* it has a workspace then */
    stub->capturing = true;
    assert_ok(session_run(&session, &args));
    attune_stream_close(session.wrapped_stream);
    session.wrapped_stream = NULL;
    assert_int_equal(stub->launches, 2);
    assert_false(stub->capture_broken);
    stub->capturing = false;
    session_close(&session);
    stub->stream_destroy(native);
}

#define THREADS 8
#define RUNS    20

struct work {
    struct session *session;
    attune_status status;
    int depth; /* of contexts, after all */
};

static void *work_on_default_stream(void *given) {
    struct work *work = given;
    attune_forward_args args = session_args(work->session);
    for (int run = 0; run < RUNS && work->status == ATTUNE_OK; run++) {
        work->status = attune_forward(work->session->device, NULL, &args);
    }
    work->depth = stub->depth();
    return NULL;
}

static void threads_at_once(void **state) {
    (void)state;
    struct session session = session_open("cuda:0");
    struct work work[THREADS] = {0};
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++) {
        work[index].session = &session;
        assert_int_equal(pthread_create(&threads[index], NULL, work_on_default_stream, &work[index]), 0);
    }
    for (int index = 0; index < THREADS; index++) {
        assert_int_equal(pthread_join(threads[index], NULL), 0);
        assert_ok(work[index].status);
        assert_int_equal(work[index].depth, 0);
    }
    assert_int_equal(stub->launches, THREADS * RUNS);
    assert_int_equal(stub->modules_loaded, 1);
    session_close(&session);
}

/* ---- Forks ---- */

static bool child_is_told(struct session *session, const attune_forward_args *args) {
    attune_device *device = NULL;
    const int64_t calls = stub->calls;
    const bool told = attune_forward(session->device, NULL, args) == ATTUNE_DEVICE_LOST &&
                      strstr(attune_last_error(), "fork") != NULL &&
                      attune_device_open("cuda", &device) == ATTUNE_UNAVAILABLE &&
                      strstr(attune_last_error(), "fork") != NULL;
    session_close(session);
    return told && stub->calls == calls; /* the driver must not be called at all */
}

static void a_fork_is_told(void **state) {
    (void)state;
    struct session session = session_open("cuda:0");
    attune_forward_args args = session_args(&session);
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        _exit(child_is_told(&session, &args) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(attune_forward(session.device, NULL, &args));
    session_close(&session);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stub_begin_test, stub_end_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(chips_without_an_image),
        TEST(a_driver_that_refuses_the_image),
        TEST(tiles_past_31_bits_are_the_general_rows),
        TEST(tiles_past_63_bits_are_the_general_rows),
        TEST(no_sequence_is_the_general_row),
        TEST(few_tiles_are_cut),
        TEST(decode_takes_the_least_tile_that_holds_the_rows),
        TEST(a_handle_on_1_while_0_is_current),
        TEST(memory_of_the_other_device_is_refused),
        TEST(host_memory_is_refused),
        TEST(memory_of_no_known_kind),
        TEST(memory_of_a_lost_context),
        TEST(a_wrapped_context),
        TEST(a_capture_is_not_broken),
        TEST(threads_at_once),
        TEST(a_fork_is_told),
    };
    return cmocka_run_group_tests(tests, stub_start, NULL);
}
