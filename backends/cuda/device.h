/*
 * A CUDA device, its memory, streams and events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_DEVICE_H
#define ATTUNE_CUDA_DEVICE_H

#include "backends/cuda/api.h"

struct cuda_device {
    const struct cuda_api *api;
    CUdevice device;
    CUcontext context;
    bool owns_context; /* the primary context, retained; otherwise the caller's */
    unsigned fork_generation;
    int compute_capability; /* 90 for 9.0 */
};

struct cuda_stream {
    CUstream stream;
    bool owned;
};

/* Makes the device's context current until cuda_leave, which gives the caller's back. DEVICE_LOST in a fork of the
 * process that opened the device: a CUDA context does not survive fork. */
attune_status cuda_enter(const struct cuda_device *device);
void cuda_leave(const struct cuda_device *device);

/* The driver's stream; the per-thread default stream for NULL. */
CUstream cuda_stream_of(const void *stream);

attune_status cuda_enumerate(int32_t index, attune_device_info *out_info);
attune_status cuda_device_open(int32_t index, void **out_device);
attune_status cuda_device_wrap(void *native, int32_t *out_index, void **out_device);
void cuda_device_close(void *device);
attune_status cuda_device_limits(void *device, attune_device_limits *out_limits);

attune_status cuda_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data);
void cuda_memory_free(void *device, void *data);
attune_status cuda_memory_copy(void *device, void *stream, attune_copy_direction direction, attune_pointer destination,
                               attune_pointer source, uint64_t bytes);
attune_status cuda_memory_copy_peer(void *destination_device, void *stream, attune_pointer destination,
                                    void *source_device, attune_pointer source, uint64_t bytes);
attune_status cuda_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);
attune_status cuda_memory_range(void *device, const void *data, attune_memory_range *out_range);

attune_status cuda_stream_open(void *device, void **out_stream);
attune_status cuda_stream_wrap(void *device, void *native, void **out_stream);
void cuda_stream_close(void *device, void *stream);
attune_status cuda_stream_sync(void *device, void *stream);
attune_status cuda_stream_capturing(void *device, void *stream, bool *out_capturing);

attune_status cuda_event_open(void *device, void **out_event);
void cuda_event_close(void *device, void *event);
attune_status cuda_event_record(void *device, void *event, void *stream);
attune_status cuda_event_wait(void *device, void *event, void *stream);
attune_status cuda_event_elapsed(void *device, void *start, void *end, double *out_seconds);

#endif
