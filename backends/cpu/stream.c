/*
 * Streams run at once: when a call returns, its work is done. So a stream has no state, and an event is a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include <time.h>

#include "backends/cpu/cpu.h"

attune_status attune_cpu_stream_open(void *device, void **out_stream) {
    *out_stream = device;
    return ATTUNE_OK;
}

void attune_cpu_stream_close(void *device, void *stream) {
    (void)device, (void)stream;
}

attune_status attune_cpu_stream_sync(void *device, void *stream) {
    (void)device, (void)stream;
    return ATTUNE_OK;
}

attune_status attune_cpu_event_open(void *device, void **out_event) {
    (void)device;
    *out_event = attune_cpu_host->alloc(sizeof(struct timespec));
    return *out_event != NULL ? ATTUNE_OK : attune_cpu_host->fail(ATTUNE_OUT_OF_MEMORY, "an event");
}

void attune_cpu_event_close(void *device, void *event) {
    (void)device;
    attune_cpu_host->free(event);
}

attune_status attune_cpu_event_record(void *device, void *event, void *stream) {
    (void)device, (void)stream;
    return clock_gettime(CLOCK_MONOTONIC, event) == 0
               ? ATTUNE_OK
               : attune_cpu_host->fail(ATTUNE_INTERNAL, "the monotonic clock cannot be read");
}

attune_status attune_cpu_event_wait(void *device, void *event, void *stream) {
    (void)device, (void)event, (void)stream;
    return ATTUNE_OK;
}

attune_status attune_cpu_event_elapsed(void *device, void *start, void *end, double *out_seconds) {
    (void)device;
    const struct timespec *from = start;
    const struct timespec *to = end;
    *out_seconds = (double)(to->tv_sec - from->tv_sec) + 1e-9 * (double)(to->tv_nsec - from->tv_nsec);
    return ATTUNE_OK;
}
