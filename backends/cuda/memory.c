/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "backends/cuda/device.h"

static CUdeviceptr device_address(attune_pointer pointer) {
    return (CUdeviceptr)(uintptr_t)pointer.data + pointer.byte_offset;
}

static char *host_address(attune_pointer pointer) {
    return (char *)pointer.data + pointer.byte_offset;
}

attune_status attune_cuda_memory_alloc(void *handle, attune_memory kind, uint64_t bytes, void **out_data) {
    const struct attune_cuda_device *device = handle;
    const bool pinned = kind == ATTUNE_MEMORY_PINNED;
    if (!pinned && kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_DEVICE) {
        return attune_cuda_host->fail(ATTUNE_UNSUPPORTED, "memory kind %d; there is device and pinned memory",
                                      (int)kind);
    }
    attune_status status = attune_cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (pinned) {
        status = attune_cuda_check(device->api, device->api->MemAllocHost(out_data, bytes), "cuMemAllocHost");
    } else {
        CUdeviceptr data = 0;
        status = attune_cuda_check(device->api, device->api->MemAlloc(&data, bytes), "cuMemAlloc");
        *out_data = (void *)(uintptr_t)data;
    }
    attune_cuda_leave(device);
    return status;
}

struct pointer_facts {
    unsigned kind; /* CUmemorytype; 0: not CUDA's */
    unsigned is_managed;
    unsigned is_whole; /* an allocation of its own, not one mapped from pieces or cut from a pool */
    int ordinal;
    CUdeviceptr start;
    size_t bytes;
};

static CUresult look_up(const struct attune_cuda_api *api, const void *data, struct pointer_facts *out_facts) {
    CUpointer_attribute attributes[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void *values[] = {&out_facts->kind,     &out_facts->is_managed, &out_facts->ordinal,
                      &out_facts->is_whole, &out_facts->start,      &out_facts->bytes};
    *out_facts = (struct pointer_facts){.ordinal = -1};
    return api->PointerGetAttributes(sizeof attributes / sizeof attributes[0], attributes, values,
                                     (CUdeviceptr)(uintptr_t)data);
}

void attune_cuda_memory_free(void *handle, void *data) {
    const struct attune_cuda_device *device = handle;
    if (!attune_cuda_try_enter(device)) {
        return;
    }
    struct pointer_facts facts;
    const bool is_device_memory =
        look_up(device->api, data, &facts) != CUDA_SUCCESS || facts.kind != CU_MEMORYTYPE_HOST;
    if (!is_device_memory || device->api->MemFree((CUdeviceptr)(uintptr_t)data) != CUDA_SUCCESS) {
        (void)device->api->MemFreeHost(data);
    }
    attune_cuda_leave(device);
}

static attune_status copy_entered(const struct attune_cuda_api *api, CUstream stream, attune_copy_direction direction,
                                  attune_pointer destination, attune_pointer source, uint64_t bytes) {
    switch (direction) {
    case ATTUNE_COPY_HOST_TO_DEVICE:
        return attune_cuda_check(api,
                                 api->MemcpyHtoDAsync(device_address(destination), host_address(source), bytes, stream),
                                 "cuMemcpyHtoDAsync");
    case ATTUNE_COPY_DEVICE_TO_HOST:
        return attune_cuda_check(api,
                                 api->MemcpyDtoHAsync(host_address(destination), device_address(source), bytes, stream),
                                 "cuMemcpyDtoHAsync");
    default:
        return attune_cuda_check(
            api, api->MemcpyDtoDAsync(device_address(destination), device_address(source), bytes, stream),
            "cuMemcpyDtoDAsync");
    }
}

attune_status attune_cuda_memory_copy(void *handle, void *stream, attune_copy_direction direction,
                                      attune_pointer destination, attune_pointer source, uint64_t bytes) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = copy_entered(device->api, attune_cuda_stream_of(stream), direction, destination, source, bytes);
        attune_cuda_leave(device);
    }
    return status;
}

attune_status attune_cuda_memory_copy_peer(void *destination_handle, void *stream, attune_pointer destination,
                                           void *source_handle, attune_pointer source, uint64_t bytes) {
    const struct attune_cuda_device *to = destination_handle;
    const struct attune_cuda_device *from = source_handle;
    attune_status status = attune_cuda_enter(to);
    if (status == ATTUNE_OK) {
        status =
            attune_cuda_check(to->api,
                              to->api->MemcpyPeerAsync(device_address(destination), to->context, device_address(source),
                                                       from->context, bytes, attune_cuda_stream_of(stream)),
                              "cuMemcpyPeerAsync");
        attune_cuda_leave(to);
    }
    return status;
}

attune_status attune_cuda_memory_fill(void *handle, void *stream, attune_pointer data, uint64_t bytes, uint8_t value) {
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = attune_cuda_check(
            device->api, device->api->MemsetD8Async(device_address(data), value, bytes, attune_cuda_stream_of(stream)),
            "cuMemsetD8Async");
        attune_cuda_leave(device);
    }
    return status;
}

/* Bytes from data to the end of its allocation. The driver's range is a piece of it where memory was mapped from pieces
 * or belongs to a pool: then the end is not known. */
static uint64_t bytes_left(const struct pointer_facts *facts, uint64_t address) {
    const bool is_known = facts->bytes != 0 && (facts->is_whole != 0 || facts->kind == CU_MEMORYTYPE_HOST);
    return is_known ? (uint64_t)facts->start + facts->bytes - address : UINT64_MAX;
}

/* The driver knows of what kind a pointer is. */
attune_status attune_cuda_memory_range(void *handle, attune_memory kind, const void *data,
                                       attune_memory_range *out_range) {
    (void)kind;
    const struct attune_cuda_device *device = handle;
    attune_status status = attune_cuda_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct pointer_facts facts;
    status = attune_cuda_check(device->api, look_up(device->api, data, &facts), "cuPointerGetAttributes");
    attune_cuda_leave(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (facts.kind == 0) {
        return attune_cuda_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is not memory that CUDA device %d knows", data,
                                      (int)device->device);
    }
    if (facts.kind == CU_MEMORYTYPE_DEVICE && facts.is_managed == 0 && facts.ordinal != (int)device->device) {
        return attune_cuda_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is memory of CUDA device %d, not of device %d", data,
                                      facts.ordinal, (int)device->device);
    }
    /* All devices and the host share one address space, so offsets are addresses. */
    const uint64_t address = (uint64_t)(uintptr_t)data;
    *out_range = (attune_memory_range){.space = 1, .offset = address, .size_bytes = bytes_left(&facts, address)};
    return ATTUNE_OK;
}
