/*
 * Memory objects, shared virtual memory, and pinned host memory. The latter two are addresses: the blocks that were
 * allocated here are remembered, since OpenCL does not tell of an address how much lies behind it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdio.h>

#include "backends/opencl/device.h"
#include "backends/opencl/enumerate.h"

/* ---- Memory objects ---- */

static attune_status fail_create(const struct attune_opencl_device *device, uint64_t bytes, cl_int result) {
    char what[2 * ATTUNE_REASON_MAX];
    uint64_t most = 0;
    if (attune_opencl_device_number(device->api, device->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, &most) != ATTUNE_OK) {
        return attune_opencl_check(result, "clCreateBuffer");
    }
    snprintf(what, sizeof what, "%llu bytes, where %s promises %llu at once: clCreateBuffer", (unsigned long long)bytes,
             device->name, (unsigned long long)most);
    return attune_opencl_check(result, what);
}

static attune_status create_object(const struct attune_opencl_device *device, cl_mem_flags flags, uint64_t bytes,
                                   cl_mem *out_memory) {
    cl_int result = CL_SUCCESS;
    cl_mem made = device->api->CreateBuffer(device->context, flags, bytes, NULL, &result);
    if (result != CL_SUCCESS) {
        return fail_create(device, bytes, result);
    }
    *out_memory = made;
    return ATTUNE_OK;
}

/* ---- Blocks ---- */

bool attune_opencl_block_find(struct attune_opencl_device *device, const void *data,
                              struct attune_opencl_block *out_block) {
    const uintptr_t address = (uintptr_t)data;
    bool is_found = false;
    (void)pthread_mutex_lock(&device->blocks_lock);
    for (const struct attune_opencl_block *block = device->blocks; block != NULL; block = block->next) {
        if (address >= block->begin && address - block->begin < block->bytes) {
            *out_block = *block;
            is_found = true;
        }
    }
    (void)pthread_mutex_unlock(&device->blocks_lock);
    return is_found;
}

/* The block that begins at data, taken off the list; NULL if none does. */
static struct attune_opencl_block *take_block(struct attune_opencl_device *device, const void *data) {
    (void)pthread_mutex_lock(&device->blocks_lock);
    struct attune_opencl_block **link = &device->blocks;
    while (*link != NULL && (*link)->begin != (uintptr_t)data) {
        link = &(*link)->next;
    }
    struct attune_opencl_block *block = *link;
    if (block != NULL) {
        *link = block->next;
    }
    (void)pthread_mutex_unlock(&device->blocks_lock);
    return block;
}

static attune_status make_shared(const struct attune_opencl_device *device, uint64_t bytes, void **out_data) {
    *out_data = device->api->SVMAlloc(device->context, CL_MEM_READ_WRITE, bytes, 0);
    return *out_data != NULL
               ? ATTUNE_OK
               : attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "clSVMAlloc: %llu bytes", (unsigned long long)bytes);
}

/* OpenCL has no word for pinned memory. A memory object that the host can reach, mapped as long as it lives, is what
 * drivers lock, and copy from and to without a copy in between. */
static attune_status make_pinned(const struct attune_opencl_device *device, uint64_t bytes, cl_mem *out_mapped,
                                 void **out_data) {
    const struct attune_opencl_api *api = device->api;
    cl_mem made = NULL;
    attune_status status = create_object(device, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, &made);
    if (status != ATTUNE_OK) {
        return status;
    }
    cl_int result = CL_SUCCESS;
    *out_data = api->EnqueueMapBuffer(device->queue, made, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL,
                                      &result);
    status = attune_opencl_check(result, "clEnqueueMapBuffer");
    if (status != ATTUNE_OK) {
        (void)api->ReleaseMemObject(made);
        return status;
    }
    *out_mapped = made;
    return ATTUNE_OK;
}

static attune_status alloc_block(struct attune_opencl_device *device, attune_memory kind, uint64_t bytes,
                                 void **out_data) {
    if (kind == ATTUNE_MEMORY_SVM && !device->has_svm) {
        return attune_opencl_host->fail(ATTUNE_UNSUPPORTED, "%s has no shared virtual memory", device->name);
    }
    struct attune_opencl_block *block = attune_opencl_host->alloc(sizeof *block);
    if (block == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a record of %zu bytes", sizeof *block);
    }
    void *data = NULL;
    const attune_status status = kind == ATTUNE_MEMORY_SVM ? make_shared(device, bytes, &data)
                                                           : make_pinned(device, bytes, &block->mapped, &data);
    if (status != ATTUNE_OK) {
        attune_opencl_host->free(block);
        return status;
    }
    block->begin = (uintptr_t)data;
    block->bytes = bytes;
    (void)pthread_mutex_lock(&device->blocks_lock);
    block->next = device->blocks;
    device->blocks = block;
    (void)pthread_mutex_unlock(&device->blocks_lock);
    *out_data = data;
    return ATTUNE_OK;
}

static void free_block(const struct attune_opencl_device *device, struct attune_opencl_block *block, void *data) {
    const struct attune_opencl_api *api = device->api;
    if (block->mapped == NULL) {
        api->SVMFree(device->context, data);
    } else {
        (void)api->EnqueueUnmapMemObject(device->queue, block->mapped, data, 0, NULL, NULL);
        (void)api->Flush(device->queue);
        (void)api->ReleaseMemObject(block->mapped);
    }
    attune_opencl_host->free(block);
}

/* ---- Allocation ---- */

attune_status attune_opencl_memory_alloc(void *handle, attune_memory kind, uint64_t bytes, void **out_data) {
    struct attune_opencl_device *device = handle;
    cl_mem memory = NULL;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    switch (kind) {
    case ATTUNE_MEMORY_DEFAULT:
    case ATTUNE_MEMORY_DEVICE:
        status = create_object(device, CL_MEM_READ_WRITE, bytes, &memory);
        *out_data = memory;
        return status;
    case ATTUNE_MEMORY_SVM:
    case ATTUNE_MEMORY_PINNED:
        return alloc_block(device, kind, bytes, out_data);
    default:
        return attune_opencl_host->fail(ATTUNE_UNSUPPORTED, "memory kind %d; there is device, svm and pinned memory",
                                        (int)kind);
    }
}

void attune_opencl_memory_free(void *handle, void *data) {
    struct attune_opencl_device *device = handle;
    if (attune_opencl_api_is_forked(device->api)) {
        return;
    }
    struct attune_opencl_block *block = take_block(device, data);
    if (block != NULL) {
        free_block(device, block, data);
    } else {
        (void)device->api->ReleaseMemObject(data);
    }
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
    const bool to_address = direction == ATTUNE_COPY_DEVICE_TO_HOST || attune_opencl_is_address(device, destination);
    const bool from_address = direction == ATTUNE_COPY_HOST_TO_DEVICE || attune_opencl_is_address(device, source);
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
    if (attune_opencl_is_address(device, data)) {
        status = attune_opencl_check(api->EnqueueSVMMemFill(queue, address(data), &value, 1, bytes, 0, NULL, NULL),
                                     "clEnqueueSVMMemFill");
    } else {
        status = attune_opencl_check(
            api->EnqueueFillBuffer(queue, data.data, &value, 1, data.byte_offset, bytes, 0, NULL, NULL),
            "clEnqueueFillBuffer");
    }
    return status == ATTUNE_OK ? attune_opencl_check(api->Flush(queue), "clFlush") : status;
}
