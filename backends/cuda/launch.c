/*
 * Code objects, plans and launches.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "backends/cuda/kernel.h"

/* The sentence of an image that is refused names what it holds and what it met. */
static attune_status load_module(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                 CUmodule *out_module) {
    const struct attune_cuda_kernel *kernel = row->kernel;
    char what[ATTUNE_REASON_MAX];
    snprintf(what, sizeof what, "%s, compiled for sm_%d to sm_%d by CUDA %d.%d, on an sm_%d: cuModuleLoadData",
             row->name, kernel->compute_capability_min, kernel->compute_capability_max, CUDA_VERSION / 1000,
             CUDA_VERSION % 1000 / 10, device->compute_capability);
    return attune_cuda_check(device->api, device->api->ModuleLoadData(out_module, kernel->image), what);
}

/* Raises the limit of dynamic shared memory to all that the device has, once: a later plan that needs more than an
 * earlier one then needs no change, and no plan can lower the limit under another's feet. */
static attune_status raise_shared_memory(const struct attune_cuda_device *device, CUfunction function) {
    const struct attune_cuda_api *api = device->api;
    int static_bytes = 0;
    const attune_status status = attune_cuda_check(
        api, api->FuncGetAttribute(&static_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function), "cuFuncGetAttribute");
    return status != ATTUNE_OK
               ? status
               : attune_cuda_check(api,
                                   api->FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                         device->shared_memory_bytes - static_bytes),
                                   "cuFuncSetAttribute");
}

static attune_status get_beside(const struct attune_cuda_device *device, const struct attune_cuda_kernel *kernel,
                                struct attune_cuda_function *loaded) {
    const struct attune_cuda_api *api = device->api;
    attune_status status = ATTUNE_OK;
    for (int i = 0; status == ATTUNE_OK && i < ATTUNE_CUDA_BESIDE_MAX && kernel->family->beside[i] != NULL; i++) {
        char symbol[ATTUNE_REASON_MAX];
        snprintf(symbol, sizeof symbol, "%s%s", kernel->symbol, kernel->family->beside[i]);
        status = attune_cuda_check(api, api->ModuleGetFunction(&loaded->beside[i], loaded->module, symbol), symbol);
    }
    return status;
}

static attune_status load(const struct attune_cuda_device *device, const attune_kernel_row *row,
                          struct attune_cuda_function *out_loaded) {
    const struct attune_cuda_api *api = device->api;
    const struct attune_cuda_kernel *kernel = row->kernel;
    struct attune_cuda_function loaded = {.module = NULL};
    attune_status status = load_module(device, row, &loaded.module);
    if (status != ATTUNE_OK) {
        return status;
    }
    status =
        attune_cuda_check(api, api->ModuleGetFunction(&loaded.function, loaded.module, kernel->symbol), kernel->symbol);
    if (status == ATTUNE_OK) {
        status = raise_shared_memory(device, loaded.function);
    }
    if (status == ATTUNE_OK) {
        status = get_beside(device, kernel, &loaded);
    }
    if (status != ATTUNE_OK) {
        (void)api->ModuleUnload(loaded.module);
        return status;
    }
    *out_loaded = loaded;
    return ATTUNE_OK;
}

attune_status attune_cuda_function_get(struct attune_cuda_device *device, int32_t row,
                                       struct attune_cuda_function *out_loaded) {
    int32_t count = 0;
    const attune_kernel_row *rows = attune_cuda_kernels(&count);
    struct attune_cuda_function *loaded = &device->functions[row];
    (void)pthread_mutex_lock(&device->functions_lock);
    const attune_status status = loaded->module == NULL ? load(device, &rows[row], loaded) : ATTUNE_OK;
    if (status == ATTUNE_OK) {
        *out_loaded = *loaded;
    }
    (void)pthread_mutex_unlock(&device->functions_lock);
    return status;
}

void attune_cuda_functions_release(struct attune_cuda_device *device) {
    for (int32_t row = 0; row < ATTUNE_CUDA_ROWS; row++) {
        if (device->functions[row].module != NULL) {
            (void)device->api->ModuleUnload(device->functions[row].module);
        }
    }
}

static attune_status load_functions(struct attune_cuda_device *device, const attune_plan_request *request,
                                    struct attune_cuda_plan *plan) {
    attune_status status = attune_cuda_function_get(device, request->row, &plan->loaded);
    const bool merges = request->schedule.splits > 1 && (plan->row->features & ATTUNE_FEATURE_SPLITS) != 0;
    if (status == ATTUNE_OK && merges) {
        struct attune_cuda_function merge = {.module = NULL};
        status = attune_cuda_function_get(device, ATTUNE_CUDA_ROW_sm80_merge, &merge);
        plan->merge_splits = merge.beside[0];
    }
    return status;
}

attune_status attune_cuda_plan_build(void *handle, const attune_plan_request *request, void **out_plan) {
    struct attune_cuda_device *device = handle;
    int32_t count = 0;
    const attune_kernel_row *row = &attune_cuda_kernels(&count)[request->row];
    struct attune_cuda_plan *plan = attune_cuda_host->alloc(sizeof *plan);
    if (plan == NULL) {
        return attune_cuda_host->fail(ATTUNE_OUT_OF_MEMORY, "a plan of %zu bytes", sizeof *plan);
    }
    plan->device = device;
    plan->row = row;
    plan->kernel = row->kernel;
    plan->problem = *request->problem;
    plan->schedule = request->schedule;
    plan->workspace = request->workspace;
    plan->cluster = 1;
    plan->threads = (unsigned)row->threads;
    plan->kernel->family->prepare(plan);

    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = load_functions(device, request, plan);
        attune_cuda_leave(device);
    }
    if (status != ATTUNE_OK) {
        attune_cuda_host->free(plan);
        return status;
    }
    *out_plan = plan;
    return ATTUNE_OK;
}

void attune_cuda_plan_release(void *device, void *plan) {
    (void)device;
    attune_cuda_host->free(plan);
}

attune_status attune_cuda_execute(void *handle, void *plan_handle, void *stream, const attune_bindings *bindings) {
    const struct attune_cuda_device *device = handle;
    const struct attune_cuda_plan *plan = plan_handle;
    attune_status status = attune_cuda_enter(device);
    if (status == ATTUNE_OK) {
        status = plan->kernel->family->launch(plan, attune_cuda_stream_of(stream), bindings);
        attune_cuda_leave(device);
    }
    return status;
}

attune_cuda_operand attune_cuda_operand_bind(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                                             attune_operand which) {
    const attune_layout *layout = &plan->problem.operand[which];
    attune_cuda_operand made = {.data = NULL};
    if (layout->dtype != ATTUNE_DTYPE_NONE) {
        made.data = (char *)bindings->operand[which].data + bindings->operand[which].byte_offset;
        for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
            made.stride[axis] = layout->stride[axis];
        }
    }
    return made;
}

attune_status attune_cuda_launch_grid(const struct attune_cuda_device *device, const struct attune_cuda_grid *grid,
                                      CUstream stream, void *parameters) {
    const struct attune_cuda_api *api = device->api;
    if (grid->blocks == 0) {
        return ATTUNE_OK;
    }
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (grid->waits_itself && device->launches_overlap) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (grid->cluster > 1) {
        attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
        attributes[count].value.clusterDim.x = grid->cluster;
        attributes[count].value.clusterDim.y = 1;
        attributes[count++].value.clusterDim.z = 1;
    }
    const CUlaunchConfig config = {
        .gridDimX = grid->blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = grid->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = grid->shared_bytes,
        .hStream = stream,
        .attrs = attributes,
        .numAttrs = count,
    };
    return attune_cuda_check(api, api->LaunchKernelEx(&config, grid->function, (void *[]){parameters}, NULL),
                             grid->symbol);
}

attune_status attune_cuda_launch(const struct attune_cuda_plan *plan, CUstream stream, void *parameters) {
    const struct attune_cuda_grid grid = {.function = plan->loaded.function,
                                          .symbol = plan->kernel->symbol,
                                          .blocks = plan->blocks,
                                          .threads = plan->threads,
                                          .shared_bytes = plan->shared_bytes,
                                          .cluster = plan->cluster};
    return attune_cuda_launch_grid(plan->device, &grid, stream, parameters);
}

attune_status attune_cuda_launch_beside(const struct attune_cuda_plan *plan, int which, unsigned blocks,
                                        unsigned threads, CUstream stream, void *parameters) {
    const struct attune_cuda_grid grid = {
        .function = plan->loaded.beside[which], .symbol = plan->kernel->symbol, .blocks = blocks, .threads = threads};
    return attune_cuda_launch_grid(plan->device, &grid, stream, parameters);
}
