/*
 * Devices, and the two ways to lose one: a fork, and memory freed too early.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* getpid */
#include <stdio.h>
#include <unistd.h>

#include "tests/support/opaque.h"

/* ---- The process ---- */

static _Atomic pid_t owner; /* the process that uses the devices; 0: none yet */

bool opaque_process_is_fork(void) {
    const pid_t process = atomic_load(&owner);
    return process != 0 && process != getpid();
}

static attune_status check_process(void) {
    return opaque_process_is_fork()
               ? opaque_host->fail(ATTUNE_DEVICE_LOST, "this process is a fork of the one that opened the device")
               : ATTUNE_OK;
}

attune_status opaque_process_claim(void) {
    pid_t none = 0;
    (void)atomic_compare_exchange_strong(&owner, &none, getpid());
    return check_process();
}

attune_status opaque_device_check(const struct opaque_device *device) {
    static const char *const faults[] = {
        [OPAQUE_FREED_IN_USE] = "memory was freed that queued work uses",
        [OPAQUE_FREED_UNKNOWN] = "memory was freed that is none of the device",
    };
    const int fault = atomic_load(&device->fault);
    return fault == OPAQUE_NO_FAULT ? check_process() : opaque_host->fail(ATTUNE_DEVICE_LOST, "%s", faults[fault]);
}

/* ---- The table's entries ---- */

attune_status opaque_enumerate(int32_t index, attune_device_info *out_info) {
    if (index >= OPAQUE_DEVICE_COUNT) {
        return ATTUNE_NOT_FOUND;
    }
    snprintf(out_info->name, sizeof out_info->name, "Handles %d", (int)index);
    out_info->is_emulation = true;
    out_info->memory_bytes = OPAQUE_MEMORY_BYTES;
    return ATTUNE_OK;
}

attune_status opaque_device_open(int32_t index, void **out_device) {
    attune_status status = opaque_process_claim();
    if (status != ATTUNE_OK) {
        return status;
    }
    if (index < 0 || index >= OPAQUE_DEVICE_COUNT) {
        return opaque_host->fail(ATTUNE_NOT_FOUND, "device %d: there are %d", (int)index, OPAQUE_DEVICE_COUNT);
    }
    struct opaque_device *device = opaque_host->alloc(sizeof *device);
    if (device == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for a device");
    }
    device->index = index;
    status = opaque_queue_open(index, false, &device->queue);
    if (status != ATTUNE_OK) {
        opaque_host->free(device);
        return status;
    }
    *out_device = device;
    return ATTUNE_OK;
}

attune_status opaque_device_wrap(void *native, int32_t *out_index, void **out_device) {
    const int32_t index = *(const int32_t *)native;
    if (index < 0 || index >= OPAQUE_DEVICE_COUNT) {
        return opaque_host->fail(ATTUNE_INVALID_ARGUMENT, "native is the index %d: there are %d devices", (int)index,
                                 OPAQUE_DEVICE_COUNT);
    }
    *out_index = index;
    return opaque_device_open(index, out_device);
}

/* A fork has neither the worker nor its mutex in a known state: there all is left as it is. */
void opaque_device_close(void *device) {
    if (!opaque_process_is_fork()) {
        struct opaque_device *opened = device;
        opaque_queue_close(opened->queue);
        opaque_host->free(opened);
    }
}

attune_status opaque_device_limits(void *device, attune_device_limits *out_limits) {
    (void)device;
    snprintf(out_limits->architecture, sizeof out_limits->architecture, "any");
    out_limits->processors = 1;
    out_limits->memory_bytes = (int64_t)OPAQUE_MEMORY_BYTES;
    out_limits->alignment_bytes = OPAQUE_ALIGNMENT_BYTES;
    out_limits->is_emulation = true;
    return ATTUNE_OK;
}
