/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/workspace_pool.h"

#include <inttypes.h>
#include <stdatomic.h>

#include "core/host.h"
#include "core/schedule.h"
#include "core/status_internal.h"

/* Workspaces of the default stream that threads may have for themselves before they begin to share. */
#define DEFAULT_STREAM_WORKSPACES 16

struct attune_workspace {
    struct attune_workspace *older;
    const attune_stream *stream; /* NULL: the default stream */
    uint64_t thread;             /* that used it last */
    attune_pointer memory;       /* data is NULL if bytes is 0 */
    uint64_t bytes;
    void *event; /* default stream: where its last user's work ends; NULL if there was none */
    bool is_lent;
    bool is_captured; /* a graph has its address */
    uint64_t last_use;
};

/* Never reused, as the system's own numbers of threads are. */
static uint64_t this_thread(void) {
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t thread;
    if (thread == 0) {
        thread = atomic_fetch_add(&threads, 1) + 1;
    }
    return thread;
}

static void lock(struct attune_workspace_pool *pool) {
    pthread_mutex_lock(&pool->guard.mutex);
}

static void unlock(struct attune_workspace_pool *pool) {
    pthread_mutex_unlock(&pool->guard.mutex);
}

static void *stream_handle(const attune_stream *stream) {
    return stream == NULL ? NULL : stream->handle;
}

/* ---- Memory ---- */

static attune_status allocate(const attune_device *device, uint64_t bytes, attune_pointer *out_memory) {
    attune_memory_range range = {0, 0, 0};
    bool is_aligned = device->limits.alignment_bytes >= ATTUNE_WORKSPACE_ALIGNMENT;
    uint64_t spare = is_aligned ? 0 : ATTUNE_WORKSPACE_ALIGNMENT;
    if (bytes > UINT64_MAX - spare) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "workspace: %" PRIu64 " bytes", bytes);
    }
    *out_memory = (attune_pointer){.memory = ATTUNE_MEMORY_DEFAULT};
    attune_status status =
        device->backend->memory_alloc(device->handle, ATTUNE_MEMORY_DEFAULT, bytes + spare, &out_memory->data);
    if (status != ATTUNE_OK || is_aligned) {
        return status;
    }
    status = device->backend->memory_range(device->handle, ATTUNE_MEMORY_DEFAULT, out_memory->data, &range);
    if (status != ATTUNE_OK) {
        device->backend->memory_free(device->handle, out_memory->data);
        return status;
    }
    out_memory->byte_offset = -range.offset % ATTUNE_WORKSPACE_ALIGNMENT;
    return ATTUNE_OK;
}

static void set_memory(struct attune_workspace_pool *pool, struct attune_workspace *workspace, attune_pointer memory,
                       uint64_t bytes) {
    lock(pool);
    workspace->memory = memory;
    workspace->bytes = bytes;
    unlock(pool);
}

/* The caller has been lent the workspace. At every moment its fields are what a forked child can use. */
static attune_status grow(struct attune_workspace_pool *pool, struct attune_workspace *workspace, uint64_t bytes) {
    const attune_device *device = pool->device;
    const attune_pointer none = {.data = NULL};
    attune_pointer memory = workspace->memory;
    if (memory.data != NULL) {
        attune_status status = device->backend->stream_sync(device->handle, stream_handle(workspace->stream));
        if (status != ATTUNE_OK) {
            return status;
        }
        attune_memory_account_free(&pool->device->memory, workspace->bytes);
        set_memory(pool, workspace, none, 0);
        device->backend->memory_free(device->handle, memory.data);
    }
    attune_status status = allocate(device, bytes, &memory);
    if (status == ATTUNE_OK) {
        set_memory(pool, workspace, memory, bytes);
        attune_memory_account_keep(&pool->device->memory, bytes);
    }
    return status;
}

static void free_workspace(attune_device *device, struct attune_workspace *workspace) {
    if (workspace->event != NULL) {
        device->backend->event_close(device->handle, workspace->event);
    }
    if (workspace->memory.data != NULL) {
        device->backend->memory_free(device->handle, workspace->memory.data);
        attune_memory_account_free(&device->memory, workspace->bytes);
    }
    attune_host_free(workspace);
}

static void free_list(attune_device *device, struct attune_workspace *newest) {
    while (newest != NULL) {
        struct attune_workspace *older = newest->older;
        free_workspace(device, newest);
        newest = older;
    }
}

/* ---- Choosing one; the pool is locked ---- */

/* Work of another thread that the default stream does not know to be before ours. */
static bool is_foreign(const struct attune_workspace *workspace) {
    return workspace->stream == NULL && workspace->thread != this_thread();
}

static struct attune_workspace *find_for_capture(struct attune_workspace_pool *pool, const attune_stream *stream,
                                                 uint64_t bytes) {
    struct attune_workspace *found = NULL;
    for (struct attune_workspace *at = pool->newest; at != NULL; at = at->older) {
        bool serves = at->stream == stream && !is_foreign(at) && at->bytes >= bytes;
        if (serves && (found == NULL || at->is_captured)) {
            found = at;
        }
    }
    return found;
}

/* The stream's own; on the default stream an idle one, if possible this thread's, and another's only once there are
 * enough. */
static struct attune_workspace *find(struct attune_workspace_pool *pool, const attune_stream *stream) {
    struct attune_workspace *own = NULL;
    struct attune_workspace *foreign = NULL;
    int32_t count = 0;
    for (struct attune_workspace *at = pool->newest; at != NULL; at = at->older) {
        if (at->stream != stream || at->is_captured) {
            continue;
        }
        count++;
        if (!is_foreign(at)) {
            own = at;
        } else if (!at->is_lent && (foreign == NULL || at->last_use < foreign->last_use)) {
            foreign = at;
        }
    }
    if (own != NULL) {
        return own;
    }
    return count >= DEFAULT_STREAM_WORKSPACES ? foreign : NULL;
}

static struct attune_workspace *add(struct attune_workspace_pool *pool, const attune_stream *stream) {
    struct attune_workspace *workspace = attune_host_alloc(sizeof *workspace);
    if (workspace != NULL) {
        workspace->stream = stream;
        workspace->thread = this_thread();
        workspace->older = pool->newest;
        pool->newest = workspace;
    }
    return workspace;
}

/* ---- Lending ---- */

static attune_status is_capturing(const attune_device *device, const attune_stream *stream, bool *out_capturing) {
    *out_capturing = false;
    if (device->backend->stream_capturing == NULL) {
        return ATTUNE_OK;
    }
    return device->backend->stream_capturing(device->handle, stream_handle(stream), out_capturing);
}

/* Takes a workspace out of the pool, waiting for the call that has it. NULL: none serves a capture, or no memory.
 * out_foreign: another thread's work on the default stream may still use it. */
static struct attune_workspace *take(struct attune_workspace_pool *pool, const attune_stream *stream, bool capturing,
                                     uint64_t bytes, bool *out_foreign) {
    struct attune_workspace *workspace;
    lock(pool);
    for (;;) {
        workspace = capturing ? find_for_capture(pool, stream, bytes) : find(pool, stream);
        if (workspace == NULL || !workspace->is_lent) {
            break;
        }
        pthread_cond_wait(&pool->given_back, &pool->guard.mutex);
    }
    if (workspace == NULL && !capturing) {
        workspace = add(pool, stream);
    }
    if (workspace != NULL) {
        *out_foreign = is_foreign(workspace);
        workspace->is_lent = true;
        workspace->is_captured = workspace->is_captured || capturing;
        workspace->thread = this_thread();
        workspace->last_use = ++pool->uses;
    }
    unlock(pool);
    return workspace;
}

static attune_status make_ready(struct attune_workspace_pool *pool, struct attune_workspace *workspace, bool foreign,
                                uint64_t bytes) {
    const attune_device *device = pool->device;
    attune_status status = ATTUNE_OK;
    if (foreign && workspace->event != NULL) {
        status = device->backend->event_wait(device->handle, workspace->event, NULL);
    }
    if (status == ATTUNE_OK && workspace->stream == NULL && workspace->event == NULL) {
        status = device->backend->event_open(device->handle, &workspace->event);
    }
    return status == ATTUNE_OK && workspace->bytes < bytes ? grow(pool, workspace, bytes) : status;
}

attune_status attune_workspace_pool_lend(struct attune_workspace_pool *pool, const attune_stream *stream,
                                         uint64_t bytes, struct attune_workspace **out_workspace) {
    bool capturing;
    bool foreign = false;
    attune_status status = is_capturing(pool->device, stream, &capturing);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct attune_workspace *workspace = take(pool, stream, capturing, bytes, &foreign);
    if (workspace == NULL && capturing) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY,
                           "workspace: %" PRIu64 " bytes would be allocated while the stream is captured: run the "
                           "call once before the capture, or make a plan",
                           bytes);
    }
    if (workspace == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "workspace: no host memory");
    }
    if (!capturing) {
        status = make_ready(pool, workspace, foreign, bytes);
    }
    if (status != ATTUNE_OK) {
        attune_workspace_pool_give_back(pool, workspace);
        return status;
    }
    *out_workspace = workspace;
    return ATTUNE_OK;
}

/* Marks where the work of this thread on the default stream ends; waits for it if that cannot be marked. */
static void mark_end(const attune_device *device, const struct attune_workspace *workspace) {
    struct attune_sentence sentence;
    attune_sentence_save(&sentence);
    if (workspace->event == NULL ||
        device->backend->event_record(device->handle, workspace->event, NULL) != ATTUNE_OK) {
        (void)device->backend->stream_sync(device->handle, NULL);
    }
    attune_sentence_restore(&sentence);
}

void attune_workspace_pool_give_back(struct attune_workspace_pool *pool, struct attune_workspace *workspace) {
    if (workspace->stream == NULL && !workspace->is_captured) {
        mark_end(pool->device, workspace);
    }
    lock(pool);
    workspace->is_lent = false;
    pthread_cond_broadcast(&pool->given_back);
    unlock(pool);
}

attune_pointer attune_workspace_pointer(const struct attune_workspace *workspace) {
    return workspace->memory;
}

/* ---- The pool ---- */

/* Calls of threads that a forked child does not have will never give back. */
static void forget_threads(struct attune_fork_guard *guard) {
    struct attune_workspace_pool *pool = (struct attune_workspace_pool *)guard;
    pthread_cond_init(&pool->given_back, NULL);
    for (struct attune_workspace *at = pool->newest; at != NULL; at = at->older) {
        at->is_lent = false;
    }
}

void attune_workspace_pool_init(struct attune_workspace_pool *pool, attune_device *device) {
    pool->device = device;
    pool->newest = NULL;
    pool->uses = 0;
    pthread_cond_init(&pool->given_back, NULL);
    attune_fork_guard_init(&pool->guard, forget_threads);
}

/* Whose workspaces are those that closed streams leave: of none that there may ever be. */
static const attune_stream *no_stream(const struct attune_workspace_pool *pool) {
    return (const attune_stream *)(const void *)pool;
}

void attune_workspace_pool_forget_stream(struct attune_workspace_pool *pool, const attune_stream *stream,
                                         bool capturing) {
    struct attune_workspace *removed = NULL;
    lock(pool);
    struct attune_workspace **link = &pool->newest;
    while (*link != NULL) {
        struct attune_workspace *at = *link;
        const bool is_of_stream = at->stream == stream;
        if (is_of_stream && !at->is_captured && !capturing) {
            *link = at->older;
            at->older = removed;
            removed = at;
        } else {
            at->stream = is_of_stream ? no_stream(pool) : at->stream;
            link = &at->older;
        }
    }
    unlock(pool);
    free_list(pool->device, removed);
}

void attune_workspace_pool_destroy(struct attune_workspace_pool *pool) {
    const attune_device *device = pool->device;
    for (struct attune_workspace *at = pool->newest; at != NULL; at = at->older) {
        if (at->event != NULL) {
            (void)device->backend->event_wait(device->handle, at->event, NULL);
        }
    }
    (void)device->backend->stream_sync(device->handle, NULL);
    lock(pool); /* a thread that forks now looks at the list */
    struct attune_workspace *newest = pool->newest;
    pool->newest = NULL;
    unlock(pool);
    free_list(pool->device, newest);
    attune_fork_guard_destroy(&pool->guard);
    pthread_cond_destroy(&pool->given_back);
}
