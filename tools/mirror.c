/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror.h"

#include <stddef.h>
#include <stdlib.h>

#define ATTENTION(member) offsetof(attune_attention_args, member)
#define APPEND(member)    offsetof(attune_kvcache_append_args, member)

static const size_t attention_members[] = {
    ATTENTION(q),
    ATTENTION(k),
    ATTENTION(v),
    ATTENTION(o),
    ATTENTION(lse),
    ATTENTION(dout),
    ATTENTION(dlse),
    ATTENTION(dq),
    ATTENTION(dk),
    ATTENTION(dv),
    ATTENTION(bias),
    ATTENTION(mask),
    ATTENTION(alibi_slopes),
    ATTENTION(sink),
    ATTENTION(block_table),
    ATTENTION(block_row_ptr),
    ATTENTION(block_col_idx),
    ATTENTION(descale_q),
    ATTENTION(descale_k),
    ATTENTION(descale_v),
};

static const size_t append_members[] = {
    APPEND(k_cache),    APPEND(v_cache),     APPEND(k_new),     APPEND(v_new),
    APPEND(seqused_k),  APPEND(block_table), APPEND(descale_k), APPEND(descale_v),
    APPEND(rotary_cos), APPEND(rotary_sin),  APPEND(q),         APPEND(q_out),
};

/* Puts the tensors of out_args, which is a copy of the device's args, on the host. */
static enum tool_exit reflect(struct tensors *tensors, const size_t *members, size_t count, struct host_memory *memory,
                              void *out_args) {
    enum tool_exit status = TOOL_OK;
    for (size_t i = 0; !status && i < count; i++) {
        attune_tensor *tensor = (attune_tensor *)((char *)out_args + members[i]);
        if (tensor->dtype == ATTUNE_DTYPE_NONE) {
            continue;
        }
        void *data;
        status = tensors_get(tensors, tensor, &data);
        if (!status) {
            tensor->data = memory->item[memory->count++] = data;
        }
    }
    return status;
}

enum tool_exit mirror_attention(struct tensors *tensors, const attune_attention_args *args, struct host_memory *memory,
                                attune_attention_args *out_args) {
    *out_args = *args;
    return reflect(tensors, attention_members, sizeof attention_members / sizeof attention_members[0], memory,
                   out_args);
}

enum tool_exit mirror_append(struct tensors *tensors, const attune_kvcache_append_args *args,
                             struct host_memory *memory, attune_kvcache_append_args *out_args) {
    *out_args = *args;
    return reflect(tensors, append_members, sizeof append_members / sizeof append_members[0], memory, out_args);
}

void host_memory_release(struct host_memory *memory) {
    while (memory->count > 0) {
        free(memory->item[--memory->count]);
    }
}
