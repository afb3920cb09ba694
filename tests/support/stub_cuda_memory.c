/*
 * The stub's memory: host memory behind addresses of which this process has none.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "tests/support/stub_cuda_internal.h"

#define FIRST_ADDRESS  ((CUdeviceptr)1 << 45)
#define ADDRESSES_STEP ((CUdeviceptr)1 << 32)
#define ALIGNMENT      256

struct memory {
    struct memory *next;
    CUdeviceptr address;
    size_t bytes;
    char *host; /* the address itself if it is pinned */
    int device; /* -1: pinned */
};

bool stub_memory_is_reachable;
static struct memory *memories;
static CUdeviceptr next_address = FIRST_ADDRESS;

/* The lock is held. */
static struct memory *find_memory(CUdeviceptr address) {
    struct memory *memory = memories;
    while (memory != NULL && (address < memory->address || address >= memory->address + memory->bytes)) {
        memory = memory->next;
    }
    return memory;
}

/* The host's address of device memory, NULL if it is not all there. */
static char *translate(CUdeviceptr address, size_t bytes) {
    pthread_mutex_lock(&stub_lock);
    const struct memory *memory = find_memory(address);
    const bool fits = memory != NULL && bytes <= memory->address + memory->bytes - address;
    char *host = fits ? memory->host + (address - memory->address) : NULL;
    pthread_mutex_unlock(&stub_lock);
    return host;
}

static struct memory *add_memory(size_t bytes, bool pinned) {
    struct memory *memory = calloc(1, sizeof *memory);
    memory->bytes = bytes;
    memory->host = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    pthread_mutex_lock(&stub_lock);
    memory->device = pinned ? -1 : stub_current()->device;
    memory->address = pinned || stub_memory_is_reachable ? (CUdeviceptr)(uintptr_t)memory->host : next_address;
    next_address += ADDRESSES_STEP;
    memory->next = memories;
    memories = memory;
    stub_cuda.live.memories++;
    pthread_mutex_unlock(&stub_lock);
    return memory;
}

static bool remove_memory(CUdeviceptr address, bool pinned) {
    pthread_mutex_lock(&stub_lock);
    struct memory **link = &memories;
    while (*link != NULL && ((*link)->address != address || ((*link)->device == -1) != pinned)) {
        link = &(*link)->next;
    }
    struct memory *memory = *link;
    if (memory != NULL) {
        *link = memory->next;
        stub_cuda.live.memories--;
    }
    pthread_mutex_unlock(&stub_lock);
    if (memory != NULL) {
        free(memory->host);
    }
    free(memory);
    return memory != NULL;
}

void stub_memory_forget_all(void) {
    while (memories != NULL) {
        (void)remove_memory(memories->address, memories->device == -1);
    }
}

/* ---- The driver ---- */

STUB_EXPORT CUresult CUDAAPI cuMemAlloc(CUdeviceptr *data, size_t bytes) {
    STUB_BEGIN("cuMemAlloc");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(bytes > 0, CUDA_ERROR_INVALID_VALUE);
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    STUB_REQUIRE(bytes <= STUB_MEMORY_BYTES / 4, CUDA_ERROR_OUT_OF_MEMORY);
    *data = add_memory(bytes, false)->address;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuMemFree(CUdeviceptr data) {
    const CUresult result = stub_count_call("cuMemFree");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    STUB_REQUIRE(remove_memory(data, false), CUDA_ERROR_INVALID_VALUE);
    return result;
}

STUB_EXPORT CUresult CUDAAPI cuMemAllocHost(void **data, size_t bytes) {
    STUB_BEGIN("cuMemAllocHost");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    *data = add_memory(bytes, true)->host;
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuMemFreeHost(void *data) {
    const CUresult result = stub_count_call("cuMemFreeHost");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(!stub_breaks_capture(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    STUB_REQUIRE(remove_memory((CUdeviceptr)(uintptr_t)data, true), CUDA_ERROR_INVALID_VALUE);
    return result;
}

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream) {
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(stub_stream_fits(stream), CUDA_ERROR_INVALID_HANDLE);
    STUB_REQUIRE(to != NULL && from != NULL, CUDA_ERROR_INVALID_VALUE);
    memmove(to, from, bytes);
    return CUDA_SUCCESS;
}

STUB_EXPORT CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr destination, const void *source, size_t bytes,
                                               CUstream stream) {
    STUB_BEGIN("cuMemcpyHtoDAsync");
    return copy(translate(destination, bytes), source, bytes, stream);
}

STUB_EXPORT CUresult CUDAAPI cuMemcpyDtoHAsync(void *destination, CUdeviceptr source, size_t bytes, CUstream stream) {
    STUB_BEGIN("cuMemcpyDtoHAsync");
    return copy(destination, translate(source, bytes), bytes, stream);
}

STUB_EXPORT CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr destination, CUdeviceptr source, size_t bytes,
                                               CUstream stream) {
    STUB_BEGIN("cuMemcpyDtoDAsync");
    return copy(translate(destination, bytes), translate(source, bytes), bytes, stream);
}

STUB_EXPORT CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr destination, CUcontext destination_context,
                                               CUdeviceptr source, CUcontext source_context, size_t bytes,
                                               CUstream stream) {
    STUB_BEGIN("cuMemcpyPeerAsync");
    STUB_REQUIRE(destination_context != NULL && source_context != NULL, CUDA_ERROR_INVALID_CONTEXT);
    return copy(translate(destination, bytes), translate(source, bytes), bytes, stream);
}

STUB_EXPORT CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr data, unsigned char value, size_t bytes, CUstream stream) {
    STUB_BEGIN("cuMemsetD8Async");
    STUB_REQUIRE_CONTEXT();
    STUB_REQUIRE(stub_stream_fits(stream), CUDA_ERROR_INVALID_HANDLE);
    char *host = translate(data, bytes);
    STUB_REQUIRE(host != NULL, CUDA_ERROR_INVALID_VALUE);
    memset(host, value, bytes);
    return CUDA_SUCCESS;
}

static void write_attribute(CUpointer_attribute attribute, const struct memory *memory, void *value) {
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = memory == NULL ? 0 : memory->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(unsigned *)value = memory != NULL && memory->device >= 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = memory == NULL ? -2 : memory->device < 0 ? 0 : memory->device;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)value = memory == NULL ? 0 : memory->address;
        break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)value = memory == NULL ? 0 : memory->bytes;
        break;
    default:
        *(unsigned *)value = 0;
    }
}

STUB_EXPORT CUresult CUDAAPI cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes, void **values,
                                                    CUdeviceptr data) {
    STUB_BEGIN("cuPointerGetAttributes");
    STUB_REQUIRE_CONTEXT();
    pthread_mutex_lock(&stub_lock);
    const struct memory *memory = find_memory(data);
    for (unsigned index = 0; index < count; index++) {
        write_attribute(attributes[index], memory, values[index]);
    }
    pthread_mutex_unlock(&stub_lock);
    return CUDA_SUCCESS;
}
