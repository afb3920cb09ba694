/*
 * Plans and launches.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "attune/backend_util.h"
#include "backends/opencl/kernel.h"

/* ---- Plans ---- */

static attune_status ask_kernel(const struct attune_opencl_device *device, cl_kernel kernel,
                                cl_kernel_work_group_info fact, size_t *out_size) {
    return attune_opencl_check(
        device->api->GetKernelWorkGroupInfo(kernel, device->device, fact, sizeof *out_size, out_size, NULL),
        "clGetKernelWorkGroupInfo");
}

/* Whether the kernel as it was compiled can be launched as the step wants it. Rusticl (of Mesa 22.3) gives the multiple
 * of good sizes as the largest one. */
static attune_status check_step(const struct attune_opencl_plan *plan, int32_t index, cl_kernel kernel) {
    const struct attune_opencl_step *step = &plan->step[index];
    const size_t wanted = step->local[0] * step->local[1] * step->local[2];
    size_t most = 0;
    size_t multiple = 0;
    attune_status status = ask_kernel(plan->device, kernel, CL_KERNEL_WORK_GROUP_SIZE, &most);
    if (status == ATTUNE_OK) {
        status = ask_kernel(plan->device, kernel, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, &multiple);
    }
    return status != ATTUNE_OK || wanted <= most || most == multiple
               ? status
               : attune_opencl_host->fail(ATTUNE_UNSUPPORTED,
                                          "%s wants work-groups of %zu work-items, %s runs it with %zu at most",
                                          step->symbol, wanted, plan->device->name, most);
}

static attune_status make_kernels(struct attune_opencl_plan *plan, cl_program program) {
    for (int32_t index = 0; index < plan->step_count; index++) {
        cl_int result = CL_SUCCESS;
        plan->kernel[index] = plan->device->api->CreateKernel(program, plan->step[index].symbol, &result);
        attune_status status = attune_opencl_check(result, plan->step[index].symbol);
        if (status == ATTUNE_OK) {
            status = check_step(plan, index, plan->kernel[index]);
        } else {
            plan->kernel[index] = NULL;
        }
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

static attune_status make_constants(struct attune_opencl_plan *plan) {
    cl_int result = CL_SUCCESS;
    if (plan->constants_bytes > 0) {
        plan->constants_memory =
            plan->device->api->CreateBuffer(plan->device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                                            plan->constants_bytes, plan->constants.bytes, &result);
    }
    return attune_opencl_check(result, "clCreateBuffer");
}

static attune_status fill_plan(struct attune_opencl_plan *plan) {
    const struct attune_opencl_kernel *kernel = plan->row->kernel;
    cl_program program = NULL;
    attune_status status = attune_opencl_enter(plan->device);
    if (status == ATTUNE_OK) {
        status = kernel->family->prepare(plan);
    }
    if (status == ATTUNE_OK) {
        status = attune_opencl_program_get(plan->device, kernel->source, plan->options, &program);
    }
    if (status == ATTUNE_OK) {
        status = make_kernels(plan, program);
    }
    return status == ATTUNE_OK ? make_constants(plan) : status;
}

attune_status attune_opencl_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    int32_t count = 0;
    struct attune_opencl_plan *plan = attune_opencl_host->alloc(sizeof *plan);
    if (plan == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a plan of %zu bytes", sizeof *plan);
    }
    plan->device = device;
    plan->row = &attune_opencl_kernels(&count)[request->row];
    plan->problem = *request->problem;
    plan->schedule = request->schedule;
    plan->workspace = request->workspace;
    (void)pthread_mutex_init(&plan->lock, NULL);
    const attune_status status = fill_plan(plan);
    if (status != ATTUNE_OK) {
        attune_opencl_plan_release(device, plan);
        return status;
    }
    *out_plan = plan;
    return ATTUNE_OK;
}

/* The driver keeps what queued launches need. */
void attune_opencl_plan_release(void *device_handle, void *handle) {
    const struct attune_opencl_device *device = device_handle;
    struct attune_opencl_plan *plan = handle;
    if (!attune_opencl_api_is_forked(device->api)) {
        for (int32_t index = 0; index < plan->step_count; index++) {
            if (plan->kernel[index] != NULL) {
                (void)device->api->ReleaseKernel(plan->kernel[index]);
            }
        }
        if (plan->constants_memory != NULL) {
            (void)device->api->ReleaseMemObject(plan->constants_memory);
        }
    }
    (void)pthread_mutex_destroy(&plan->lock);
    attune_opencl_host->free(plan);
}

/* ---- Arguments ---- */

/* The arguments of one launch as they are set, one after the other; the first error ends them. */
struct arguments {
    struct attune_opencl_plan *plan;
    cl_kernel kernel;
    cl_uint count;
    cl_int result;
};

static void add_value(struct arguments *arguments, size_t bytes, const void *value) {
    if (arguments->result == CL_SUCCESS) {
        arguments->result =
            arguments->plan->device->api->SetKernelArg(arguments->kernel, arguments->count, bytes, value);
    }
    arguments->count++;
}

static void add_memory(struct arguments *arguments, cl_mem memory) {
    add_value(arguments, sizeof(cl_mem), memory == NULL ? NULL : (const void *)&memory);
}

static void add_pointer(struct arguments *arguments, attune_pointer pointer) {
    struct attune_opencl_device *device = arguments->plan->device;
    if (pointer.data == NULL || !attune_opencl_is_address(device, pointer)) {
        add_memory(arguments, pointer.data);
        return;
    }
    if (arguments->result == CL_SUCCESS) {
        arguments->result = device->api->SetKernelArgSVMPointer(arguments->kernel, arguments->count, pointer.data);
    }
    arguments->count++;
}

/* A driver looks at what it is given. Where there are no elements nobody has looked at the caller's pointer yet: it may
 * be anything. */
static const attune_pointer nothing = {.data = NULL};

/* An operand of the step, NULL if the problem has none. */
static attune_pointer operand_of(const struct attune_opencl_plan *plan, const attune_bindings *bindings,
                                 attune_operand operand) {
    return attune_layout_elements(&plan->problem.operand[operand]) == 0 ? nothing : bindings->operand[operand];
}

static attune_pointer part_of(const struct attune_opencl_plan *plan, const attune_pointer *parts, int32_t index) {
    return index < plan->problem.parts ? parts[index] : nothing;
}

static attune_pointer workspace_of(const struct attune_opencl_plan *plan, const attune_bindings *bindings) {
    return plan->workspace.size_bytes == 0 ? nothing : bindings->workspace;
}

static attune_opencl_run make_run(const struct attune_opencl_plan *plan, const struct attune_opencl_step *step,
                                  const attune_bindings *bindings) {
    attune_opencl_run run = {
        .seed = bindings->dropout_seed,
        .dropout_offset = bindings->dropout_offset,
        .scale = attune_f32_saturated(bindings->scale),
        .workspace = (int64_t)workspace_of(plan, bindings).byte_offset,
    };
    for (int32_t index = 0; index < step->operand_count; index++) {
        run.offset[index] = (int64_t)operand_of(plan, bindings, step->operands[index]).byte_offset;
    }
    for (int32_t index = 0; index < step->part_count; index++) {
        const int32_t part = step->part_first + index;
        run.part_o_offset[index] = (int64_t)part_of(plan, bindings->part_o, part).byte_offset;
        run.part_lse_offset[index] = (int64_t)part_of(plan, bindings->part_lse, part).byte_offset;
    }
    return run;
}

static attune_status set_arguments(struct attune_opencl_plan *plan, int32_t index, const attune_bindings *bindings) {
    const struct attune_opencl_step *step = &plan->step[index];
    const attune_opencl_run run = make_run(plan, step, bindings);
    struct arguments arguments = {.plan = plan, .kernel = plan->kernel[index], .result = CL_SUCCESS};
    add_memory(&arguments, plan->constants_memory);
    add_value(&arguments, sizeof run, &run);
    add_pointer(&arguments, workspace_of(plan, bindings));
    for (int32_t operand = 0; operand < step->operand_count; operand++) {
        add_pointer(&arguments, operand_of(plan, bindings, step->operands[operand]));
    }
    for (int32_t part = 0; part < step->part_count; part++) {
        add_pointer(&arguments, part_of(plan, bindings->part_o, step->part_first + part));
    }
    for (int32_t part = 0; part < step->part_count; part++) {
        add_pointer(&arguments, part_of(plan, bindings->part_lse, step->part_first + part));
    }
    if (step->local_bytes > 0) {
        add_value(&arguments, step->local_bytes, NULL);
    }
    return attune_opencl_check(arguments.result, "clSetKernelArg");
}

/* ---- Launches ---- */

static bool is_left_out(const struct attune_opencl_step *step) {
    return step->groups[0] == 0 || step->groups[1] == 0 || step->groups[2] == 0;
}

/* All before the first launch: where the driver refuses one, nothing is written. */
static attune_status set_all_arguments(struct attune_opencl_plan *plan, const attune_bindings *bindings) {
    attune_status status = ATTUNE_OK;
    for (int32_t index = 0; index < plan->step_count && status == ATTUNE_OK; index++) {
        if (!is_left_out(&plan->step[index])) {
            status = set_arguments(plan, index, bindings);
        }
    }
    return status;
}

static attune_status launch(const struct attune_opencl_plan *plan, int32_t index, cl_command_queue queue) {
    const struct attune_opencl_step *step = &plan->step[index];
    size_t global[3];
    for (int axis = 0; axis < 3; axis++) {
        global[axis] = step->groups[axis] * step->local[axis];
    }
    return attune_opencl_check(plan->device->api->EnqueueNDRangeKernel(queue, plan->kernel[index], 3, NULL, global,
                                                                       step->local, 0, NULL, NULL),
                               step->symbol);
}

attune_status attune_opencl_execute(void *handle, void *plan_handle, void *stream, const attune_bindings *bindings) {
    const struct attune_opencl_device *device = handle;
    struct attune_opencl_plan *plan = plan_handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    const cl_command_queue queue = attune_opencl_queue_of(device, stream);
    (void)pthread_mutex_lock(&plan->lock);
    status = set_all_arguments(plan, bindings);
    for (int32_t index = 0; index < plan->step_count && status == ATTUNE_OK; index++) {
        if (!is_left_out(&plan->step[index])) {
            status = launch(plan, index, queue);
        }
    }
    (void)pthread_mutex_unlock(&plan->lock);
    return status == ATTUNE_OK ? attune_opencl_check(device->api->Flush(queue), "clFlush") : status;
}
