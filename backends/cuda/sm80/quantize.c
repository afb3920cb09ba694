/*
 * The host's side of quantize.cu.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/quantize.h"

#include <limits.h>

#include "attune/backend_util.h"
#include "backends/cuda/kernel.h"

static uint64_t workspace_bytes(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    const int64_t descales = attune_layout_elements(&problem->operand[ATTUNE_OPERAND_DESCALE]);
    return problem->descale_given ? 0 : sizeof(float) * (uint64_t)descales;
}

static void prepare(struct attune_cuda_plan *plan) {
    const int64_t *shape = plan->problem.operand[ATTUNE_OPERAND_X].shape;
    const int64_t blocks = attune_ceil_div(shape[0] * shape[1] * shape[2], ATTUNE_CUDA_QUANTIZE_WARPS);
    /* Descales are written even if they serve nothing. */
    plan->blocks = (unsigned)attune_min(attune_max(blocks, plan->problem.descale_given ? 0 : 1), INT_MAX);
}

/* An axis of 1 serves all. */
static attune_cuda_operand largest_at(CUdeviceptr data, const int64_t shape[ATTUNE_RANK_MAX]) {
    return (attune_cuda_operand){
        .data = (void *)(uintptr_t)data,
        .stride = {shape[0] == 1 ? 0 : shape[1] * shape[2], shape[1] == 1 ? 0 : shape[2], shape[2] == 1 ? 0 : 1, 0},
    };
}

static attune_status measure(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings,
                             attune_cuda_quantize_params *params) {
    const struct attune_cuda_api *api = plan->device->api;
    const CUdeviceptr largest =
        (CUdeviceptr)(uintptr_t)bindings->workspace.data + bindings->workspace.byte_offset + plan->workspace.own.offset;
    attune_status status = attune_cuda_check(
        api, api->MemsetD8Async(largest, 0, plan->workspace.own.size_bytes, stream), "cuMemsetD8Async");
    if (status != ATTUNE_OK) {
        return status;
    }
    params->largest = largest_at(largest, plan->problem.operand[ATTUNE_OPERAND_DESCALE].shape);
    params->is_measure = 1;
    status = attune_cuda_launch(plan, stream, params);
    params->is_measure = 0;
    return status;
}

static attune_status launch(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings) {
    const attune_layout *x = &plan->problem.operand[ATTUNE_OPERAND_X];
    const int64_t *descales = plan->problem.operand[ATTUNE_OPERAND_DESCALE].shape;
    attune_cuda_quantize_params params = {
        .x = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_X),
        .y = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_Y),
        .descale = attune_cuda_operand_bind(plan, bindings, ATTUNE_OPERAND_DESCALE),
        .batch = x->shape[0],
        .rows = x->shape[1],
        .heads = x->shape[2],
        .descales = {descales[0], descales[1], descales[2]},
        .head_dim = (int32_t)x->shape[3],
        .x_dtype = (int32_t)x->dtype,
    };
    attune_status status = ATTUNE_OK;
    if (plan->workspace.own.size_bytes > 0) {
        status = measure(plan, stream, bindings, &params);
    }
    return status == ATTUNE_OK ? attune_cuda_launch(plan, stream, &params) : status;
}

const struct attune_cuda_family attune_cuda_quantize = {
    .workspace_bytes = workspace_bytes, .prepare = prepare, .launch = launch};
