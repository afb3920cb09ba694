/*
 * Memory objects, and shared virtual memory. How large memory of the latter kind is, OpenCL does not tell: the blocks
 * that were allocated here are remembered.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>

#include "backends/opencl/device.h"

struct attune_opencl_svm_block {
    struct attune_opencl_svm_block *next;
    uintptr_t begin;
    uint64_t bytes;
};

/* ---- Blocks ---- */

bool attune_opencl_svm_find(struct attune_opencl_device *device, const void *data, attune_memory_range *out_range) {
    const uintptr_t address = (uintptr_t)data;
    bool is_found = false;
    (void)pthread_mutex_lock(&device->blocks_lock);
    for (const struct attune_opencl_svm_block *block = device->svm_blocks; block != NULL; block = block->next) {
        if (address >= block->begin && address - block->begin < block->bytes) {
            /* One space, in which offsets are addresses. No memory object is at NULL. */
            *out_range = (attune_memory_range){0, address, block->begin + block->bytes - address};
            is_found = true;
        }
    }
    (void)pthread_mutex_unlock(&device->blocks_lock);
    return is_found;
}

static attune_status svm_alloc(struct attune_opencl_device *device, uint64_t bytes, void **out_data) {
    if (!device->has_svm) {
        return attune_opencl_host->fail(ATTUNE_UNSUPPORTED, "%s has no shared virtual memory", device->name);
    }
    struct attune_opencl_svm_block *block = attune_opencl_host->alloc(sizeof *block);
    if (block == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a record of %zu bytes", sizeof *block);
    }
    void *data = device->api->SVMAlloc(device->context, CL_MEM_READ_WRITE, bytes, 0);
    if (data == NULL) {
        attune_opencl_host->free(block);
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "clSVMAlloc: %llu bytes", (unsigned long long)bytes);
    }
    *block = (struct attune_opencl_svm_block){.begin = (uintptr_t)data, .bytes = bytes};
    (void)pthread_mutex_lock(&device->blocks_lock);
    block->next = device->svm_blocks;
    device->svm_blocks = block;
    (void)pthread_mutex_unlock(&device->blocks_lock);
    *out_data = data;
    return ATTUNE_OK;
}

/* The block that begins at data, taken off the list; NULL if none does. */
static struct attune_opencl_svm_block *take_block(struct attune_opencl_device *device, const void *data) {
    (void)pthread_mutex_lock(&device->blocks_lock);
    struct attune_opencl_svm_block **link = &device->svm_blocks;
    while (*link != NULL && (*link)->begin != (uintptr_t)data) {
        link = &(*link)->next;
    }
    struct attune_opencl_svm_block *block = *link;
    if (block != NULL) {
        *link = block->next;
    }
    (void)pthread_mutex_unlock(&device->blocks_lock);
    return block;
}

/* ---- Allocation ---- */

attune_status attune_opencl_memory_alloc(void *handle, attune_memory kind, uint64_t bytes, void **out_data) {
    struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (kind == ATTUNE_MEMORY_SVM) {
        return svm_alloc(device, bytes, out_data);
    }
    if (kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_DEVICE) {
        return attune_opencl_host->fail(ATTUNE_UNSUPPORTED, "memory kind %d; there is device and svm memory",
                                        (int)kind);
    }
    cl_int result = CL_SUCCESS;
    *out_data = device->api->CreateBuffer(device->context, CL_MEM_READ_WRITE, bytes, NULL, &result);
    return attune_opencl_check(result, "clCreateBuffer");
}

void attune_opencl_memory_free(void *handle, void *data) {
    struct attune_opencl_device *device = handle;
    if (attune_opencl_api_is_forked(device->api)) {
        return;
    }
    struct attune_opencl_svm_block *block = take_block(device, data);
    if (block != NULL) {
        device->api->SVMFree(device->context, data);
    } else {
        (void)device->api->ReleaseMemObject(data);
    }
    attune_opencl_host->free(block);
}

/* ---- Copies ---- */

static char *address(attune_pointer pointer) {
    return (char *)pointer.data + pointer.byte_offset;
}

/* Either side may be an address, the host's or shared. */
static cl_int enqueue_copy(const struct attune_opencl_device *device, cl_command_queue queue, attune_pointer to,
                           bool to_address, attune_pointer from, bool from_address, uint64_t bytes) {
    const struct attune_opencl_api *api = device->api;
    if (to_address && from_address) {
        return api->EnqueueSVMMemcpy(queue, CL_FALSE, address(to), address(from), bytes, 0, NULL, NULL);
    }
    if (to_address) {
        return api->EnqueueReadBuffer(queue, from.data, CL_FALSE, from.byte_offset, bytes, address(to), 0, NULL, NULL);
    }
    if (from_address) {
        return api->EnqueueWriteBuffer(queue, to.data, CL_FALSE, to.byte_offset, bytes, address(from), 0, NULL, NULL);
    }
    return api->EnqueueCopyBuffer(queue, from.data, to.data, from.byte_offset, to.byte_offset, bytes, 0, NULL, NULL);
}

attune_status attune_opencl_memory_copy(void *handle, void *stream, attune_copy_direction direction,
                                        attune_pointer destination, attune_pointer source, uint64_t bytes) {
    struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const cl_command_queue queue = attune_opencl_queue_of(device, stream);
    const bool to_address =
        direction == ATTUNE_COPY_DEVICE_TO_HOST || attune_opencl_is_address(device, destination.data);
    const bool from_address = direction == ATTUNE_COPY_HOST_TO_DEVICE || attune_opencl_is_address(device, source.data);
    status = attune_opencl_check(enqueue_copy(device, queue, destination, to_address, source, from_address, bytes),
                                 "a copy's command");
    return status == ATTUNE_OK ? attune_opencl_check(device->api->Flush(queue), "clFlush") : status;
}

attune_status attune_opencl_memory_fill(void *handle, void *stream, attune_pointer data, uint64_t bytes,
                                        uint8_t value) {
    struct attune_opencl_device *device = handle;
    const struct attune_opencl_api *api = device->api;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const cl_command_queue queue = attune_opencl_queue_of(device, stream);
    if (attune_opencl_is_address(device, data.data)) {
        status = attune_opencl_check(api->EnqueueSVMMemFill(queue, address(data), &value, 1, bytes, 0, NULL, NULL),
                                     "clEnqueueSVMMemFill");
    } else {
        status = attune_opencl_check(
            api->EnqueueFillBuffer(queue, data.data, &value, 1, data.byte_offset, bytes, 0, NULL, NULL),
            "clEnqueueFillBuffer");
    }
    return status == ATTUNE_OK ? attune_opencl_check(api->Flush(queue), "clFlush") : status;
}
