/*
 * The stub's programs, which have every kernel that they are asked for, and launches, which compute nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/stub_opencl_internal.h"

#define ARGUMENTS_MAX 64

static const char binary[] = "a program of the stub";

struct _cl_program {
    struct stub_object object;
    size_t count;
    cl_device_id devices[STUB_CONTEXT_DEVICES_MAX];
    cl_device_id built; /* for this one; NULL: not yet */
    bool is_binary;
};

struct _cl_kernel {
    struct stub_object object;
    cl_program program; /* retained */
    pthread_t setter;   /* of the first argument */
    bool is_set[ARGUMENTS_MAX];
};

void stub_program_free(cl_program program) {
    (void)program;
}

void stub_kernel_free(cl_kernel kernel) {
    stub_object_release(kernel->program);
}

/* ---- Programs ---- */

STUB_EXPORT cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                                             const size_t *lengths, cl_int *result) {
    (void)lengths;
    STUB_BEGIN_MAKING("clCreateProgramWithSource", result);
    if (count != 1 || texts[0][0] == '\0' || !stub_object_is(context, STUB_CONTEXT)) {
        *result = CL_INVALID_VALUE;
        return NULL;
    }
    cl_program made = stub_object_make(STUB_PROGRAM, sizeof *made, context);
    made->count = context->count;
    memcpy((void *)made->devices, (const void *)context->devices, sizeof made->devices);
    return made;
}

STUB_EXPORT cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count,
                                                             const cl_device_id *devices, const size_t *lengths,
                                                             const unsigned char **binaries, cl_int *statuses,
                                                             cl_int *result) {
    STUB_BEGIN_MAKING("clCreateProgramWithBinary", result);
    const bool is_right = count == 1 && lengths[0] == sizeof binary && memcmp(binaries[0], binary, sizeof binary) == 0;
    *statuses = is_right && !stub_opencl.refuses_binaries ? CL_SUCCESS : CL_INVALID_BINARY;
    if (*statuses != CL_SUCCESS) {
        *result = CL_INVALID_BINARY;
        return NULL;
    }
    cl_program made = stub_object_make(STUB_PROGRAM, sizeof *made, context);
    made->is_binary = true;
    made->count = 1;
    made->devices[0] = devices[0];
    return made;
}

STUB_EXPORT cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                              const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                              void *data) {
    (void)notify, (void)data;
    STUB_BEGIN("clBuildProgram");
    STUB_REQUIRE(stub_object_is(program, STUB_PROGRAM) && count == 1, CL_INVALID_PROGRAM);
    STUB_REQUIRE(stub_opencl.build_log == NULL, CL_BUILD_PROGRAM_FAILURE);
    program->built = devices[0];
    pthread_mutex_lock(&stub_lock);
    (void)snprintf(stub_opencl.last_options, sizeof stub_opencl.last_options, "%s", options);
    stub_opencl.built_from_binary += program->is_binary;
    stub_opencl.built_from_source += !program->is_binary;
    pthread_mutex_unlock(&stub_lock);
    return CL_SUCCESS;
}

/* A device has a binary if the program was built for it. */
static cl_int answer_sizes(cl_program program, size_t capacity, void *value, size_t *size) {
    size_t sizes[STUB_CONTEXT_DEVICES_MAX];
    for (size_t index = 0; index < program->count; index++) {
        sizes[index] = program->devices[index] == program->built ? sizeof binary : 0;
    }
    return stub_answer(sizes, program->count * sizeof sizes[0], capacity, value, size);
}

static cl_int give_binaries(cl_program program, size_t capacity, char **places) {
    STUB_REQUIRE(capacity >= program->count * sizeof places[0], CL_INVALID_VALUE);
    for (size_t index = 0; index < program->count; index++) {
        if (places[index] != NULL && program->devices[index] == program->built) {
            memcpy(places[index], binary, sizeof binary);
        }
    }
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info fact, size_t capacity, void *value,
                                                size_t *size) {
    STUB_BEGIN("clGetProgramInfo");
    STUB_REQUIRE(stub_object_is(program, STUB_PROGRAM) && program->built != NULL, CL_INVALID_PROGRAM);
    switch (fact) {
    case CL_PROGRAM_DEVICES:
        return stub_answer((const void *)program->devices, program->count * sizeof program->devices[0], capacity, value,
                           size);
    case CL_PROGRAM_BINARY_SIZES:
        return answer_sizes(program, capacity, value, size);
    case CL_PROGRAM_BINARIES:
        return give_binaries(program, capacity, value);
    default:
        return CL_INVALID_VALUE;
    }
}

STUB_EXPORT cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                     cl_program_build_info fact, size_t capacity, void *value,
                                                     size_t *size) {
    (void)device;
    STUB_BEGIN("clGetProgramBuildInfo");
    STUB_REQUIRE(stub_object_is(program, STUB_PROGRAM), CL_INVALID_PROGRAM);
    STUB_REQUIRE(fact == CL_PROGRAM_BUILD_LOG, CL_INVALID_VALUE);
    const char *log = stub_opencl.build_log == NULL ? "" : stub_opencl.build_log;
    return stub_answer(log, strlen(log) + 1, capacity, value, size);
}

STUB_EXPORT cl_int CL_API_CALL clReleaseProgram(cl_program program) {
    const cl_int result = stub_count_call("clReleaseProgram");
    STUB_REQUIRE(stub_object_is(program, STUB_PROGRAM), CL_INVALID_PROGRAM);
    stub_object_release(program);
    return result;
}

/* ---- Kernels ---- */

STUB_EXPORT cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *result) {
    STUB_BEGIN_MAKING("clCreateKernel", result);
    if (!stub_object_is(program, STUB_PROGRAM) || program->built == NULL || name[0] == '\0') {
        *result = CL_INVALID_PROGRAM_EXECUTABLE;
        return NULL;
    }
    cl_kernel made = stub_object_make(STUB_KERNEL, sizeof *made, program->object.context);
    stub_object_retain(program);
    made->program = program;
    return made;
}

STUB_EXPORT cl_int CL_API_CALL clReleaseKernel(cl_kernel kernel) {
    const cl_int result = stub_count_call("clReleaseKernel");
    STUB_REQUIRE(stub_object_is(kernel, STUB_KERNEL), CL_INVALID_KERNEL);
    stub_object_release(kernel);
    return result;
}

STUB_EXPORT cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                        cl_kernel_work_group_info fact, size_t capacity, void *value,
                                                        size_t *size) {
    (void)device;
    STUB_BEGIN("clGetKernelWorkGroupInfo");
    STUB_REQUIRE(stub_object_is(kernel, STUB_KERNEL), CL_INVALID_KERNEL);
    STUB_REQUIRE(fact == CL_KERNEL_WORK_GROUP_SIZE || fact == CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE,
                 CL_INVALID_VALUE);
    const size_t answer = fact == CL_KERNEL_WORK_GROUP_SIZE ? stub_opencl.kernel_work_group : 16;
    return stub_answer(&answer, sizeof answer, capacity, value, size);
}

/* Arguments are one thread's from the first that is set to the launch. */
static cl_int set_argument(cl_kernel kernel, cl_uint index) {
    STUB_REQUIRE(stub_object_is(kernel, STUB_KERNEL), CL_INVALID_KERNEL);
    STUB_REQUIRE(index < ARGUMENTS_MAX, CL_INVALID_ARG_INDEX);
    pthread_mutex_lock(&stub_lock);
    if (index == 0) {
        kernel->setter = pthread_self();
    }
    stub_opencl.raced = stub_opencl.raced || !pthread_equal(kernel->setter, pthread_self());
    kernel->is_set[index] = true;
    pthread_mutex_unlock(&stub_lock);
    (void)sched_yield(); /* lets another thread in, if the caller does */
    return CL_SUCCESS;
}

STUB_EXPORT cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
    STUB_BEGIN("clSetKernelArg");
    STUB_REQUIRE(bytes > 0, CL_INVALID_ARG_SIZE);
    cl_mem memory = NULL;
    if (value != NULL && bytes == sizeof memory) {
        memcpy((void *)&memory, value, sizeof memory);
        STUB_REQUIRE(stub_object_is(memory, STUB_MEMORY), CL_INVALID_MEM_OBJECT);
    }
    return set_argument(kernel, index);
}

STUB_EXPORT cl_int CL_API_CALL clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void *value) {
    STUB_BEGIN("clSetKernelArgSVMPointer");
    STUB_REQUIRE(stub_is_shared(value, 1), CL_INVALID_ARG_VALUE);
    return set_argument(kernel, index);
}

#ifndef STUB_OPENCL_OLDER
STUB_EXPORT cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint axes,
                                                      const size_t *offset, const size_t *global, const size_t *local,
                                                      cl_uint waits, const cl_event *wait_list, cl_event *event) {
    (void)offset, (void)waits, (void)wait_list, (void)event;
    STUB_BEGIN("clEnqueueNDRangeKernel");
    STUB_REQUIRE(stub_object_is(kernel, STUB_KERNEL), CL_INVALID_KERNEL);
    STUB_REQUIRE(stub_queue_fits(queue, kernel->object.context), CL_INVALID_CONTEXT);
    STUB_REQUIRE(axes == 3 && kernel->is_set[0], CL_INVALID_KERNEL_ARGS);
    for (int axis = 0; axis < 3; axis++) {
        STUB_REQUIRE(local[axis] > 0 && global[axis] > 0 && global[axis] % local[axis] == 0,
                     CL_INVALID_WORK_GROUP_SIZE);
    }
    pthread_mutex_lock(&stub_lock);
    stub_opencl.raced = stub_opencl.raced || !pthread_equal(kernel->setter, pthread_self());
    stub_opencl.launches++;
    stub_opencl.last_queue = queue;
    pthread_mutex_unlock(&stub_lock);
    return CL_SUCCESS;
}
#endif
