/*
 * What the tests of the cuda backend share: a driver without a device, and a device's handles and memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_CUDA_SESSION_H
#define ATTUNE_TESTS_CUDA_SESSION_H

#include "tests/support/cmocka_all.h"

#include "attune/attune.h"
#include "tests/support/stub_cuda.h"

extern struct stub_cuda *stub;

/* Group setup, test setup and test teardown. In every test the context of device 0 is current, as a caller's may be,
 * and the end of a test looks whether it still is, and whether anything lives. */
int stub_start(void **state);
int stub_begin_test(void **state);
int stub_end_test(void **state);

void assert_nothing_lives(void);
void assert_caller_undisturbed(void);

#define SESSION_BATCH    2
#define SESSION_LENGTH   40
#define SESSION_HEADS    2
#define SESSION_HEAD_DIM 64
#define SESSION_ELEMENTS (SESSION_BATCH * SESSION_LENGTH * SESSION_HEADS * SESSION_HEAD_DIM)
#define SESSION_BYTES    (2 * SESSION_ELEMENTS)
#define SESSION_DATA     6 /* q, k, v, o, lengths, workspace */

struct session {
    attune_device *device;
    attune_device *other;
    attune_device *wrapped;
    attune_stream *stream;
    attune_stream *wrapped_stream;
    attune_event *events[2];
    attune_plan *plan;
    void *data[SESSION_DATA];
    void *pinned;
    void *others_data;
};

attune_device *session_open_device(const char *selector);
/* Data of a session's device. */
void session_allocate(struct session *session);
/* A session with a device and data of it. */
struct session session_open(const char *selector);
attune_forward_args session_args(const struct session *session);
/* Makes the session's plan, and runs it on its wrapped stream. */
attune_status session_plan(struct session *session, const attune_forward_args *args);
attune_status session_run(const struct session *session, const attune_forward_args *args);
/* All that there is of it; the caller is undisturbed. */
void session_close(struct session *session);

#endif
