/*
 * The smallest backend: one device whose memory is the host's, one kernel that knows f32 and nothing else. Copy it to
 * begin a backend; backends/README.md walks through it. The conformance suite runs on it like on any other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attune/backend.h"
#include "attune/backend_util.h"

static const attune_host_services *host;

/* ---- The device ---- */

static attune_status null_enumerate(int32_t index, attune_device_info *out_info) {
    if (index > 0) {
        return ATTUNE_NOT_FOUND;
    }
    strcpy(out_info->name, "null");
    out_info->is_cpu = true;
    return ATTUNE_OK;
}

static attune_status null_device_open(int32_t index, void **out_device) {
    static char device;
    *out_device = &device;
    return index == 0 ? ATTUNE_OK : host->fail(ATTUNE_NOT_FOUND, "null: device %d; there is only device 0", index);
}

static void null_device_close(void *device) {
    (void)device;
}

static attune_status null_device_limits(void *device, attune_device_limits *out_limits) {
    (void)device;
    strcpy(out_limits->architecture, "any");
    out_limits->processors = 1;
    out_limits->alignment_bytes = 16;
    out_limits->is_cpu = true;
    return ATTUNE_OK;
}

/* ---- Memory, streams and events: the host's, and everything happens at once ---- */

static attune_status null_memory_alloc(void *device, attune_memory kind, uint64_t bytes, void **out_data) {
    (void)device;
    if (kind != ATTUNE_MEMORY_DEFAULT && kind != ATTUNE_MEMORY_HOST) {
        return host->fail(ATTUNE_UNSUPPORTED, "null: memory kind %d; there is only host memory", (int)kind);
    }
    *out_data = bytes > SIZE_MAX ? NULL : malloc((size_t)bytes);
    return *out_data != NULL ? ATTUNE_OK
                             : host->fail(ATTUNE_OUT_OF_MEMORY, "null: %llu bytes", (unsigned long long)bytes);
}

static void null_memory_free(void *device, void *data) {
    (void)device;
    free(data);
}

static attune_status null_memory_copy(void *device, void *stream, attune_copy_direction direction,
                                      attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device, (void)stream, (void)direction;
    memcpy(attune_pointer_address(destination), attune_pointer_address(source), (size_t)bytes);
    return ATTUNE_OK;
}

static attune_status null_memory_fill(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value) {
    (void)device, (void)stream;
    memset(attune_pointer_address(data), value, (size_t)bytes);
    return ATTUNE_OK;
}

static attune_status null_memory_range(void *device, const void *data, attune_memory_range *out_range) {
    (void)device;
    *out_range = (attune_memory_range){.space = 0, .offset = (uintptr_t)data, .size_bytes = UINT64_MAX};
    return ATTUNE_OK;
}

static attune_status null_open(void *device, void **out_handle) {
    *out_handle = device;
    return ATTUNE_OK;
}

static void null_close(void *device, void *handle) {
    (void)device, (void)handle;
}

static attune_status null_pass(void *device, void *stream) {
    (void)device, (void)stream;
    return ATTUNE_OK;
}

static attune_status null_event_pass(void *device, void *event, void *stream) {
    (void)device, (void)event, (void)stream;
    return ATTUNE_OK;
}

static attune_status null_event_elapsed(void *device, void *start, void *end, double *out_seconds) {
    (void)device, (void)start, (void)end;
    *out_seconds = 0.0;
    return ATTUNE_OK;
}

/* ---- The kernel ---- */

static void null_forward_row(const attune_problem *p, const attune_bindings *bind, int64_t b, int64_t i, int64_t h) {
    const int64_t kv_head = h / (p->heads_q / p->heads_kv);
    const float *q = attune_element(p, bind, ATTUNE_OPERAND_Q, b, i, h, 0);
    float *o = attune_element(p, bind, ATTUNE_OPERAND_O, b, i, h, 0);
    float max = -INFINITY, sum = 0.0F;
    memset(o, 0, sizeof *o * (size_t)p->head_dim_v);
    for (int64_t j = 0; j < p->keys; j++) {
        const float *k = attune_element(p, bind, ATTUNE_OPERAND_K, b, j, kv_head, 0);
        const float *v = attune_element(p, bind, ATTUNE_OPERAND_V, b, j, kv_head, 0);
        float score = 0.0F;
        for (int64_t d = 0; d < p->head_dim; d++) {
            score += q[d] * k[d];
        }
        score *= (float)bind->scale;
        /* The online softmax: when the maximum moves, what was summed so far is rescaled. */
        const float new_max = fmaxf(max, score);
        const float rescale = max == -INFINITY ? 0.0F : expf(max - new_max);
        const float weight = score == -INFINITY ? 0.0F : expf(score - new_max);
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            o[d] = o[d] * rescale + weight * v[d];
        }
        sum = sum * rescale + weight;
        max = new_max;
    }
    for (int64_t d = 0; sum != 0.0F && d < p->head_dim_v; d++) {
        o[d] /= sum;
    }
}

static attune_status null_execute(void *device, void *plan, void *stream, const attune_bindings *bindings) {
    (void)device, (void)stream;
    const attune_problem *p = plan;
    for (int64_t unit = 0; unit < p->batch * p->heads_q * p->rows; unit++) {
        const int64_t row = unit % p->rows, head = unit / p->rows % p->heads_q;
        null_forward_row(p, bindings, unit / p->rows / p->heads_q, row, head);
    }
    return ATTUNE_OK;
}

static const attune_kernel_row *null_kernels(int32_t *out_count) {
    static const attune_kernel_row rows[] = {{.name = "null_forward",
                                              .op = ATTUNE_OP_FORWARD,
                                              .dtypes = UINT64_C(1) << ATTUNE_DTYPE_F32,
                                              .features = ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_DETERMINISTIC,
                                              .head_dim_max = 256,
                                              .head_dim_v_max = 256,
                                              .head_dim_multiple = 1,
                                              .architecture = "any",
                                              .p_dtype = ATTUNE_DTYPE_F32,
                                              .isa = ""}};
    *out_count = 1;
    return rows;
}

static attune_status null_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    (void)device;
    attune_problem *problem = host->alloc(sizeof *problem);
    if (problem == NULL) {
        return host->fail(ATTUNE_OUT_OF_MEMORY, "null: a plan of %zu bytes", sizeof *problem);
    }
    *problem = *request->problem;
    *out_plan = problem;
    return ATTUNE_OK;
}

static void null_plan_release(void *device, void *plan) {
    (void)device;
    host->free(plan);
}

ATTUNE_API const attune_backend *attune_backend_query(int32_t host_abi_major, const attune_host_services *services);
const attune_backend *attune_backend_query(int32_t host_abi_major, const attune_host_services *services) {
    static const attune_backend backend = {
        ATTUNE_BACKEND_HEADER("null", "the tutorial: f32 forward in plain loops", -1),
        .enumerate = null_enumerate,
        .device_open = null_device_open,
        .device_close = null_device_close,
        .device_limits = null_device_limits,
        .memory_alloc = null_memory_alloc,
        .memory_free = null_memory_free,
        .memory_copy = null_memory_copy,
        .memory_fill = null_memory_fill,
        .memory_range = null_memory_range,
        .stream_open = null_open,
        .stream_close = null_close,
        .stream_sync = null_pass,
        .event_open = null_open,
        .event_close = null_close,
        .event_record = null_event_pass,
        .event_wait = null_event_pass,
        .event_elapsed = null_event_elapsed,
        .kernels = null_kernels,
        .plan_build = null_plan_build,
        .plan_release = null_plan_release,
        .execute = null_execute,
    };
    host = services;
    return host_abi_major == ATTUNE_BACKEND_ABI_MAJOR ? &backend : NULL;
}
