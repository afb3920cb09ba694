/*
 * What the files of the CPU backend share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CPU_H
#define ATTUNE_CPU_H

#include "attune/backend.h"
#include "backends/cpu/kernel.h"

/* What core lent; set by the query function before anything else runs. */
extern const attune_host_services *attune_cpu_host;

struct attune_cpu_device {
    struct attune_cpu_team team;
    int32_t family; /* ATTUNE_CPU_ISA: rows of a higher one do not run. See launch.c */
};

/* ---- device.c ---- */

attune_status attune_cpu_enumerate(int32_t index, attune_device_info *out_info);
attune_status attune_cpu_device_open(int32_t index, void **out_device);
void attune_cpu_device_close(void *device);
attune_status attune_cpu_device_limits(void *device, attune_device_limits *out_limits);

/* ---- memory.c ---- */

attune_status attune_cpu_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data);
void attune_cpu_memory_free(void *device, void *data);
attune_status attune_cpu_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                     attune_pointer destination, attune_pointer source, uint64_t bytes);
attune_status attune_cpu_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);
attune_status attune_cpu_memory_range(void *device, const void *data, attune_memory_range *out_range);

#define ATTUNE_CPU_ALIGNMENT_BYTES 256 /* of what memory_alloc gives: that of a workspace */

/* ---- stream.c ---- */

attune_status attune_cpu_stream_open(void *device, void **out_stream);
void attune_cpu_stream_close(void *device, void *stream);
attune_status attune_cpu_stream_sync(void *device, void *stream);
attune_status attune_cpu_event_open(void *device, void **out_event);
void attune_cpu_event_close(void *device, void *event);
attune_status attune_cpu_event_record(void *device, void *event, void *stream);
attune_status attune_cpu_event_wait(void *device, void *event, void *stream);
attune_status attune_cpu_event_elapsed(void *device, void *start, void *end, double *out_seconds);

/* ---- launch.c ---- */

/* The number of the family that ATTUNE_CPU_ISA names, or of the highest if it is unset. INVALID_ARGUMENT for a name
 * that this build has no kernels for. */
attune_status attune_cpu_family_choose(int32_t *out_family);
bool attune_cpu_row_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]);
uint64_t attune_cpu_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                    const attune_schedule *schedule);
attune_status attune_cpu_plan_build(void *device, const attune_plan_request *request, void **out_plan);
void attune_cpu_plan_release(void *device, void *plan);
attune_status attune_cpu_execute(void *device, void *plan, void *stream, const attune_bindings *bindings);

#endif
