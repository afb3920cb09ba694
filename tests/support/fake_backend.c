/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/fake_backend.h"

#include <stdlib.h>
#include <time.h>

#include "core/host.h"
#include "core/plan_cache.h"
#include "core/schedule.h"
#include "core/status_internal.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/problems.h"
#include "tests/support/stub_backend.h"

struct fake_plan {
    attune_workspace_map workspace;
    atomic_int runs; /* now */
};

static attune_status answer(attune_status status, const char *what) {
    return status == ATTUNE_OK ? ATTUNE_OK : attune_fail(status, "fake: %s", what);
}

/* ---- Memory and streams ---- */

static attune_status fake_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    struct fake *fake = device;
    (void)kind;
    if (fake->alloc_status != ATTUNE_OK) {
        return answer(fake->alloc_status, "memory_alloc");
    }
    atomic_fetch_add(&fake->allocations, 1);
    *out_data = malloc((size_t)bytes);
    return ATTUNE_OK;
}

static void fake_memory_free(void *device, void *data) {
    struct fake *fake = device;
    atomic_fetch_sub(&fake->allocations, 1);
    free(data);
}

static attune_status fake_memory_range(void *device, attune_memory kind, const void *data,
                                       attune_memory_range *out_range) {
    (void)device, (void)kind;
    out_range->space = 0;
    out_range->offset = (uint64_t)(uintptr_t)data;
    out_range->size_bytes = UINT64_MAX;
    return ATTUNE_OK;
}

static attune_status fake_stream_sync(void *device, void *stream) {
    struct fake *fake = device;
    (void)stream;
    atomic_fetch_add(&fake->syncs, 1);
    return ATTUNE_OK;
}

static attune_status fake_capturing(void *device, void *stream, bool *out_capturing) {
    struct fake *fake = device;
    (void)stream;
    *out_capturing = fake->capturing;
    return ATTUNE_OK;
}

static attune_status fake_event_wait(void *device, void *event, void *stream) {
    struct fake *fake = device;
    (void)event;
    (void)stream;
    atomic_fetch_add(&fake->event_waits, 1);
    return ATTUNE_OK;
}

attune_status fake_stream_open(struct fake *fake, attune_stream **out_stream) {
    attune_stream *stream = calloc(1, sizeof *stream);
    stream->device = &fake->device;
    stream->handle = stream;
    *out_stream = stream;
    return ATTUNE_OK;
}

void fake_stream_close(attune_stream *stream) {
    const struct fake *fake = stream->device->handle;
    attune_plan_cache_forget_stream(stream->device->plan_cache, stream, fake->capturing);
    free(stream);
}

/* ---- Kernels ---- */

/* The rows are the same for all devices of a backend: this entry is given none. */
static const struct fake *latest;

static const attune_kernel_row *fake_kernels(int32_t *out_count) {
    *out_count = latest->row_count;
    return latest->rows;
}

static bool tell(const char *reason, char out_reason[ATTUNE_REASON_MAX]) {
    if (reason != NULL) {
        memcpy(out_reason, reason, strlen(reason) + 1);
    }
    return reason == NULL;
}

static bool fake_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]) {
    return tell(((struct fake *)device)->not_runnable[row], reason);
}

static bool fake_accepts(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)problem;
    return tell(((struct fake *)device)->not_accepted[row], reason);
}

static uint64_t fake_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                     const attune_schedule *schedule) {
    (void)row;
    (void)problem;
    (void)schedule;
    return ((struct fake *)device)->own_bytes;
}

static attune_status fake_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    struct fake *fake = device;
    if (fake->build_status != ATTUNE_OK) {
        return answer(fake->build_status, "plan_build");
    }
    struct fake_plan *plan = attune_host_alloc(sizeof *plan);
    if (plan == NULL) {
        return answer(ATTUNE_OUT_OF_MEMORY, "plan_build");
    }
    plan->workspace = request->workspace;
    pthread_mutex_lock(&fake->last_lock);
    fake->last_request = *request;
    fake->last_problem = *request->problem;
    pthread_mutex_unlock(&fake->last_lock);
    atomic_fetch_add(&fake->builds, 1);
    *out_plan = plan;
    return ATTUNE_OK;
}

static void fake_plan_release(void *device, void *handle) {
    struct fake *fake = device;
    struct fake_plan *plan = handle;
    atomic_fetch_add(&fake->faults, atomic_load(&plan->runs) != 0);
    atomic_fetch_add(&fake->releases, 1);
    attune_host_free(plan);
}

static void wait_microseconds(int32_t microseconds) {
    const struct timespec time = {0, microseconds * 1000L};
    nanosleep(&time, NULL);
}

/* Marks all scratch as this run's, and looks after a while whether it still is. */
static void use_scratch(struct fake *fake, const struct fake_plan *plan, attune_pointer workspace) {
    static atomic_uchar marks;
    const unsigned char mark = (unsigned char)(atomic_fetch_add(&marks, 1) + 1);
    if (plan->workspace.size_bytes == 0) {
        return;
    }
    volatile unsigned char *bytes = (unsigned char *)workspace.data + workspace.byte_offset;
    atomic_fetch_add(&fake->faults, (uintptr_t)bytes % ATTUNE_WORKSPACE_ALIGNMENT != 0);
    for (uint64_t i = 0; i < plan->workspace.size_bytes; i++) {
        bytes[i] = mark;
    }
    wait_microseconds(fake->execute_microseconds);
    for (uint64_t i = 0; i < plan->workspace.size_bytes; i++) {
        atomic_fetch_add(&fake->faults, bytes[i] != mark);
    }
}

static attune_status fake_execute(void *device, void *handle, void *stream, const attune_bindings *bindings) {
    struct fake *fake = device;
    struct fake_plan *plan = handle;
    (void)stream;
    if (fake->execute_status != ATTUNE_OK) {
        return answer(fake->execute_status, "execute");
    }
    atomic_fetch_add(&plan->runs, 1);
    use_scratch(fake, plan, bindings->workspace);
    atomic_fetch_sub(&plan->runs, 1);
    pthread_mutex_lock(&fake->last_lock);
    fake->last_bindings = *bindings;
    pthread_mutex_unlock(&fake->last_lock);
    atomic_fetch_add(&fake->executions, 1);
    return ATTUNE_OK;
}

/* ---- The device ---- */

static void fill_device(struct fake *fake) {
    attune_device *device = &fake->device;
    device->backend = &fake->backend;
    device->handle = fake;
    memcpy(device->info.selector, "fake:0", sizeof "fake:0");
    device->limits.struct_size = sizeof device->limits;
    device->limits.processors = 4;
    device->limits.alignment_bytes = 16;
    attune_settings_init(&device->settings);
}

void fake_init(struct fake *fake) {
    memset(fake, 0, sizeof *fake);
    pthread_mutex_init(&fake->last_lock, NULL);
    fake->backend = stub_backend("fake", 0);
    fake->backend.memory_alloc = fake_memory_alloc;
    fake->backend.memory_free = fake_memory_free;
    fake->backend.memory_range = fake_memory_range;
    fake->backend.stream_sync = fake_stream_sync;
    fake->backend.stream_capturing = fake_capturing;
    fake->backend.event_wait = fake_event_wait;
    fake->backend.kernels = fake_kernels;
    fake->backend.row_runnable = fake_runnable;
    fake->backend.row_accepts = fake_accepts;
    fake->backend.workspace_bytes = fake_workspace_bytes;
    fake->backend.plan_build = fake_plan_build;
    fake->backend.plan_release = fake_plan_release;
    fake->backend.execute = fake_execute;
    fake->rows[0] = test_row("fake_forward");
    fake->row_count = 1;
    latest = fake;
    fill_device(fake);
    assert_int_equal(attune_plan_cache_create(&fake->device, &fake->device.plan_cache), ATTUNE_OK);
}

void fake_finish(struct fake *fake) {
    attune_plan_cache_destroy(fake->device.plan_cache);
    pthread_mutex_destroy(&fake->last_lock);
    assert_int_equal(atomic_load(&fake->builds), atomic_load(&fake->releases));
    assert_int_equal(atomic_load(&fake->allocations), 0);
    assert_int_equal(atomic_load(&fake->faults), 0);
}
