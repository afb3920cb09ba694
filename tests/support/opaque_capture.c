/*
 * Graphs: commands recorded once and queued again, and the extension through which an application makes them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "tests/support/opaque.h"

#define GRAPH_LENGTH_MAX 64

struct opaque_graph {
    int32_t device;
    const char *broken_by; /* NULL: it is whole */
    int32_t count;
    struct opaque_command commands[GRAPH_LENGTH_MAX];
};

/* ---- Recording ---- */

attune_status opaque_graph_break(struct opaque_graph *graph, const char *reason) {
    graph->broken_by = reason;
    return opaque_host->fail(ATTUNE_INTERNAL, "the capture is broken: %s", reason);
}

attune_status opaque_graph_record(struct opaque_graph *graph, const struct opaque_command *command) {
    if (command->event != NULL) {
        return opaque_graph_break(graph, "an event was used");
    }
    if (graph->count == GRAPH_LENGTH_MAX) {
        return opaque_graph_break(graph, "it is too long");
    }
    if (command->plan != NULL) {
        opaque_plan_retain(command->plan);
    }
    graph->commands[graph->count++] = *command;
    return ATTUNE_OK;
}

/* ---- The extension ---- */

static attune_status create_stream(int32_t device_index, void **out_native) {
    struct opaque_queue *queue = NULL;
    attune_status status = opaque_process_claim();
    if (status == ATTUNE_OK && (device_index < 0 || device_index >= OPAQUE_DEVICE_COUNT)) {
        status = opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "device_index = %d: there are %d devices",
                                   (int)device_index, OPAQUE_DEVICE_COUNT);
    }
    if (status == ATTUNE_OK) {
        status = opaque_queue_open(device_index, true, &queue);
    }
    if (status == ATTUNE_OK) {
        *out_native = queue;
    }
    return status;
}

static void destroy_stream(void *native) {
    if (!opaque_process_is_fork()) {
        opaque_queue_close(native);
    }
}

static void pause_stream(void *native) {
    opaque_queue_pause(native, true);
}

static void resume_stream(void *native) {
    opaque_queue_pause(native, false);
}

static void destroy_graph(void *graph) {
    struct opaque_graph *recorded = graph;
    for (int32_t index = 0; index < recorded->count; index++) {
        if (recorded->commands[index].plan != NULL) {
            opaque_plan_let_go(recorded->commands[index].plan);
        }
    }
    opaque_host->free(recorded);
}

static attune_status begin_capture(void *native) {
    struct opaque_queue *queue = native;
    attune_status status = opaque_process_claim();
    if (status != ATTUNE_OK) {
        return status;
    }
    struct opaque_graph *graph = opaque_host->alloc(sizeof *graph);
    if (graph == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for a graph");
    }
    graph->device = queue->device;
    pthread_mutex_lock(&queue->mutex);
    const bool is_captured = queue->graph != NULL;
    if (!is_captured) {
        queue->graph = graph;
    }
    pthread_mutex_unlock(&queue->mutex);
    if (is_captured) {
        opaque_host->free(graph);
        return opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "the stream is being captured already");
    }
    opaque_captures_of_thread++;
    return ATTUNE_OK;
}

static attune_status end_capture(void *native, void **out_graph) {
    struct opaque_queue *queue = native;
    attune_status status = opaque_process_claim();
    if (status != ATTUNE_OK) {
        return status;
    }
    pthread_mutex_lock(&queue->mutex);
    struct opaque_graph *graph = queue->graph;
    queue->graph = NULL;
    pthread_mutex_unlock(&queue->mutex);
    if (graph == NULL) {
        return opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "the stream is not being captured");
    }
    opaque_captures_of_thread--;
    if (graph->broken_by != NULL) {
        const char *reason = graph->broken_by;
        destroy_graph(graph);
        return opaque_host->fail(ATTUNE_INTERNAL, "the capture is broken: %s", reason);
    }
    *out_graph = graph;
    return ATTUNE_OK;
}

static attune_status replay(void *graph, void *native) {
    const struct opaque_graph *recorded = graph;
    struct opaque_queue *queue = native;
    attune_status status = opaque_process_claim();
    if (status == ATTUNE_OK && recorded->device != queue->device) {
        status = opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "the stream is of device %d, the graph of %d",
                                   (int)queue->device, (int)recorded->device);
    }
    for (int32_t index = 0; index < recorded->count && status == ATTUNE_OK; index++) {
        status = opaque_queue_push(queue, &recorded->commands[index]);
    }
    return status;
}

void *opaque_extension(const char *name) {
    static struct opaque_extension extension = {
        .stream_create = create_stream,
        .stream_destroy = destroy_stream,
        .stream_pause = pause_stream,
        .stream_resume = resume_stream,
        .capture_begin = begin_capture,
        .capture_end = end_capture,
        .graph_replay = replay,
        .graph_destroy = destroy_graph,
    };
    return strcmp(name, OPAQUE_EXTENSION) == 0 ? &extension : NULL;
}
