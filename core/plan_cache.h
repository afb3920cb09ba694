/*
 * The plans and workspaces that one-call functions keep in a device.
 *
 * Any number of threads may use a cache at once, each on its own stream or all on one. After a fork the child has what
 * the parent had, and nothing in it is locked.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PLAN_CACHE_H
#define ATTUNE_CORE_PLAN_CACHE_H

#include "core/call.h"
#include "core/device_internal.h"

/* Plans that are kept; the one that was used longest ago makes room for a new one. */
#define ATTUNE_PLAN_CACHE_SIZE 64

attune_status attune_plan_cache_create(attune_device *device, struct attune_plan_cache **out_cache);

/* Waits for the work of one-call functions, then frees all plans and workspaces. NULL is ignored. */
void attune_plan_cache_destroy(struct attune_plan_cache *cache);

/* Frees the workspaces of a stream that is about to be closed and whose work is done; none while it is captured. */
void attune_plan_cache_forget_stream(struct attune_plan_cache *cache, attune_stream *stream, bool capturing);

/* Runs a call that attune_call_prepare has made: finds or builds its plan, lends it a workspace, and launches. */
attune_status attune_plan_cache_run(attune_device *device, attune_stream *stream, struct attune_call *call);

#endif
