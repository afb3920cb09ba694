/*
 * What the stub's files share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_STUB_OPENCL_INTERNAL_H
#define ATTUNE_TESTS_STUB_OPENCL_INTERNAL_H

#include <pthread.h>

#include "tests/support/stub_opencl.h"

#define STUB_EXPORT __attribute__((visibility("default")))

#define STUB_MEMORY_BYTES     ((size_t)4 << 30) /* of a device */
#define STUB_ALLOCATION_BYTES (STUB_MEMORY_BYTES / 4)

/* What every object begins with, as the drivers of cl_khr_icd have it. */
struct stub_object {
    const void *dispatch;
    struct stub_object *next;
    enum stub_opencl_kind kind;
    int references;
    cl_context context;
};

struct _cl_platform_id {
    int index;
};

struct _cl_device_id {
    const void *dispatch;
    int platform;
    int index;
    cl_device_id parent;
};

#define STUB_CONTEXT_DEVICES_MAX 2

struct _cl_context {
    struct stub_object object;
    size_t count;
    cl_device_id devices[STUB_CONTEXT_DEVICES_MAX];
};

struct _cl_command_queue {
    struct stub_object object;
    cl_device_id device;
    cl_command_queue_properties properties;
};

struct _cl_event {
    struct stub_object object;
    cl_ulong time;
    bool profiled;
};

STUB_EXPORT extern struct stub_opencl stub_opencl;
extern pthread_mutex_t stub_lock; /* guards stub_opencl and the list of objects */

/* What the call is to return: an error if it is the one that fails. */
cl_int stub_count_call(const char *function);

/* Begins a call that does nothing if it is to fail. */
#define STUB_BEGIN(function)                                                                                           \
    do {                                                                                                               \
        const cl_int begun = stub_count_call(function);                                                                \
        if (begun != CL_SUCCESS) {                                                                                     \
            return begun;                                                                                              \
        }                                                                                                              \
    } while (0)

/* Begins a call that gives an object. */
#define STUB_BEGIN_MAKING(function, result)                                                                            \
    do {                                                                                                               \
        *(result) = stub_count_call(function);                                                                         \
        if (*(result) != CL_SUCCESS) {                                                                                 \
            return NULL;                                                                                               \
        }                                                                                                              \
    } while (0)

#define STUB_REQUIRE(condition, error)                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return (error);                                                                                            \
        }                                                                                                              \
    } while (0)

/* A new object with one reference, of so many bytes; zeroed besides. */
void *stub_object_make(enum stub_opencl_kind kind, size_t bytes, cl_context context);
/* Whether it is an object of the kind that is alive. */
bool stub_object_is(const void *object, enum stub_opencl_kind kind);
void stub_object_retain(void *object);
/* True if it was the last reference; free is called then. */
void stub_object_release(void *object);

/* Writes a fact as OpenCL does. */
cl_int stub_answer(const void *fact, size_t bytes, size_t capacity, void *value, size_t *size);

bool stub_context_has(cl_context context, cl_device_id device);
bool stub_queue_fits(cl_command_queue queue, cl_context context);

cl_mem stub_memory_create(cl_context context, size_t bytes);
cl_mem stub_memory_part(cl_mem memory, size_t offset, size_t bytes);
void stub_memory_free(cl_mem memory);
void *stub_shared_create(cl_context context, size_t bytes);
void stub_shared_release(void *memory);
/* Whether bytes at an address lie in one block of shared memory. */
bool stub_is_shared(const void *at, size_t bytes);
void stub_program_free(cl_program program);
void stub_kernel_free(cl_kernel kernel);

#endif
