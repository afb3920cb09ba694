/*
 * What the files of the opaque backend share.
 *
 * Its memory is known by handles that point nowhere, and its streams are queues with a thread each, which take their
 * time: core, or a test, that looks into memory or does not wait is found out. It computes by the CPU's reference.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPAQUE_H
#define OPAQUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "attune/backend.h"
#include "tests/support/opaque_extension.h"

#define OPAQUE_DEVICE_COUNT 2

/* What core lent; set by the query function before anything else runs. */
extern const attune_host_services *opaque_host;

/* ---- opaque_device.c ---- */

enum opaque_fault { OPAQUE_NO_FAULT, OPAQUE_FREED_IN_USE, OPAQUE_FREED_UNKNOWN };

struct opaque_device {
    int32_t index;
    struct opaque_queue *queue; /* of the default stream */
    _Atomic int fault;          /* enum opaque_fault: once set, the device is lost */
};

attune_status opaque_enumerate(int32_t index, attune_device_info *out_info);
attune_status opaque_device_open(int32_t index, void **out_device);
attune_status opaque_device_wrap(void *native, int32_t *out_index, void **out_device);
void opaque_device_close(void *device);
attune_status opaque_device_limits(void *device, attune_device_limits *out_limits);

/* The devices are of the process that first claims them; DEVICE_LOST in its forks. */
attune_status opaque_process_claim(void);
bool opaque_process_is_fork(void);

/* DEVICE_LOST after a fork or a fault. */
attune_status opaque_device_check(const struct opaque_device *device);

/* ---- opaque_memory.c ---- */

#define OPAQUE_ALIGNMENT_BYTES 256
#define OPAQUE_MEMORY_BYTES    (UINT64_C(64) << 30) /* of a device: addresses, more than there is memory */

attune_status opaque_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data);
void opaque_memory_free(void *device, void *data);
attune_status opaque_memory_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range);

/* A part of a device's memory that a command reads or writes. */
struct opaque_place {
    int32_t device;
    attune_pointer pointer;
    uint64_t bytes;
};

/* Takes note that a command will use the places; INTERNAL, and no note, if one of them is not that device's memory.
 * What is freed meanwhile stays until it is let go. */
attune_status opaque_memory_hold(const struct opaque_place *places, int32_t count);
void opaque_memory_let_go(const struct opaque_place *places, int32_t count);

/* The host's address behind memory that is held. */
void *opaque_memory_address(attune_pointer pointer);

/* True while this thread captures: memory may not be allocated. */
extern _Thread_local int32_t opaque_captures_of_thread;

/* ---- opaque_command.c ---- */

enum opaque_command_kind {
    OPAQUE_COPY_IN,
    OPAQUE_COPY_OUT,
    OPAQUE_COPY_WITHIN,
    OPAQUE_FILL,
    OPAQUE_RECORD,
    OPAQUE_WAIT,
    OPAQUE_EXECUTE
};

struct opaque_command {
    enum opaque_command_kind kind;
    int32_t device; /* the queue's */

    /* copies and fill */
    int32_t source_device;
    attune_pointer destination; /* the host's where the kind says so */
    attune_pointer source;
    uint64_t bytes;
    uint8_t value;

    /* record and wait */
    struct opaque_event *event;
    uint64_t ticket;

    /* execute */
    struct opaque_plan *plan;
    attune_bindings bindings; /* without part_o and part_lse, which follow */
    attune_pointer part_o[ATTUNE_MERGE_PARTS_MAX];
    attune_pointer part_lse[ATTUNE_MERGE_PARTS_MAX];
};

/* What is queued holds the memory, plan and event that it uses; what is recorded holds the plan. */
attune_status opaque_command_hold(const struct opaque_command *command);
void opaque_command_let_go(const struct opaque_command *command);
void opaque_command_run(const struct opaque_command *command);

/* ---- opaque_queue.c ---- */

#define OPAQUE_QUEUE_LENGTH 64

struct opaque_queue {
    int32_t device;
    bool is_native; /* made by the application, through the extension */
    struct opaque_queue *next_native;
    pthread_t worker;
    uint64_t random; /* of the worker, for its delays */

    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t changed;
    struct opaque_graph *graph; /* where commands are recorded, while it is captured */
    uint64_t pushed;            /* commands so far */
    uint64_t done;
    bool is_paused;
    bool is_closing;
    struct opaque_command ring[OPAQUE_QUEUE_LENGTH];
};

attune_status opaque_queue_open(int32_t device, bool is_native, struct opaque_queue **out_queue);
/* Waits for the work. */
void opaque_queue_close(struct opaque_queue *queue);
/* The application's queue with that address; NULL if there is none. */
struct opaque_queue *opaque_queue_find_native(const void *native);

/* Appends a copy of the command, or records it while the queue is captured. */
attune_status opaque_queue_push(struct opaque_queue *queue, const struct opaque_command *command);
attune_status opaque_queue_sync(struct opaque_queue *queue);
/* While it is paused no command begins. */
void opaque_queue_pause(struct opaque_queue *queue, bool is_paused);

/* ---- opaque_capture.c ---- */

struct opaque_graph;

/* Called with the queue locked. A capture that cannot record a command is broken. */
attune_status opaque_graph_record(struct opaque_graph *graph, const struct opaque_command *command);
attune_status opaque_graph_break(struct opaque_graph *graph, const char *reason);

void *opaque_extension(const char *name);

/* ---- opaque_stream.c ---- */

/* The queue behind a stream's handle: the default stream's for NULL. */
struct opaque_queue *opaque_stream_queue(const struct opaque_device *device, void *stream);

attune_status opaque_stream_open(void *device, void **out_stream);
attune_status opaque_stream_wrap(void *device, void *native, void **out_stream);
void opaque_stream_close(void *device, void *stream);
attune_status opaque_stream_sync(void *device, void *stream);
attune_status opaque_stream_capturing(void *device, void *stream, bool *out_capturing);
attune_status opaque_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes);
attune_status opaque_memory_copy_peer(void *destination_device, void *stream, attune_pointer destination,
                                      void *source_device, attune_pointer source, uint64_t bytes);
attune_status opaque_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);

/* ---- opaque_event.c ---- */

attune_status opaque_event_open(void *device, void **out_event);
void opaque_event_close(void *device, void *event);
attune_status opaque_event_record(void *device, void *event, void *stream);
attune_status opaque_event_wait(void *device, void *event, void *stream);
attune_status opaque_event_elapsed(void *device, void *start, void *end, double *out_seconds);

void opaque_event_retain(struct opaque_event *event);
void opaque_event_release(struct opaque_event *event);
/* The queue has come to the record with that ticket. */
void opaque_event_reach(struct opaque_event *event, uint64_t ticket);
void opaque_event_await(struct opaque_event *event, uint64_t ticket);

/* ---- opaque_launch.c ---- */

const attune_kernel_row *opaque_kernels(int32_t *out_count);
bool opaque_row_accepts(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);
uint64_t opaque_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                const attune_schedule *schedule);
attune_status opaque_plan_build(void *device, const attune_plan_request *request, void **out_plan);
void opaque_plan_release(void *device, void *plan);
attune_status opaque_execute(void *device, void *plan, void *stream, const attune_bindings *bindings);

/* Operands, parts and workspace. */
#define OPAQUE_PLACES_MAX (ATTUNE_OPERAND_COUNT + 2 * ATTUNE_MERGE_PARTS_MAX + 1)

void opaque_plan_retain(struct opaque_plan *plan);
void opaque_plan_let_go(struct opaque_plan *plan);
int32_t opaque_plan_places(const struct opaque_command *command, struct opaque_place places[OPAQUE_PLACES_MAX]);
void opaque_plan_run(const struct opaque_command *command);

#endif
