/*
 * --knew: new keys and values into the cache, before attention.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_APPEND_H
#define ATTUNE_TOOLS_APPEND_H

#include "options.h"
#include "tensors.h"

/* Appends to args->k and args->v, rotates args->q where --cos is given, and advances args->seqused_k. For a plan
 * (tensors->shapes_only) only the shapes change. Does nothing without --knew. */
enum tool_exit append_new(const struct options *options, struct tensors *tensors, attune_attention_args *args);

#endif
