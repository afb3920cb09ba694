/*
 * A CUDA device, its memory, streams and events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_DEVICE_H
#define ATTUNE_CUDA_DEVICE_H

#include <pthread.h>

#include "backends/cuda/api.h"

/* Kernels of one image that run beside its main one, at most. */
#define ATTUNE_CUDA_BESIDE_MAX 3

struct attune_cuda_function {
    CUmodule module;
    CUfunction function;
    CUfunction beside[ATTUNE_CUDA_BESIDE_MAX];
};

struct attune_cuda_device {
    const struct attune_cuda_api *api;
    CUdevice device;
    CUcontext context;
    bool owns_context;       /* the primary context, retained; otherwise the caller's */
    int compute_capability;  /* 90 for 9.0 */
    int processors;          /* multiprocessors */
    int shared_memory_bytes; /* of a work-group, at most */
    bool launches_overlap;   /* one that waits itself may begin before the one ahead of it has ended */
    attune_device_limits limits;
    pthread_mutex_t functions_lock;
    struct attune_cuda_function *functions; /* one for each kernel row, loaded when first planned */
};

struct attune_cuda_stream {
    CUstream stream;
    bool owned;
};

/* Makes the device's context current until attune_cuda_leave, which gives the caller's back. DEVICE_LOST in a fork of
 * the process that opened the device: a CUDA context does not survive fork. */
attune_status attune_cuda_enter(const struct attune_cuda_device *device);
/* The same for closing and freeing, which tell nobody of errors. */
bool attune_cuda_try_enter(const struct attune_cuda_device *device);
void attune_cuda_leave(const struct attune_cuda_device *device);

/* The driver's stream; the per-thread default stream for NULL. */
CUstream attune_cuda_stream_of(const void *stream);

attune_status attune_cuda_enumerate(int32_t index, attune_device_info *out_info);
attune_status attune_cuda_device_open(int32_t index, void **out_device);
attune_status attune_cuda_device_wrap(void *native, int32_t *out_index, void **out_device);
void attune_cuda_device_close(void *device);
attune_status attune_cuda_device_limits(void *device, attune_device_limits *out_limits);

attune_status attune_cuda_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data);
void attune_cuda_memory_free(void *device, void *data);
attune_status attune_cuda_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                      attune_pointer destination, attune_pointer source, uint64_t bytes);
attune_status attune_cuda_memory_copy_peer(void *destination_device, void *stream, attune_pointer destination,
                                           void *source_device, attune_pointer source, uint64_t bytes);
attune_status attune_cuda_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);
attune_status attune_cuda_memory_range(void *device, attune_memory kind, const void *data,
                                       attune_memory_range *out_range);

attune_status attune_cuda_stream_open(void *device, void **out_stream);
attune_status attune_cuda_stream_wrap(void *device, void *native, void **out_stream);
void attune_cuda_stream_close(void *device, void *stream);
attune_status attune_cuda_stream_sync(void *device, void *stream);
attune_status attune_cuda_stream_capturing(void *device, void *stream, bool *out_capturing);

attune_status attune_cuda_event_open(void *device, void **out_event);
void attune_cuda_event_close(void *device, void *event);
attune_status attune_cuda_event_record(void *device, void *event, void *stream);
attune_status attune_cuda_event_wait(void *device, void *event, void *stream);
attune_status attune_cuda_event_elapsed(void *device, void *start, void *end, double *out_seconds);

#endif
