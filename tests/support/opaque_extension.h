/*
 * What an application of the opaque backend has besides attune, as it would have a vendor's driver: streams of its own,
 * which can be held up, and their capture into graphs. attune_device_get_extension(device, OPAQUE_EXTENSION, ...) gives
 * the struct.
 *
 * A device of the application's own is an int32_t, its index: attune_device_wrap("opaque", &index, ...).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPAQUE_EXTENSION_H
#define OPAQUE_EXTENSION_H

#include "attune/status.h"
#include "attune/types.h"

#define OPAQUE_EXTENSION "opaque"

struct opaque_extension {
    /* A stream of the application's, for attune_stream_wrap. Destroyed once its handles are closed; that waits for its
     * work. */
    attune_status (*stream_create)(int32_t device_index, void **out_native);
    void (*stream_destroy)(void *native);
    /* Between pause and resume no command of the stream begins. A paused stream must not be waited for. */
    void (*stream_pause)(void *native);
    void (*stream_resume)(void *native);
    /* From here on the stream's work is recorded and not run. Until capture_end the calling thread may allocate no
     * memory of the device; events, and waiting for the stream, break the capture. */
    attune_status (*capture_begin)(void *native);
    /* INTERNAL, and no graph, if the capture was broken. */
    attune_status (*capture_end)(void *native, void **out_graph);
    /* Queues all that was recorded. The memory that it uses must still be there. */
    attune_status (*graph_replay)(void *graph, void *native);
    void (*graph_destroy)(void *graph);
};

#endif
