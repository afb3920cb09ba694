/*
 * Memory is the host's, and every copy is done when the call returns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/cpu.h"

static void *last_word(void *data) {
    return (char *)data - sizeof(void *);
}

/* What core's allocator gave is kept in the word before the aligned address. */
attune_status attune_cpu_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    (void)device;
    const uint64_t extra = ATTUNE_CPU_ALIGNMENT_BYTES + sizeof(void *);
    if (kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_HOST) {
        return attune_cpu_host->fail(ATTUNE_UNSUPPORTED, "memory kind %d; there is only host memory (%d)", (int)kind,
                                     (int)ATTUNE_MEMORY_HOST);
    }
    void *base = bytes > SIZE_MAX - extra ? NULL : attune_cpu_host->alloc((size_t)(bytes + extra));
    if (base == NULL) {
        return attune_cpu_host->fail(ATTUNE_OUT_OF_MEMORY, "%llu bytes of memory", (unsigned long long)bytes);
    }
    const uintptr_t first = (uintptr_t)base + sizeof(void *);
    const uintptr_t aligned = (first + ATTUNE_CPU_ALIGNMENT_BYTES - 1) & ~(uintptr_t)(ATTUNE_CPU_ALIGNMENT_BYTES - 1);
    *out_data = (char *)base + (aligned - (uintptr_t)base);
    memcpy(last_word(*out_data), &base, sizeof base);
    return ATTUNE_OK;
}

void attune_cpu_memory_free(void *device, void *data) {
    (void)device;
    if (data != NULL) {
        void *base = NULL;
        memcpy(&base, last_word(data), sizeof base);
        attune_cpu_host->free(base);
    }
}

attune_status attune_cpu_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                     attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device, (void)stream, (void)direction;
    if (bytes > 0) {
        memcpy(attune_pointer_address(destination), attune_pointer_address(source), (size_t)bytes);
    }
    return ATTUNE_OK;
}

attune_status attune_cpu_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value) {
    (void)device, (void)stream;
    if (bytes > 0) {
        memset(attune_pointer_address(data), value, (size_t)bytes);
    }
    return ATTUNE_OK;
}

/* One space, in which offsets are addresses: whoever allocated it, its end is unknown. */
attune_status attune_cpu_memory_range(void *device, const void *data, attune_memory_range *out_range) {
    (void)device;
    *out_range = (attune_memory_range){.space = 0, .offset = (uintptr_t)data, .size_bytes = UINT64_MAX};
    return ATTUNE_OK;
}
