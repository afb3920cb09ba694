/*
 * What an OpenCL kernel row is to the backend: a source, how it is built for a problem, and how it is launched. run.h
 * has the arguments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_KERNEL_H
#define ATTUNE_OPENCL_KERNEL_H

#include "backends/opencl/device.h"
#include "backends/opencl/run.h"

#define ATTUNE_OPENCL_STEPS_MAX     24
#define ATTUNE_OPENCL_OPTIONS_MAX   1024
#define ATTUNE_OPENCL_CONSTANTS_MAX 4096

/* One launch. The steps of a plan run in order, each seeing what the ones before it wrote. */
struct attune_opencl_step {
    const char *symbol;
    size_t groups[3];               /* any 0: the step is left out. Each axis in work-groups */
    size_t local[3];                /* work-items of a work-group; axes not used are 1 */
    const attune_operand *operands; /* static */
    int32_t operand_count;          /* at most ATTUNE_OPENCL_OPERANDS_MAX */
    int32_t part_first;             /* merge: of the parts that this step takes */
    int32_t part_count;             /* arguments for so many, at most ATTUNE_OPENCL_PARTS_MAX; 0: none */
    size_t local_bytes;             /* by argument; 0: none. Besides what the source declares */
};

struct attune_opencl_plan {
    struct attune_opencl_device *device;
    const attune_kernel_row *row;
    attune_problem problem;
    attune_schedule schedule;
    attune_workspace_map workspace;

    /* Prepared by the family: */
    char options[ATTUNE_OPENCL_OPTIONS_MAX]; /* "-DATTUNE_HEAD_DIM=64 ...": besides those that every build has */
    int32_t step_count;
    struct attune_opencl_step step[ATTUNE_OPENCL_STEPS_MAX];
    size_t constants_bytes;
    union {
        unsigned char bytes[ATTUNE_OPENCL_CONSTANTS_MAX];
        int64_t align;
    } constants;

    /* Made by the backend: */
    pthread_mutex_t lock; /* of the kernels' arguments, which hold from their setting to the launch */
    cl_kernel kernel[ATTUNE_OPENCL_STEPS_MAX];
    cl_mem constants_memory;
};

/* How the kernels of one source file are launched: the host's side of it, in the same folder. */
struct attune_opencl_family {
    /* What the row's columns cannot say. NULL: nothing. */
    bool (*accepts)(const struct attune_opencl_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);
    /* Of the workspace's own region, whose bytes are undefined when a launch begins. NULL: none. */
    uint64_t (*workspace_bytes)(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule);
    /* Sets what the family prepares of a plan whose problem, schedule and workspace are set and whose other bytes are
     * 0. May fail through the host. */
    attune_status (*prepare)(struct attune_opencl_plan *plan);
};

/* What attune_kernel_row.kernel points to. */
struct attune_opencl_kernel {
    const char *source; /* a whole text: its includes are in it */
    const struct attune_opencl_family *family;
};

const attune_kernel_row *attune_opencl_kernels(int32_t *out_count);
bool attune_opencl_row_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]);
bool attune_opencl_row_accepts(void *device, int32_t row, const attune_problem *problem,
                               char reason[ATTUNE_REASON_MAX]);
uint64_t attune_opencl_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                       const attune_schedule *schedule);

attune_status attune_opencl_plan_build(void *device, const attune_plan_request *request, void **out_plan);
void attune_opencl_plan_release(void *device, void *plan);
attune_status attune_opencl_execute(void *device, void *plan, void *stream, const attune_bindings *bindings);

/* A source built for the device, from its options: from memory, the cache's files or the driver's compiler. The device
 * keeps it until it is closed. */
attune_status attune_opencl_program_get(struct attune_opencl_device *device, const char *source, const char *options,
                                        cl_program *out_program);
void attune_opencl_programs_release(struct attune_opencl_device *device);

#endif
