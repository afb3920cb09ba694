/*
 * An OpenCL device, its memory, queues and events.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_DEVICE_H
#define ATTUNE_OPENCL_DEVICE_H

#include <pthread.h>

#include "backends/opencl/api.h"

#define ATTUNE_OPENCL_CONTEXT_DEVICES_MAX 64

/* Memory at an address, of attune_opencl_memory_alloc. */
struct attune_opencl_block {
    struct attune_opencl_block *next;
    uintptr_t begin;
    uint64_t bytes;
    cl_mem mapped; /* what pinned host memory is the mapping of; NULL: shared virtual memory */
};

struct attune_opencl_device {
    const struct attune_opencl_api *api;
    cl_device_id device;
    cl_context context;     /* owned; retained if it is the caller's */
    cl_command_queue queue; /* the default stream */
    char name[ATTUNE_NAME_MAX];
    char driver[ATTUNE_NAME_MAX];
    char *version; /* of OpenCL, and what the driver says besides */
    bool is_cpu;
    int32_t vector_floats; /* of the device's registers */
    bool has_svm;
    bool has_dispatch;           /* objects begin with a pointer that is the same for all of a platform's: cl_khr_icd */
    attune_device_limits limits; /* with what ATTUNE_DEVICE_LIMITS puts in their place: kernels are built for these */
    pthread_mutex_t programs_lock;
    struct attune_opencl_program *programs;
    pthread_mutex_t blocks_lock;
    struct attune_opencl_block *blocks;
};

/* OK, or DEVICE_LOST in a fork of the process that opened the device. */
attune_status attune_opencl_enter(const struct attune_opencl_device *device);

/* A queue; the device's own for NULL. */
cl_command_queue attune_opencl_queue_of(const struct attune_opencl_device *device, const void *stream);

/* Finds the block that an address lies in. */
bool attune_opencl_block_find(struct attune_opencl_device *device, const void *data,
                              struct attune_opencl_block *out_block);

/* Whether the library may be asked about a pointer. A loader that is asked about one that is no object's goes where its
 * first bytes point to. So they are compared first, where drivers have promised what they are; all else is refused by
 * the driver itself. */
bool attune_opencl_may_be_object(const struct attune_opencl_device *device, const void *data);

/* Whether a pointer that has a range is an address of shared virtual memory; if not, it is a memory object. */
bool attune_opencl_is_address(struct attune_opencl_device *device, attune_pointer pointer);

attune_status attune_opencl_enumerate(int32_t index, attune_device_info *out_info);
attune_status attune_opencl_device_open(int32_t index, void **out_device);
attune_status attune_opencl_device_wrap(void *native, int32_t *out_index, void **out_device);
void attune_opencl_device_close(void *device);
attune_status attune_opencl_device_limits(void *device, attune_device_limits *out_limits);

attune_status attune_opencl_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data);
void attune_opencl_memory_free(void *device, void *data);
attune_status attune_opencl_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                        attune_pointer destination, attune_pointer source, uint64_t bytes);
attune_status attune_opencl_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);
attune_status attune_opencl_memory_range(void *device, attune_memory kind, const void *data,
                                         attune_memory_range *out_range);

attune_status attune_opencl_stream_open(void *device, void **out_stream);
attune_status attune_opencl_stream_wrap(void *device, void *native, void **out_stream);
void attune_opencl_stream_close(void *device, void *stream);
attune_status attune_opencl_stream_sync(void *device, void *stream);

attune_status attune_opencl_event_open(void *device, void **out_event);
void attune_opencl_event_close(void *device, void *event);
attune_status attune_opencl_event_record(void *device, void *event, void *stream);
attune_status attune_opencl_event_wait(void *device, void *event, void *stream);
attune_status attune_opencl_event_elapsed(void *device, void *start, void *end, double *out_seconds);

#endif
