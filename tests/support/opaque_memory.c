/*
 * Memory behind handles. A handle is a number below 65536, where no system maps memory, so that a handle that is
 * looked into faults; the order of handles tells nothing, and a handle that was freed is not soon given again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/opaque.h"

#define HANDLE_COUNT 65536
#define HANDLE_FIRST 4096 /* those below are what a null pointer and a small offset would be */

#define SPOILED_BYTES_MAX (UINT64_C(1) << 30)

struct allocation {
    int32_t device;
    int32_t uses; /* commands that hold it */
    bool is_freed;
    uint64_t bytes;
    char *host;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static struct allocation *allocations[HANDLE_COUNT];
static uint64_t used_bytes[OPAQUE_DEVICE_COUNT];
static uint32_t last_handle;

_Thread_local int32_t opaque_captures_of_thread;

/* ---- Handles; the mutex is held ---- */

static struct allocation *find(const void *data) {
    const uintptr_t handle = (uintptr_t)data;
    return handle < HANDLE_COUNT ? allocations[handle] : NULL;
}

static struct allocation *find_live(int32_t device, const void *data) {
    struct allocation *allocation = find(data);
    return allocation != NULL && !allocation->is_freed && allocation->device == device ? allocation : NULL;
}

/* Every number below 65536 once before any comes again: a generator of full period. Source: Hull and Dobell, Random
 * number generators (SIAM Review 4, 1962), theorem 1. */
static uint32_t next_number(uint32_t number) {
    return (number * 25173 + 13849) % HANDLE_COUNT;
}

/* 0: there is none left. */
static uint32_t take_handle(void) {
    uint32_t handle = last_handle;
    for (int32_t tried = 0; tried < HANDLE_COUNT; tried++) {
        handle = next_number(handle);
        if (handle >= HANDLE_FIRST && allocations[handle] == NULL) {
            last_handle = handle;
            return handle;
        }
    }
    return 0;
}

static attune_status enter(struct allocation *allocation, void **out_data) {
    const uint64_t left = OPAQUE_MEMORY_BYTES - used_bytes[allocation->device];
    const uint32_t handle = allocation->bytes <= left ? take_handle() : 0;
    if (handle == 0) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no room for %" PRIu64 " bytes: %" PRIu64 " are left",
                                 allocation->bytes, left);
    }
    allocations[handle] = allocation;
    used_bytes[allocation->device] += allocation->bytes;
    *out_data = (void *)(uintptr_t)handle;
    return ATTUNE_OK;
}

/* ---- Allocations ---- */

static void free_allocation(struct allocation *allocation) {
    if (allocation != NULL) {
        free(allocation->host);
        opaque_host->free(allocation);
    }
}

/* Not rounded up, so that a sanitizer sees the end. Filled with what is NaN in every floating-point format, unless that
 * would take much of the host's memory for what a test may never touch. */
static struct allocation *make_allocation(int32_t device, uint64_t bytes) {
    void *host = NULL;
    struct allocation *allocation = opaque_host->alloc(sizeof *allocation);
    if (allocation == NULL || bytes > OPAQUE_MEMORY_BYTES ||
        posix_memalign(&host, OPAQUE_ALIGNMENT_BYTES, (size_t)bytes) != 0) {
        opaque_host->free(allocation);
        return NULL;
    }
    if (bytes <= SPOILED_BYTES_MAX) {
        memset(host, 0xFF, (size_t)bytes);
    }
    allocation->device = device;
    allocation->bytes = bytes;
    allocation->host = host;
    return allocation;
}

attune_status opaque_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    const struct opaque_device *opened = device;
    attune_status status = opaque_device_check(opened);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_DEVICE) {
        return opaque_host->fail(ATTUNE_UNSUPPORTED, "kind = %d: there is only device memory, %d", (int)kind,
                                 (int)ATTUNE_MEMORY_DEVICE);
    }
    if (opaque_captures_of_thread > 0) {
        return opaque_host->fail(ATTUNE_INTERNAL, "memory is allocated by a thread that captures a stream");
    }
    struct allocation *allocation = make_allocation(opened->index, bytes);
    if (allocation == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
    }
    pthread_mutex_lock(&mutex);
    status = enter(allocation, out_data);
    pthread_mutex_unlock(&mutex);
    if (status != ATTUNE_OK) {
        free_allocation(allocation);
    }
    return status;
}

/* Takes an allocation out of the table, if it is freed and no command holds it; the mutex is held. */
static struct allocation *remove_if_over(const void *data) {
    struct allocation *allocation = find(data);
    if (!allocation->is_freed || allocation->uses > 0) {
        return NULL;
    }
    allocations[(uintptr_t)data] = NULL;
    used_bytes[allocation->device] -= allocation->bytes;
    return allocation;
}

void opaque_memory_free(void *device, void *data) {
    struct opaque_device *opened = device;
    struct allocation *removed = NULL;
    if (opaque_process_is_fork()) {
        return;
    }
    pthread_mutex_lock(&mutex);
    struct allocation *allocation = find_live(opened->index, data);
    if (allocation == NULL) {
        atomic_store(&opened->fault, OPAQUE_FREED_UNKNOWN);
    } else {
        if (allocation->uses > 0) {
            atomic_store(&opened->fault, OPAQUE_FREED_IN_USE);
        }
        allocation->is_freed = true;
        removed = remove_if_over(data);
    }
    pthread_mutex_unlock(&mutex);
    free_allocation(removed);
}

attune_status opaque_memory_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)kind;
    const struct opaque_device *opened = device;
    attune_status status = opaque_device_check(opened);
    if (status != ATTUNE_OK) {
        return status;
    }
    pthread_mutex_lock(&mutex);
    const struct allocation *allocation = find_live(opened->index, data);
    if (allocation != NULL) {
        *out_range = (attune_memory_range){.space = (uintptr_t)data, .offset = 0, .size_bytes = allocation->bytes};
    }
    pthread_mutex_unlock(&mutex);
    return allocation != NULL
               ? ATTUNE_OK
               : opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is no memory of device %d", data, (int)opened->index);
}

/* ---- What commands use ---- */

static attune_status check_place(const struct opaque_place *place) {
    const struct allocation *allocation = find_live(place->device, place->pointer.data);
    if (allocation == NULL) {
        return opaque_host->fail(ATTUNE_INTERNAL, "%p is no memory of device %d", place->pointer.data,
                                 (int)place->device);
    }
    if (place->pointer.byte_offset > allocation->bytes ||
        place->bytes > allocation->bytes - place->pointer.byte_offset) {
        return opaque_host->fail(ATTUNE_INTERNAL,
                                 "%" PRIu64 " bytes at %" PRIu64 " are outside of the %" PRIu64 " of memory %p",
                                 place->bytes, place->pointer.byte_offset, allocation->bytes, place->pointer.data);
    }
    return ATTUNE_OK;
}

attune_status opaque_memory_hold(const struct opaque_place *places, int32_t count) {
    attune_status status = ATTUNE_OK;
    pthread_mutex_lock(&mutex);
    for (int32_t index = 0; index < count && status == ATTUNE_OK; index++) {
        status = check_place(&places[index]);
    }
    for (int32_t index = 0; index < count && status == ATTUNE_OK; index++) {
        find(places[index].pointer.data)->uses++;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

static void let_go(const struct opaque_place *place) {
    pthread_mutex_lock(&mutex);
    find(place->pointer.data)->uses--;
    struct allocation *removed = remove_if_over(place->pointer.data);
    pthread_mutex_unlock(&mutex);
    free_allocation(removed);
}

void opaque_memory_let_go(const struct opaque_place *places, int32_t count) {
    for (int32_t index = 0; index < count; index++) {
        let_go(&places[index]);
    }
}

void *opaque_memory_address(attune_pointer pointer) {
    pthread_mutex_lock(&mutex);
    char *host = find(pointer.data)->host;
    pthread_mutex_unlock(&mutex);
    return host + pointer.byte_offset;
}
