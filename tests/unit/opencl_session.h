/*
 * What the tests of the opencl backend share: a library without a device, and a device's handles and memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_OPENCL_SESSION_H
#define ATTUNE_TESTS_OPENCL_SESSION_H

#include "tests/support/cmocka_all.h"

#include "attune/attune.h"
#include "tests/support/stub_opencl.h"

extern struct stub_opencl *stub;

/* Group setup and teardown, test setup and test teardown. A test begins with an empty cache, and its end looks whether
 * anything lives. */
int stub_start(void **state);
int stub_stop(void **state);
int stub_begin_test(void **state);
int stub_end_test(void **state);

void assert_nothing_lives(void);
/* Makes every file of the cache one of other bytes, whole or cut short; returns how many there are. */
int cache_replace(const char *bytes, bool with_header);
void cache_clear(void);

/* What attune_device_wrap takes. */
struct native_device {
    cl_context context;
    cl_device_id device;
};

#define SESSION_POSITIONS 40
#define SESSION_HEADS     2
#define SESSION_HEAD_DIM  16
#define SESSION_ELEMENTS  (SESSION_POSITIONS * SESSION_HEADS * SESSION_HEAD_DIM)
#define SESSION_BYTES     (2 * SESSION_ELEMENTS)
#define SESSION_DATA      4 /* x, y, descale, workspace */

struct session {
    attune_device *device;
    attune_device *other;
    attune_device *wrapped;
    attune_stream *stream;
    attune_stream *wrapped_stream;
    attune_event *events[2];
    attune_plan *plan;
    void *data[SESSION_DATA];
    void *shared;
    void *pinned;
    cl_context native_context;
    void *native_shared;           /* memory of the context */
    cl_command_queue native_queue; /* of the device's context */
};

attune_device *session_open_device(const char *selector);
/* A session with a device and data of it. */
struct session session_open(const char *selector);
attune_quantize_args session_args(const struct session *session);
/* All that there is of it. */
void session_close(struct session *session);

#endif
