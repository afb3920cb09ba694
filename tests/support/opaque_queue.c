/*
 * Queues: a ring of commands and a thread that takes its time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <time.h>

#include "tests/support/opaque.h"

/* One command in four is late, by at most this. */
#define DELAY_NANOSECONDS_MAX 400000

/* ---- The worker ---- */

/* Source: Marsaglia, Xorshift RNGs (Journal of Statistical Software 8, 2003). */
static uint64_t draw(struct opaque_queue *queue) {
    queue->random ^= queue->random << 13;
    queue->random ^= queue->random >> 7;
    queue->random ^= queue->random << 17;
    return queue->random;
}

static void delay(struct opaque_queue *queue) {
    const uint64_t drawn = draw(queue);
    if (drawn % 4 == 0) {
        const struct timespec span = {.tv_nsec = (long)(drawn / 4 % DELAY_NANOSECONDS_MAX)};
        (void)nanosleep(&span, NULL);
    }
}

/* The next command, which stays in the ring until it is done; NULL: the queue closes. */
static const struct opaque_command *next_command(struct opaque_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    while (queue->is_paused || (queue->done == queue->pushed && !queue->is_closing)) {
        pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    const bool is_over = queue->done == queue->pushed;
    const struct opaque_command *command = &queue->ring[queue->done % OPAQUE_QUEUE_LENGTH];
    pthread_mutex_unlock(&queue->mutex);
    return is_over ? NULL : command;
}

static void count_done(struct opaque_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    queue->done++;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}

static void *work(void *context) {
    struct opaque_queue *queue = context;
    const struct opaque_command *command;
    while ((command = next_command(queue)) != NULL) {
        delay(queue);
        opaque_command_run(command);
        opaque_command_let_go(command);
        count_done(queue);
    }
    return NULL;
}

/* ---- The application's queues ---- */

static pthread_mutex_t native_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct opaque_queue *first_native;

static void enter_native(struct opaque_queue *queue) {
    pthread_mutex_lock(&native_mutex);
    queue->next_native = first_native;
    first_native = queue;
    pthread_mutex_unlock(&native_mutex);
}

static void remove_native(struct opaque_queue *queue) {
    pthread_mutex_lock(&native_mutex);
    struct opaque_queue **link = &first_native;
    while (*link != queue) {
        link = &(*link)->next_native;
    }
    *link = queue->next_native;
    pthread_mutex_unlock(&native_mutex);
}

struct opaque_queue *opaque_queue_find_native(const void *native) {
    pthread_mutex_lock(&native_mutex);
    struct opaque_queue *queue = first_native;
    while (queue != NULL && queue != native) {
        queue = queue->next_native;
    }
    pthread_mutex_unlock(&native_mutex);
    return queue;
}

/* ---- Opening and closing ---- */

attune_status opaque_queue_open(int32_t device, bool is_native, struct opaque_queue **out_queue) {
    static _Atomic uint64_t queues; /* so far: the seed */
    struct opaque_queue *queue = opaque_host->alloc(sizeof *queue);
    if (queue == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for a stream");
    }
    queue->device = device;
    queue->is_native = is_native;
    queue->random = atomic_fetch_add(&queues, 1) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->changed, NULL);
    if (pthread_create(&queue->worker, NULL, work, queue) != 0) {
        pthread_cond_destroy(&queue->changed);
        pthread_mutex_destroy(&queue->mutex);
        opaque_host->free(queue);
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no thread for a stream");
    }
    if (is_native) {
        enter_native(queue);
    }
    *out_queue = queue;
    return ATTUNE_OK;
}

void opaque_queue_close(struct opaque_queue *queue) {
    if (queue->is_native) {
        remove_native(queue);
    }
    pthread_mutex_lock(&queue->mutex);
    queue->is_closing = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
    pthread_join(queue->worker, NULL);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->mutex);
    opaque_host->free(queue);
}

/* ---- Use ---- */

/* The mutex is held, and the command holds what it uses. A full ring makes the caller wait, as a full launch queue of a
 * driver does. */
static void append(struct opaque_queue *queue, const struct opaque_command *command) {
    while (queue->pushed - queue->done == OPAQUE_QUEUE_LENGTH) {
        pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    queue->ring[queue->pushed++ % OPAQUE_QUEUE_LENGTH] = *command;
    pthread_cond_broadcast(&queue->changed);
}

attune_status opaque_queue_push(struct opaque_queue *queue, const struct opaque_command *command) {
    attune_status status = opaque_command_hold(command);
    if (status != ATTUNE_OK) {
        return status;
    }
    pthread_mutex_lock(&queue->mutex);
    const bool is_captured = queue->graph != NULL;
    if (is_captured) {
        status = opaque_graph_record(queue->graph, command);
    } else {
        append(queue, command);
    }
    pthread_mutex_unlock(&queue->mutex);
    if (is_captured) {
        opaque_command_let_go(command);
    }
    return status;
}

attune_status opaque_queue_sync(struct opaque_queue *queue) {
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&queue->mutex);
    const uint64_t pushed = queue->pushed;
    if (queue->graph != NULL) {
        status = opaque_graph_break(queue->graph, "the stream was waited for");
    }
    while (status == ATTUNE_OK && queue->done < pushed) {
        pthread_cond_wait(&queue->changed, &queue->mutex);
    }
    pthread_mutex_unlock(&queue->mutex);
    return status;
}

void opaque_queue_pause(struct opaque_queue *queue, bool is_paused) {
    pthread_mutex_lock(&queue->mutex);
    queue->is_paused = is_paused;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->mutex);
}
