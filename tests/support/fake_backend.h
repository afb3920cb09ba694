/*
 * A device for tests of core: kernels that compute nothing but notice what is done to them. Its memory is the host's;
 * its rows, limits and failures are the test's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_FAKE_BACKEND_H
#define ATTUNE_TESTS_FAKE_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/device_internal.h"

#define FAKE_ROWS_MAX 8

struct fake {
    attune_device device; /* ready for use; handle is the fake */
    attune_backend backend;

    /* Set by tests. */
    attune_kernel_row rows[FAKE_ROWS_MAX];
    int32_t row_count;
    const char *not_runnable[FAKE_ROWS_MAX]; /* a reason; NULL: runs */
    const char *not_accepted[FAKE_ROWS_MAX];
    uint64_t own_bytes; /* of workspace */
    attune_status build_status;
    attune_status execute_status;
    attune_status alloc_status;
    bool capturing;
    int32_t execute_microseconds; /* in which scratch must stay what the run wrote */

    /* What has been done. */
    atomic_int builds;
    atomic_int releases;
    atomic_int executions;
    atomic_int allocations; /* of device memory, now */
    atomic_int syncs;
    atomic_int event_waits;
    atomic_int faults; /* a plan released in use, scratch changed by another run, scratch that is misaligned */
    pthread_mutex_t last_lock;
    attune_bindings last_bindings;
    attune_plan_request last_request;
    attune_problem last_problem;
};

/* A device with one row, "fake_forward", for forward in f32 and f16. One fake is alive at a time. */
void fake_init(struct fake *fake);

/* Checks that everything was given back and no fault was noticed. */
void fake_finish(struct fake *fake);

attune_status fake_stream_open(struct fake *fake, attune_stream **out_stream);
void fake_stream_close(attune_stream *stream);

#endif
