/*
 * The plans and workspaces that one-call functions keep in a device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PLAN_CACHE_H
#define ATTUNE_CORE_PLAN_CACHE_H

#include "core/device_internal.h"

attune_status attune_plan_cache_create(attune_device *device, struct attune_plan_cache **out_cache);

/* Waits for the work of one-call functions, then frees all plans and workspaces. NULL is ignored. */
void attune_plan_cache_destroy(struct attune_plan_cache *cache);

/* Frees the workspace of a stream that is about to be closed. */
void attune_plan_cache_forget_stream(struct attune_plan_cache *cache, attune_stream *stream);

#endif
