/*
 * What a CUDA kernel row is to the backend: a code object, and how it is launched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_KERNEL_H
#define ATTUNE_CUDA_KERNEL_H

#include "backends/cuda/device.h"
#include "backends/cuda/operand.h"
#include "backends/cuda/sm90/cut.h"

/* The lines of kernels.def: ATTUNE_CUDA_ROW_sm80_merge, ... */
enum {
#define ATTUNE_ROW(name, ...) ATTUNE_CUDA_ROW_##name,
#include "backends/cuda/kernels.def"
#undef ATTUNE_ROW
    ATTUNE_CUDA_ROWS
};

struct attune_cuda_plan {
    const struct attune_cuda_device *device;
    const attune_kernel_row *row;
    const struct attune_cuda_kernel *kernel;
    struct attune_cuda_function loaded;
    CUfunction merge_splits; /* of what splits leave; NULL if there is one */
    attune_problem problem;
    attune_schedule schedule;
    attune_workspace_map workspace;
    attune_sm90_cut cut; /* of the Hopper forward's tiles, in rows that cut them */
    unsigned blocks;     /* of the grid, all along x */
    unsigned cluster;    /* so many of them at a time share a cluster; 1: none */
    unsigned threads;
    unsigned shared_bytes; /* dynamic */
};

/* How the kernels of one source file are launched: the host's side of it, in the same folder. */
struct attune_cuda_family {
    /* What the row's columns cannot say. NULL: nothing. */
    bool (*accepts)(const struct attune_cuda_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);
    /* What is added to the row's symbol to name each kernel that runs beside the main one, up to a NULL or the last. */
    const char *beside[ATTUNE_CUDA_BESIDE_MAX];
    /* Of the workspace's own region, whose bytes are undefined when a launch begins. NULL: none. */
    uint64_t (*workspace_bytes)(const struct attune_cuda_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule);
    /* Of rows with ATTUNE_FEATURE_OWN_SPLITS. request: 0: automatic. */
    int32_t (*splits)(const struct attune_cuda_device *device, const attune_kernel_row *row,
                      const attune_problem *problem, int32_t request);
    /* Sets blocks and shared_bytes, and cluster if it is not 1, of a plan whose other fields are set. */
    void (*prepare)(struct attune_cuda_plan *plan);
    /* With the device's context current. */
    attune_status (*launch)(const struct attune_cuda_plan *plan, CUstream stream, const attune_bindings *bindings);
};

/* What attune_kernel_row.kernel points to. */
struct attune_cuda_kernel {
    const unsigned char *image; /* a fat binary; a single byte of 0 if the build left it out */
    const char *symbol;
    int compute_capability_min; /* of the image's code: what is compiled for 8.0 runs on all of 8.x, for 9.0a on 9.0 */
    int compute_capability_max;
    const struct attune_cuda_family *family;
};

extern const struct attune_cuda_family attune_cuda_general_forward;
extern const struct attune_cuda_family attune_cuda_general_backward;
extern const struct attune_cuda_family attune_cuda_hopper_forward;
extern const struct attune_cuda_family attune_cuda_hopper_split;
extern const struct attune_cuda_family attune_cuda_hopper_backward;
extern const struct attune_cuda_family attune_cuda_hopper_decode;
extern const struct attune_cuda_family attune_cuda_append;
extern const struct attune_cuda_family attune_cuda_decode;
extern const struct attune_cuda_family attune_cuda_merge;
extern const struct attune_cuda_family attune_cuda_quantize;

const attune_kernel_row *attune_cuda_kernels(int32_t *out_count);
bool attune_cuda_row_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]);
bool attune_cuda_row_accepts(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);
int32_t attune_cuda_row_splits(void *device, int32_t row, const attune_problem *problem, int32_t request);
uint64_t attune_cuda_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                     const attune_schedule *schedule);

/* The row's functions on the device, loaded at the first call and kept until the device is closed, since graphs may
 * hold them. The device's context is current. */
attune_status attune_cuda_function_get(struct attune_cuda_device *device, int32_t row,
                                       struct attune_cuda_function *out_loaded);
void attune_cuda_functions_release(struct attune_cuda_device *device);

attune_status attune_cuda_plan_build(void *device, const attune_plan_request *request, void **out_plan);
void attune_cuda_plan_release(void *device, void *plan);
attune_status attune_cuda_execute(void *device, void *plan, void *stream, const attune_bindings *bindings);

/* What a kernel of plain strides is given of an operand. */
attune_cuda_operand attune_cuda_operand_bind(const struct attune_cuda_plan *plan, const attune_bindings *bindings,
                                             attune_operand which);

/* A launch: blocks along x. */
struct attune_cuda_grid {
    CUfunction function;
    const char *symbol; /* for the sentence */
    unsigned blocks, threads, shared_bytes;
    unsigned cluster;  /* so many blocks at a time share a cluster; 0 or 1: none */
    bool waits_itself; /* for all of the launch before, with griddepcontrol.wait: it may begin earlier */
};

attune_status attune_cuda_launch_grid(const struct attune_cuda_device *device, const struct attune_cuda_grid *grid,
                                      CUstream stream, void *parameters);

/* Launches plan's function over its blocks with one struct of parameters. */
attune_status attune_cuda_launch(const struct attune_cuda_plan *plan, CUstream stream, void *parameters);

/* The same for a kernel that runs beside it. */
attune_status attune_cuda_launch_beside(const struct attune_cuda_plan *plan, int which, unsigned blocks,
                                        unsigned threads, CUstream stream, void *parameters);

#endif
