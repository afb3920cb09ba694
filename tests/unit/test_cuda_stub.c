/*
 * The cuda backend against a driver without a device, through the public API: every call of the driver may fail on
 * every path, and then there is a sentence, nothing is lost, and the caller's context is current as before.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "cuda_session.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/host.h"
#include "failing_calls.h"

/* ---- Which functions have failed so far ---- */

static struct {
    const char *name;
    bool has_failed;
} functions[] = {
#define CUDA_FUNCTION(name, symbol, arguments) {"cu" #name, false},
#include "backends/cuda/cuda_api.def"
#undef CUDA_FUNCTION
};

#define FUNCTIONS (sizeof functions / sizeof functions[0])

static void note_failed(void) {
    for (size_t index = 0; index < FUNCTIONS && stub->failed != NULL; index++) {
        functions[index].has_failed = functions[index].has_failed || strcmp(functions[index].name, stub->failed) == 0;
    }
}

/* Comes last. */
static void every_function_has_failed(void **state) {
    (void)state;
    for (size_t index = 0; index < FUNCTIONS; index++) {
        if (!functions[index].has_failed) {
            fail_msg("no test made %s fail", functions[index].name);
        }
    }
}

/* ---- Before the driver is there; these come first, since it is opened once ---- */

static void missing_library(void **state) {
    (void)state;
    attune_device *device = NULL;
    setenv("ATTUNE_CUDA_LIBRARY", "libattune_no_such_driver.so.9", 1);
    assert_fails(attune_device_open("cuda", &device), ATTUNE_UNAVAILABLE, "libattune_no_such_driver.so.9");
    setenv("ATTUNE_CUDA_LIBRARY", TEST_STUB_CUDA, 1);
}

static void missing_symbol(void **state) {
    (void)state;
    attune_device *device = NULL;
    setenv("ATTUNE_CUDA_LIBRARY", TEST_STUB_CUDA_OLD, 1);
    assert_fails(attune_device_open("cuda", &device), ATTUNE_UNAVAILABLE, "cuTensorMapEncodeTiled");
    assert_contains(attune_last_error(), TEST_STUB_CUDA_OLD);
    setenv("ATTUNE_CUDA_LIBRARY", TEST_STUB_CUDA, 1);
}

static void no_device(void **state) {
    (void)state;
    attune_device *device = NULL;
    stub->devices = 0;
    assert_fails(attune_device_open("cuda", &device), ATTUNE_UNAVAILABLE, "no device");
}

static void failing_start(void **state) {
    (void)state;
    attune_device *device = NULL;
    stub->fail_at = 1;
    stub->fail_with = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    assert_fails(attune_device_open("cuda", &device), ATTUNE_UNAVAILABLE, "cuInit");
    assert_contains(attune_last_error(), "STUB_ERROR_803");
    note_failed();
}

/* A failure is not for ever. */
static void devices_that_come_later(void **state) {
    (void)state;
    attune_backend_info info = {.struct_size = sizeof info};
    assert_ok(attune_backend_get(0, &info));
    assert_string_equal(info.name, "cuda");
    assert_int_equal(info.device_count, 2);
    stub->devices = 0;
    assert_ok(attune_backend_get(0, &info));
    assert_int_equal(info.status, ATTUNE_UNAVAILABLE);
    assert_contains(info.reason, "sees no device");
}

/* ---- All that an application does, once; stops at the first failure ---- */

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        const attune_status tried = (call);                                                                            \
        assert_caller_undisturbed();                                                                                   \
        if (tried != ATTUNE_OK) {                                                                                      \
            return tried;                                                                                              \
        }                                                                                                              \
    } while (0)

static attune_status look_around(struct session *session) {
    attune_device_info info = {.struct_size = sizeof info};
    attune_device_limits limits = {.struct_size = sizeof limits};
    int32_t rows = 0;
    TRY(attune_device_open("cuda:0", &session->device));
    TRY(attune_device_get_info(session->device, &info));
    TRY(attune_device_get_limits(session->device, &limits));
    TRY(attune_device_count_kernels(session->device, &rows));
    assert_string_equal(info.name, "Stub 0");
    assert_string_equal(limits.architecture, stub->compute_capability == 80 ? "sm_80" : "sm_90");
    assert_true(limits.processors == 4 && limits.warp_width == 32 && rows > 0);
    return ATTUNE_OK;
}

static attune_status use_memory(struct session *session) {
    attune_device *device = session->device;
    attune_memory_range range;
    uint8_t host[16] = {0};
    for (int index = 0; index < SESSION_DATA; index++) {
        TRY(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, SESSION_BYTES, &session->data[index]));
    }
    TRY(attune_memory_alloc(device, ATTUNE_MEMORY_PINNED, SESSION_BYTES, &session->pinned));
    TRY(attune_memory_fill(device, NULL, session->data[0], 0, SESSION_BYTES, 7));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_DEVICE, session->data[1], 16, session->data[0], 0, 16));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, host, 0, session->data[1], 16, sizeof host));
    TRY(attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, session->data[2], 0, host, 0, sizeof host));
    assert_int_equal(host[15], 7);
    TRY(attune_memory_get_range(device, (char *)session->data[3] + 32, &range));
    assert_true(range.size_bytes == SESSION_BYTES - 32);
    return ATTUNE_OK;
}

static attune_status use_streams(struct session *session, CUstream native) {
    bool capturing = true;
    double seconds = 0.0;
    TRY(attune_stream_create(session->device, &session->stream));
    TRY(attune_stream_wrap(session->device, native, &session->wrapped_stream));
    for (int index = 0; index < 2; index++) {
        TRY(attune_event_create(session->device, &session->events[index]));
        TRY(attune_event_record(session->events[index], session->stream));
    }
    TRY(attune_event_wait(session->events[0], session->wrapped_stream));
    TRY(attune_event_elapsed(session->events[0], session->events[1], &seconds));
    TRY(attune_stream_is_capturing(session->device, session->stream, &capturing));
    assert_true(seconds > 0.0 && !capturing);
    return ATTUNE_OK;
}

static attune_status use_plans(struct session *session, CUstream native) {
    attune_forward_args args = session_args(session);
    TRY(session_plan(session, &args));
    TRY(session_run(session, &args));
    assert_ptr_equal(stub->last_launch.stream, native);
    TRY(attune_forward(session->device, session->stream, &args));
    TRY(attune_forward(session->device, NULL, &args));
    assert_ptr_equal(stub->last_launch.stream, CU_STREAM_PER_THREAD);
    TRY(attune_stream_synchronize(session->device, session->stream));
    return ATTUNE_OK;
}

/* A launch of the splits, and one that merges them. */
static attune_status use_splits(struct session *session) {
    const int64_t row_shape[] = {SESSION_BATCH, 1, SESSION_HEADS, SESSION_HEAD_DIM};
    attune_forward_args args = session_args(session);
    args.q = attune_tensor_contiguous(session->data[0], ATTUNE_DTYPE_F16, 4, row_shape);
    args.o = attune_tensor_contiguous(session->data[3], ATTUNE_DTYPE_F16, 4, row_shape);
    args.splits = 2;
    TRY(attune_forward(session->device, session->stream, &args));
    return ATTUNE_OK;
}

/* A launch that measures, and one that stores. */
static attune_status use_quantize(struct session *session) {
    const int64_t shape[] = {SESSION_BATCH, SESSION_LENGTH, SESSION_HEADS, SESSION_HEAD_DIM};
    const int64_t one[] = {1};
    attune_quantize_args args = attune_quantize_args_init();
    args.x = attune_tensor_contiguous(session->data[0], ATTUNE_DTYPE_F16, 4, shape);
    args.y = attune_tensor_contiguous(session->data[1], ATTUNE_DTYPE_E4M3, 4, shape);
    args.descale = attune_tensor_contiguous(session->data[2], ATTUNE_DTYPE_F32, 1, one);
    TRY(attune_quantize(session->device, session->stream, &args));
    return ATTUNE_OK;
}

static attune_status use_other_devices(struct session *session) {
    TRY(attune_device_open("cuda:1", &session->other));
    TRY(attune_memory_alloc(session->other, ATTUNE_MEMORY_DEVICE, SESSION_BYTES, &session->others_data));
    TRY(attune_memory_copy_peer(session->other, NULL, session->others_data, 0, session->device, session->data[0], 0,
                                SESSION_BYTES));
    TRY(attune_device_wrap("cuda", stub->context_primary(0), &session->wrapped));
    return ATTUNE_OK;
}

static attune_status run_session(void) {
    struct session session = {0};
    const CUstream native = stub->stream_create(stub->context_primary(0));
    attune_status status = look_around(&session);
    status = status == ATTUNE_OK ? use_memory(&session) : status;
    status = status == ATTUNE_OK ? use_streams(&session, native) : status;
    status = status == ATTUNE_OK ? use_plans(&session, native) : status;
    status = status == ATTUNE_OK ? use_splits(&session) : status;
    status = status == ATTUNE_OK ? use_quantize(&session) : status;
    status = status == ATTUNE_OK ? use_other_devices(&session) : status;
    session_close(&session);
    stub->stream_destroy(native);
    return status;
}

/* By a Hopper row, and by a general one. */
static const int chips[] = {90, 80};

#define CHIPS (sizeof chips / sizeof chips[0])

static void everything_works(void **state) {
    (void)state;
    for (size_t chip = 0; chip < CHIPS; chip++) {
        stub->compute_capability = chips[chip];
        stub->launches = 0;
        assert_ok(run_session());
        assert_int_equal(stub->launches, 7);
    }
}

/* ---- Every call of the driver fails ---- */

/* Others go on without some where devices are only counted, peaks may be unknown, or something is closed. */
static struct quiet_function quiet_functions[] = {
    {"cuCtxPopCurrent", false, false},       {"cuDevicePrimaryCtxRelease", false, false},
    {"cuEventDestroy", false, false},        {"cuMemFree", false, false},
    {"cuMemFreeHost", false, false},         {"cuModuleUnload", false, false},
    {"cuStreamDestroy", false, false},       {"cuDriverGetVersion", true, false},
    {"cuDeviceGetCount", true, false},       {"cuDeviceGet", true, false},
    {"cuDeviceGetName", true, false},        {"cuDeviceTotalMem", true, false},
    {"cuDeviceGetAttribute", true, false},   {"cuCtxPushCurrent", true, false},
    {"cuPointerGetAttributes", true, false}, {"cuStreamSynchronize", true, false},
    {"cuStreamIsCapturing", true, false},    {"cuEventRecord", true, false},
    {"cuStreamWaitEvent", true, false},
};

static int failing_chip;
static CUresult failing_with;
static attune_status expected;

static const char *run_failing(int64_t call, attune_status *out_status) {
    (void)stub_begin_test(NULL);
    stub->compute_capability = failing_chip;
    stub->fail_at = call;
    stub->fail_with = failing_with;
    *out_status = run_session();
    note_failed();
    return stub->failed;
}

static void assert_failure_told(const char *function, attune_status status) {
    char error[32];
    (void)snprintf(error, sizeof error, "STUB_ERROR_%d", (int)failing_with);
    if (status != expected) {
        fail_msg("%s (call %lld): status %s, sentence \"%s\"", function, (long long)stub->fail_at,
                 attune_status_name(status), attune_last_error());
    }
    assert_contains(attune_last_error(), error);
}

/* A context that cannot be made current while things are given back is gone, and they with it. */
static void assert_cleaned_up(const char *function, attune_status status) {
    if (status == ATTUNE_OK && strcmp(function, "cuCtxPushCurrent") == 0) {
        stub->forget_all();
    }
    assert_nothing_lives();
}

static void fail_each_call(CUresult error, attune_status status) {
    const struct failing_calls calls = {quiet_functions, sizeof quiet_functions / sizeof quiet_functions[0],
                                        run_failing, assert_failure_told, assert_cleaned_up};
    failing_with = error;
    expected = status;
    for (size_t chip = 0; chip < CHIPS; chip++) {
        failing_chip = chips[chip];
        failing_calls_walk(&calls);
    }
}

static void each_call_fails_for_memory(void **state) {
    (void)state;
    fail_each_call(CUDA_ERROR_OUT_OF_MEMORY, ATTUNE_OUT_OF_MEMORY);
}

static void each_call_fails_for_a_lost_device(void **state) {
    (void)state;
    fail_each_call(CUDA_ERROR_ILLEGAL_ADDRESS, ATTUNE_DEVICE_LOST);
}

static void each_call_fails_for_no_known_reason(void **state) {
    (void)state;
    fail_each_call(CUDA_ERROR_UNKNOWN, ATTUNE_INTERNAL);
}

static void each_host_allocation_fails(void **state) {
    (void)state;
    for (int64_t allocations = 0;; allocations++) {
        attune_host_limit_allocations(allocations);
        const attune_status status = run_session();
        attune_host_limit_allocations(-1);
        assert_nothing_lives();
        if (status == ATTUNE_OK) {
            assert_true(allocations > 10);
            return;
        }
        assert_int_equal(status, ATTUNE_OUT_OF_MEMORY);
    }
}

/* A driver that cannot even name its error. */
static void an_error_without_a_name(void **state) {
    (void)state;
    attune_device *device = session_open_device("cuda");
    void *data = NULL;
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, UINT64_C(1) << 40, &data), ATTUNE_OUT_OF_MEMORY,
                 "STUB_ERROR_2");
    static const char *const namers[] = {"cuGetErrorName", "cuGetErrorString"};
    for (int namer = 0; namer < 2; namer++) {
        stub->fail_function = namers[namer];
        stub->fail_with = CUDA_ERROR_UNKNOWN;
        assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, UINT64_C(1) << 40, &data), ATTUNE_OUT_OF_MEMORY,
                     "cuMemAlloc: error 2");
        note_failed();
    }
    attune_device_close(device);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, stub_begin_test, stub_end_test)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(missing_library),
        TEST(missing_symbol),
        TEST(no_device),
        TEST(failing_start),
        TEST(devices_that_come_later),
        TEST(everything_works),
        TEST(each_call_fails_for_memory),
        TEST(each_call_fails_for_a_lost_device),
        TEST(each_call_fails_for_no_known_reason),
        TEST(each_host_allocation_fails),
        TEST(an_error_without_a_name),
        TEST(every_function_has_failed),
    };
    return cmocka_run_group_tests(tests, stub_start, NULL);
}
