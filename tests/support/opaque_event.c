/*
 * Events: the last record of each has a ticket, and is reached when its queue comes to it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <time.h>

#include "tests/support/opaque.h"

struct opaque_event {
    _Atomic int32_t holders; /* the handle, and commands in queues */
    pthread_mutex_t mutex;   /* of all that follows */
    pthread_cond_t changed;
    uint64_t recorded; /* the last ticket given out; 0: none */
    uint64_t reached;
    struct timespec time; /* when it was */
};

void opaque_event_retain(struct opaque_event *event) {
    atomic_fetch_add(&event->holders, 1);
}

void opaque_event_release(struct opaque_event *event) {
    if (atomic_fetch_sub(&event->holders, 1) == 1) {
        pthread_cond_destroy(&event->changed);
        pthread_mutex_destroy(&event->mutex);
        opaque_host->free(event);
    }
}

attune_status opaque_event_open(void *device, void **out_event) {
    attune_status status = opaque_device_check(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct opaque_event *event = opaque_host->alloc(sizeof *event);
    if (event == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for an event");
    }
    atomic_init(&event->holders, 1);
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->changed, NULL);
    *out_event = event;
    return ATTUNE_OK;
}

void opaque_event_close(void *device, void *event) {
    (void)device;
    if (!opaque_process_is_fork()) {
        opaque_event_release(event);
    }
}

/* ---- In a queue ---- */

void opaque_event_reach(struct opaque_event *event, uint64_t ticket) {
    pthread_mutex_lock(&event->mutex);
    if (ticket > event->reached) {
        event->reached = ticket;
        (void)clock_gettime(CLOCK_MONOTONIC, &event->time);
    }
    pthread_cond_broadcast(&event->changed);
    pthread_mutex_unlock(&event->mutex);
}

void opaque_event_await(struct opaque_event *event, uint64_t ticket) {
    pthread_mutex_lock(&event->mutex);
    while (event->reached < ticket) {
        pthread_cond_wait(&event->changed, &event->mutex);
    }
    pthread_mutex_unlock(&event->mutex);
}

/* ---- The table's entries ---- */

static uint64_t last_ticket(struct opaque_event *event) {
    pthread_mutex_lock(&event->mutex);
    const uint64_t ticket = event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return ticket;
}

static uint64_t take_ticket(struct opaque_event *event) {
    pthread_mutex_lock(&event->mutex);
    const uint64_t ticket = ++event->recorded;
    pthread_mutex_unlock(&event->mutex);
    return ticket;
}

static attune_status push(const struct opaque_device *device, void *stream, enum opaque_command_kind kind,
                          struct opaque_event *event, uint64_t ticket) {
    const struct opaque_command command = {.kind = kind, .device = device->index, .event = event, .ticket = ticket};
    return opaque_queue_push(opaque_stream_queue(device, stream), &command);
}

attune_status opaque_event_record(void *device, void *event, void *stream) {
    attune_status status = opaque_device_check(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const uint64_t ticket = take_ticket(event);
    status = push(device, stream, OPAQUE_RECORD, event, ticket);
    if (status != ATTUNE_OK) {
        opaque_event_reach(event, ticket); /* no queue will, and nobody may wait for that */
    }
    return status;
}

attune_status opaque_event_wait(void *device, void *event, void *stream) {
    attune_status status = opaque_device_check(device);
    return status == ATTUNE_OK ? push(device, stream, OPAQUE_WAIT, event, last_ticket(event)) : status;
}

static struct timespec await_time(struct opaque_event *event) {
    opaque_event_await(event, last_ticket(event));
    pthread_mutex_lock(&event->mutex);
    const struct timespec time = event->time;
    pthread_mutex_unlock(&event->mutex);
    return time;
}

attune_status opaque_event_elapsed(void *device, void *start, void *end, double *out_seconds) {
    attune_status status = opaque_device_check(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const struct timespec from = await_time(start);
    const struct timespec to = await_time(end);
    *out_seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    return ATTUNE_OK;
}
