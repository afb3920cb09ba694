/*
 * The smallest backend: one device, whose memory is the host's and which has no queue, and one kernel: forward in f32.
 * Copy it to begin a backend; backends/README.md walks through it. The conformance suite judges it like any other.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend.h"
#include "attune/backend_util.h"
#include "core/portable/softmax.h"

static const attune_host_services *host;

/* ---- The device. Its memory, streams and events are those that core lends to a table that has none. ---- */

static attune_status null_enumerate(int32_t index, attune_device_info *out_info) {
    if (index > 0) {
        return ATTUNE_NOT_FOUND;
    }
    snprintf(out_info->name, sizeof out_info->name, "null");
    out_info->is_cpu = true;
    return ATTUNE_OK;
}

static attune_status null_device_open(int32_t index, void **out_device) {
    if (index != 0) {
        return host->fail(ATTUNE_NOT_FOUND, "device %d: there is only device 0", (int)index);
    }
    *out_device = NULL; /* a device that needs to remember something allocates it here, with host->alloc */
    return ATTUNE_OK;
}

static attune_status null_device_limits(void *device, attune_device_limits *out_limits) {
    (void)device;
    snprintf(out_limits->architecture, sizeof out_limits->architecture, "any");
    out_limits->processors = 1;
    out_limits->alignment_bytes = ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES;
    out_limits->is_cpu = true;
    return ATTUNE_OK;
}

/* ---- The kernels: a row says what the kernel can do, and is given nothing else. ---- */

static const attune_kernel_row *null_kernels(int32_t *out_count) {
    static const attune_kernel_row row = {
        .name = "null_forward",
        .op = ATTUNE_OP_FORWARD,
        .dtypes = UINT64_C(1) << ATTUNE_DTYPE_F32,
        .features = ATTUNE_FEATURE_GQA | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_DETERMINISTIC,
        .head_dim_max = 256,
        .head_dim_v_max = 256,
        .head_dim_multiple = 1,
        .architecture = "any",
        .p_dtype = ATTUNE_DTYPE_F32,
        .isa = "",
    };
    *out_count = 1;
    return &row;
}

static float null_score(const attune_problem *p, const attune_bindings *bind, const float *q, const float *k) {
    double dot = 0.0;
    for (int64_t d = 0; d < p->head_dim; d++) {
        dot += (double)q[d] * (double)k[d];
    }
    return (float)(bind->scale * dot);
}

static void null_forward_row(const attune_problem *p, const attune_bindings *bind, int64_t b, int64_t h, int64_t i) {
    const int64_t kv_head = h / (p->heads_q / p->heads_kv);
    const float *q = attune_element(p, bind, ATTUNE_OPERAND_Q, b, i, h, 0);
    float *o = attune_element(p, bind, ATTUNE_OPERAND_O, b, i, h, 0);
    attune_softmax state = attune_softmax_empty();
    memset(o, 0, sizeof *o * (size_t)p->head_dim_v);
    for (int64_t j = 0; j < p->keys; j++) {
        const float *k = attune_element(p, bind, ATTUNE_OPERAND_K, b, j, kv_head, 0);
        const float *v = attune_element(p, bind, ATTUNE_OPERAND_V, b, j, kv_head, 0);
        const float score = null_score(p, bind, q, k);
        const float factor = attune_softmax_raise(&state, score);
        const float weight = attune_softmax_weight(score, attune_softmax_base(state.max));
        for (int64_t d = 0; d < p->head_dim_v; d++) {
            o[d] = o[d] * factor + weight * v[d];
        }
        state.sum += weight;
    }
    const attune_softmax_result result = attune_softmax_finish(state);
    for (int64_t d = 0; d < p->head_dim_v; d++) {
        o[d] *= result.inverse;
    }
    if (attune_problem_has(p, ATTUNE_OPERAND_LSE)) {
        *(float *)attune_element(p, bind, ATTUNE_OPERAND_LSE, b, h, i, 0) = result.lse;
    }
}

/* ---- Plans: what is fixed is kept when one is built, what changes comes when it is executed. ---- */

static attune_status null_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    (void)device;
    attune_problem *problem = host->alloc(sizeof *problem);
    if (problem == NULL) {
        return host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *problem);
    }
    *problem = *request->problem;
    *out_plan = problem;
    return ATTUNE_OK;
}

static void null_plan_release(void *device, void *plan) {
    (void)device;
    host->free(plan);
}

static attune_status null_execute(void *device, void *plan, void *stream, const attune_bindings *bindings) {
    (void)device, (void)stream;
    const attune_problem *p = plan;
    for (int64_t unit = 0; unit < p->batch * p->heads_q * p->rows; unit++) {
        const int64_t head = unit / p->rows;
        null_forward_row(p, bindings, head / p->heads_q, head % p->heads_q, unit % p->rows);
    }
    return ATTUNE_OK;
}

/* ---- The table ---- */

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *services) {
    static const attune_backend backend = {
        ATTUNE_BACKEND_HEADER("null", "the smallest backend: forward in f32, by plain loops", -1),
        .enumerate = null_enumerate,
        .device_open = null_device_open,
        .device_limits = null_device_limits,
        .kernels = null_kernels,
        .plan_build = null_plan_build,
        .plan_release = null_plan_release,
        .execute = null_execute,
    };
    host = services;
    return attune_host_fits(host, host_abi_major) ? &backend : NULL;
}
