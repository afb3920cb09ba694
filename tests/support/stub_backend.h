/*
 * The least that core takes for a backend: host memory, two devices, no kernels. Tests change single entries of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_STUB_BACKEND_H
#define ATTUNE_TESTS_STUB_BACKEND_H

#include <stdlib.h>
#include <string.h>

#include "attune/backend.h"

#define STUB_DEVICE_COUNT     2
#define STUB_ALLOCATION_BYTES 4096 /* what memory_range says of every pointer */

static inline attune_status stub_enumerate(int32_t index, attune_device_info *out_info) {
    if (index >= STUB_DEVICE_COUNT) {
        return ATTUNE_NOT_FOUND;
    }
    memcpy(out_info->name, "Stub A", sizeof "Stub A");
    out_info->name[5] = (char)('A' + index);
    out_info->memory_bytes = 1 << 20;
    return ATTUNE_OK;
}

static inline attune_status stub_open(int32_t index, void **out_device) {
    int32_t *device = malloc(sizeof *device);
    if (device == NULL) {
        return ATTUNE_OUT_OF_MEMORY;
    }
    *device = index;
    *out_device = device;
    return ATTUNE_OK;
}

static inline void stub_close(void *device) {
    free(device);
}

static inline attune_status stub_limits(void *device, attune_device_limits *out_limits) {
    (void)device;
    out_limits->processors = 4;
    out_limits->shared_memory_bytes = 1024;
    out_limits->work_group_size_max = 64;
    out_limits->alignment_bytes = 16;
    return ATTUNE_OK;
}

static inline attune_status stub_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    (void)device;
    (void)kind;
    *out_data = malloc((size_t)bytes);
    return *out_data == NULL ? ATTUNE_OUT_OF_MEMORY : ATTUNE_OK;
}

static inline void stub_memory_free(void *device, void *data) {
    (void)device;
    free(data);
}

static inline attune_status stub_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                             attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device;
    (void)stream;
    (void)direction;
    memcpy((char *)destination.data + destination.byte_offset, (char *)source.data + source.byte_offset, (size_t)bytes);
    return ATTUNE_OK;
}

static inline attune_status stub_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes,
                                             uint8_t value) {
    (void)device;
    (void)stream;
    memset((char *)data.data + data.byte_offset, value, (size_t)bytes);
    return ATTUNE_OK;
}

static inline attune_status stub_memory_range(void *device, attune_memory kind, const void *data,
                                              attune_memory_range *out_range) {
    (void)device, (void)kind;
    out_range->space = 0;
    out_range->offset = (uint64_t)(uintptr_t)data;
    out_range->size_bytes = STUB_ALLOCATION_BYTES;
    return ATTUNE_OK;
}

static inline attune_status stub_handle_open(void *device, void **out_handle) {
    (void)device;
    *out_handle = malloc(1);
    return *out_handle == NULL ? ATTUNE_OUT_OF_MEMORY : ATTUNE_OK;
}

static inline void stub_handle_close(void *device, void *handle) {
    (void)device;
    free(handle);
}

static inline attune_status stub_stream_sync(void *device, void *stream) {
    (void)device;
    (void)stream;
    return ATTUNE_OK;
}

static inline attune_status stub_event_and_stream(void *device, void *event, void *stream) {
    (void)device;
    (void)event;
    (void)stream;
    return ATTUNE_OK;
}

static inline attune_status stub_event_elapsed(void *device, void *start, void *end, double *out_seconds) {
    (void)device;
    (void)start;
    (void)end;
    *out_seconds = 0.5;
    return ATTUNE_OK;
}

static inline const attune_kernel_row *stub_kernels(int32_t *out_count) {
    *out_count = 0;
    return NULL;
}

static inline attune_status stub_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    (void)device;
    (void)request;
    (void)out_plan;
    return ATTUNE_UNSUPPORTED;
}

static inline attune_status stub_execute(void *device, void *plan, void *stream, const attune_bindings *bindings) {
    (void)device;
    (void)plan;
    (void)stream;
    (void)bindings;
    return ATTUNE_UNSUPPORTED;
}

static inline attune_backend stub_backend(const char *name, int32_t priority) {
    attune_backend backend = {
        .struct_size = sizeof backend,
        .abi_major = ATTUNE_BACKEND_ABI_MAJOR,
        .abi_minor = ATTUNE_BACKEND_ABI_MINOR,
        .kernel_row_size = sizeof(attune_kernel_row),
        .name = name,
        .description = "a stub",
        .priority = priority,
        .enumerate = stub_enumerate,
        .device_open = stub_open,
        .device_close = stub_close,
        .device_limits = stub_limits,
        .memory_alloc = stub_memory_alloc,
        .memory_free = stub_memory_free,
        .memory_copy = stub_memory_copy,
        .memory_fill = stub_memory_fill,
        .memory_range = stub_memory_range,
        .stream_open = stub_handle_open,
        .stream_close = stub_handle_close,
        .stream_sync = stub_stream_sync,
        .event_open = stub_handle_open,
        .event_close = stub_handle_close,
        .event_record = stub_event_and_stream,
        .event_wait = stub_event_and_stream,
        .event_elapsed = stub_event_elapsed,
        .kernels = stub_kernels,
        .plan_build = stub_plan_build,
        .plan_release = stub_handle_close,
        .execute = stub_execute,
    };
    return backend;
}

#endif
