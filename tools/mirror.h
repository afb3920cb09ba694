/*
 * Tensors of a device, as they lie there, in host memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_MIRROR_H
#define ATTUNE_TOOLS_MIRROR_H

#include "attune/attention.h"
#include "attune/kvcache.h"
#include "tensors.h"

enum { HOST_MEMORY_MAX = 48 };

/* Blocks from malloc that go together. All zeros is none. */
struct host_memory {
    void *item[HOST_MEMORY_MAX];
    int count;
};

/* Copies args and every tensor in it: those of out_args lie on the host. */
enum tool_exit mirror_attention(struct tensors *tensors, const attune_attention_args *args, struct host_memory *memory,
                                attune_attention_args *out_args);
enum tool_exit mirror_append(struct tensors *tensors, const attune_kvcache_append_args *args,
                             struct host_memory *memory, attune_kvcache_append_args *out_args);

void host_memory_release(struct host_memory *memory);

#endif
