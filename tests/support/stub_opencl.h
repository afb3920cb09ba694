/*
 * An OpenCL library without a device: what the stub lets a test set and see. The test finds it by its symbol.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_STUB_OPENCL_H
#define ATTUNE_TESTS_STUB_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_OPENCL_SYMBOL        "stub_opencl"
#define STUB_OPENCL_PLATFORMS_MAX 2
#define STUB_OPENCL_DEVICES       2 /* of each platform */

/* Kinds of objects, of which so many are alive: 0 when everything was given back. */
enum stub_opencl_kind {
    STUB_CONTEXT,
    STUB_QUEUE,
    STUB_MEMORY,
    STUB_SVM,
    STUB_MAPPING, /* of a memory object */
    STUB_EVENT,
    STUB_PROGRAM,
    STUB_KERNEL,
    STUB_KINDS
};

struct stub_opencl {
    /* ---- Set by the test ---- */

    int platforms;
    int devices;               /* of each platform */
    const char *fail_function; /* whose calls fail; NULL: none's */
    int64_t fail_at;           /* the call, counted from 1, that fails; 0: none */
    cl_int fail_with;
    const char *extensions; /* of each platform */
    const char *name;       /* of every device; NULL: each its own */
    cl_device_info lacking; /* the fact that every device says 0 of; 0: none */
    const char *build_log;  /* of a build that fails */
    bool refuses_binaries;
    size_t kernel_work_group; /* CL_KERNEL_WORK_GROUP_SIZE */
    cl_device_id beside;      /* a device that each context has before its own; NULL: none */

    /* ---- Seen by the test ---- */

    int64_t calls;
    const char *failed; /* the function whose call failed, NULL if none has */
    int live[STUB_KINDS];
    int launches;
    int built_from_source; /* programs, ever */
    int built_from_binary;
    cl_command_queue last_queue;
    char last_options[1024];
    bool raced; /* a kernel's arguments were set by one thread while another was about to launch it */

    /* ---- Called by the test; these are not counted ---- */

    cl_device_id (*device)(int platform, int index);
    cl_device_id (*part_of)(cl_device_id device); /* a sub-device, one for each device */
    cl_context (*context_create)(cl_device_id device);
    cl_command_queue (*queue_create)(cl_context context, cl_device_id device, cl_command_queue_properties properties);
    cl_mem (*memory_create)(cl_context context, size_t bytes);
    cl_mem (*memory_part)(cl_mem memory, size_t offset, size_t bytes); /* a sub-buffer */
    void *(*shared_create)(cl_context context, size_t bytes);          /* as clSVMAlloc */
    void (*shared_release)(void *memory);
    void (*release)(void *object);
};

#endif
