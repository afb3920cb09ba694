/*
 * Scratch memory of the one-call functions: kept for each stream, grown on need.
 *
 * A stream has one workspace, which its calls use one at a time: in an ordered queue that is what happens anyway, and
 * where a call returns when its work is done it makes the calls of several threads take turns. What the default stream
 * is differs (one for each thread, one for the device, or "now"), so there a workspace goes to one call at a time, with
 * an event that makes the next thread's work wait for the last one's.
 *
 * A graph keeps the address of the workspace that it was captured with. Such a workspace is never grown nor lent to
 * calls outside of a capture, and it stays when its stream is closed; graphs captured from one stream share it and must
 * not run at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_WORKSPACE_POOL_H
#define ATTUNE_CORE_WORKSPACE_POOL_H

#include "core/device_internal.h"
#include "core/fork_guard.h"

struct attune_workspace;

struct attune_workspace_pool {
    struct attune_fork_guard guard; /* first: guards all that follows, and the workspaces' fields */
    pthread_cond_t given_back;
    attune_device *device;
    struct attune_workspace *newest;
    uint64_t uses;
};

void attune_workspace_pool_init(struct attune_workspace_pool *pool, attune_device *device);

/* Waits for the work that uses them, then frees all workspaces. */
void attune_workspace_pool_destroy(struct attune_workspace_pool *pool);

/* Frees the workspaces of a stream whose work is done, but for those that graphs have; none while it is captured, which
 * would break that. */
void attune_workspace_pool_forget_stream(struct attune_workspace_pool *pool, const attune_stream *stream,
                                         bool capturing);

/* Lends a workspace of at least bytes, aligned to ATTUNE_WORKSPACE_ALIGNMENT, to one call on a stream; NULL is the
 * default stream. May wait for the stream when it grows. Given back when the call has queued its work.
 *
 * Errors: OUT_OF_MEMORY (also where it would grow while the stream is captured); what the backend says. */
attune_status attune_workspace_pool_lend(struct attune_workspace_pool *pool, const attune_stream *stream,
                                         uint64_t bytes, struct attune_workspace **out_workspace);

void attune_workspace_pool_give_back(struct attune_workspace_pool *pool, struct attune_workspace *workspace);

attune_pointer attune_workspace_pointer(const struct attune_workspace *workspace);

#endif
