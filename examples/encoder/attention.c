/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"

#include <stdio.h>

static int told(attune_status status) {
    if (status != ATTUNE_OK) {
        fprintf(stderr, "%s: %s\n", attune_status_name(status), attune_last_error());
    }
    return status == ATTUNE_OK ? 0 : -1;
}

static attune_status copy_in(attune_device *device, const attune_tensor *tensor, const void *values, size_t bytes) {
    return attune_memory_copy(device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, tensor->data, 0, values, 0, bytes);
}

static attune_status create(attune_device *device, attune_dtype dtype, int rank, const int64_t *shape,
                            attune_tensor *out_tensor) {
    uint64_t bytes = attune_dtype_size_bytes(dtype);
    void *data = NULL;
    for (int axis = 0; axis < rank; axis++) {
        bytes *= (uint64_t)shape[axis];
    }
    attune_status status = attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, bytes, &data);
    *out_tensor = attune_tensor_contiguous(data, dtype, rank, shape);
    return status;
}

/* Each text sees itself alone: attune is told where it begins and ends. */
static attune_status create_offsets(struct attention *attention, const struct texts *texts) {
    attune_tensor *offsets = &attention->args.cu_seqlens_q;
    const int64_t count = texts->count + 1;
    attune_status status = create(attention->device, ATTUNE_DTYPE_I32, 1, &count, offsets);
    if (status == ATTUNE_OK) {
        status = copy_in(attention->device, offsets, texts->offsets, (size_t)count * sizeof(int32_t));
    }
    attention->args.cu_seqlens_k = *offsets;
    return status;
}

int attention_open(const struct texts *texts, int64_t heads, int64_t head_dim, struct attention *out_attention) {
    struct attention *attention = out_attention;
    const int64_t shape[] = {texts->offsets[texts->count], heads, head_dim};
    attune_forward_args *args = &attention->args;
    *attention = (struct attention){.bytes = (size_t)(shape[0] * heads * head_dim) * sizeof(float)};
    *args = attune_forward_args_init();
    args->max_seqlen_q = args->max_seqlen_k = texts->longest;
    attune_status status = attune_device_open(NULL, &attention->device);
    attune_tensor *tensors[] = {&args->q, &args->k, &args->v, &args->o};
    for (int i = 0; status == ATTUNE_OK && i < 4; i++) {
        status = create(attention->device, ATTUNE_DTYPE_F32, 3, shape, tensors[i]);
    }
    if (status == ATTUNE_OK) {
        status = create_offsets(attention, texts);
    }
    return told(status);
}

void attention_close(struct attention *attention) {
    const attune_forward_args *args = &attention->args;
    void *memory[] = {args->q.data, args->k.data, args->v.data, args->o.data, args->cu_seqlens_q.data};
    for (int i = 0; attention->device && i < 5; i++) {
        attune_memory_free(attention->device, memory[i]);
    }
    attune_device_close(attention->device);
    *attention = (struct attention){0};
}

int attention_run(struct attention *attention, const float *q, const float *k, const float *v, float *out_o) {
    attune_device *device = attention->device;
    const attune_forward_args *args = &attention->args;
    attune_status status = copy_in(device, &args->q, q, attention->bytes);
    if (status == ATTUNE_OK) {
        status = copy_in(device, &args->k, k, attention->bytes);
    }
    if (status == ATTUNE_OK) {
        status = copy_in(device, &args->v, v, attention->bytes);
    }
    if (status == ATTUNE_OK) {
        status = attune_forward(device, NULL, args);
    }
    if (status == ATTUNE_OK) {
        status =
            attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, out_o, 0, args->o.data, 0, attention->bytes);
    }
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(device, NULL);
    }
    return told(status);
}
