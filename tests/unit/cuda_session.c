/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "cuda_session.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "core/builtin.h"

const struct attune_builtin_backend attune_builtin_backends[] = {{"cuda", ATTUNE_BACKEND_QUERY}, {NULL, NULL}};

struct stub_cuda *stub;

void assert_nothing_lives(void) {
    const struct stub_cuda_live live = stub->live;
    if (live.retained + live.memories + live.streams + live.events + live.modules != 0) {
        fail_msg("after a failure of %s (call %lld): %d contexts, %d memories, %d streams, %d events, %d modules live",
                 stub->failed == NULL ? "nothing" : stub->failed, (long long)stub->fail_at, live.retained,
                 live.memories, live.streams, live.events, live.modules);
    }
}

void assert_caller_undisturbed(void) {
    assert_int_equal(stub->depth(), 1);
    assert_ptr_equal(stub->current(), stub->context_primary(0));
}

int stub_start(void **state) {
    (void)state;
    void *library = dlopen(TEST_STUB_CUDA, RTLD_NOW | RTLD_LOCAL);
    stub = library == NULL ? NULL : dlsym(library, STUB_CUDA_SYMBOL);
    if (stub == NULL) {
        print_error("%s\n", dlerror());
        return -1;
    }
    return setenv("ATTUNE_CUDA_LIBRARY", TEST_STUB_CUDA, 1);
}

int stub_begin_test(void **state) {
    (void)state;
    stub->devices = 2;
    stub->compute_capability = 90;
    stub->calls = stub->fail_at = 0;
    stub->fail_function = stub->failed = NULL;
    stub->capturing = stub->capture_broken = false;
    stub->launches = stub->modules_loaded = stub->shared_raised = 0;
    stub->make_current(stub->context_primary(0));
    return 0;
}

int stub_end_test(void **state) {
    (void)state;
    assert_nothing_lives();
    assert_caller_undisturbed();
    return 0;
}

attune_device *session_open_device(const char *selector) {
    attune_device *device = NULL;
    if (attune_device_open(selector, &device) != ATTUNE_OK) {
        fail_msg("%s: %s", selector, attune_last_error());
    }
    return device;
}

void session_allocate(struct session *session) {
    for (int index = 0; index < SESSION_DATA; index++) {
        assert_ok(attune_memory_alloc(session->device, ATTUNE_MEMORY_DEFAULT, SESSION_BYTES, &session->data[index]));
    }
}

struct session session_open(const char *selector) {
    struct session session = {.device = session_open_device(selector)};
    session_allocate(&session);
    return session;
}

attune_forward_args session_args(const struct session *session) {
    const int64_t shape[] = {SESSION_BATCH, SESSION_LENGTH, SESSION_HEADS, SESSION_HEAD_DIM};
    const int64_t batches[] = {SESSION_BATCH};
    attune_forward_args args = attune_forward_args_init();
    args.q = attune_tensor_contiguous(session->data[0], ATTUNE_DTYPE_F16, 4, shape);
    args.k = attune_tensor_contiguous(session->data[1], ATTUNE_DTYPE_F16, 4, shape);
    args.v = attune_tensor_contiguous(session->data[2], ATTUNE_DTYPE_F16, 4, shape);
    args.o = attune_tensor_contiguous(session->data[3], ATTUNE_DTYPE_F16, 4, shape);
    args.seqused_k = attune_tensor_contiguous(session->data[4], ATTUNE_DTYPE_I32, 1, batches);
    args.causal = true;
    return args;
}

attune_status session_plan(struct session *session, const attune_forward_args *args) {
    return attune_plan_create(session->device, ATTUNE_OP_FORWARD, args, &session->plan);
}

attune_status session_run(const struct session *session, const attune_forward_args *args) {
    return attune_plan_run(session->plan, session->wrapped_stream, args, session->data[5], 0, SESSION_BYTES);
}

void session_close(struct session *session) {
    attune_plan_close(session->plan);
    for (int index = 0; index < 2; index++) {
        attune_event_close(session->events[index]);
    }
    attune_stream_close(session->wrapped_stream);
    attune_stream_close(session->stream);
    for (int index = 0; index < SESSION_DATA; index++) {
        attune_memory_free(session->device, session->data[index]);
    }
    attune_memory_free(session->device, session->pinned);
    attune_memory_free(session->other, session->others_data);
    attune_device_close(session->wrapped);
    attune_device_close(session->other);
    attune_device_close(session->device);
    assert_caller_undisturbed();
}
