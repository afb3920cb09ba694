/*
 * What the stub's files share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_STUB_CUDA_INTERNAL_H
#define ATTUNE_TESTS_STUB_CUDA_INTERNAL_H

#include <pthread.h>

#include "tests/support/stub_cuda.h"

#define STUB_EXPORT __attribute__((visibility("default")))

#define STUB_SHARED_BYTES_DEFAULT (48 * 1024)
#define STUB_SHARED_BYTES_MAX     (227 * 1024)
#define STUB_MEMORY_BYTES         ((size_t)4 << 30) /* of a device */

struct CUctx_st {
    int device;
};

struct CUstream_st {
    CUcontext context;
};

STUB_EXPORT extern struct stub_cuda stub_cuda;
extern pthread_mutex_t stub_lock; /* guards stub_cuda and all lists */

/* Where kernels do compute: what runs them, and device memory at the addresses that it has. */
extern void (*stub_kernel_run)(const char *kernel, unsigned blocks, unsigned threads, unsigned shared_bytes,
                               void *parameters);
extern bool stub_memory_is_reachable;

/* What the call is to return: an error if it is the one that fails. */
CUresult stub_count_call(const char *function);

/* Begins a call that does nothing if it is to fail. */
#define STUB_BEGIN(function)                                                                                           \
    do {                                                                                                               \
        const CUresult begun = stub_count_call(function);                                                              \
        if (begun != CUDA_SUCCESS) {                                                                                   \
            return begun;                                                                                              \
        }                                                                                                              \
    } while (0)

#define STUB_REQUIRE(condition, error)                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return (error);                                                                                            \
        }                                                                                                              \
    } while (0)

#define STUB_REQUIRE_CONTEXT() STUB_REQUIRE(stub_current() != NULL, CUDA_ERROR_INVALID_CONTEXT)

/* Of this thread; NULL: none. */
CUcontext stub_current(void);

/* True in a capture, which is then broken: for what a capture forbids. */
bool stub_breaks_capture(void);

/* Handles: what is alive, of which count counts one kind. */
void *stub_handle_add(size_t bytes, int *count);
bool stub_handle_is_alive(const void *handle);
bool stub_handle_remove(void *handle, int *count);

void stub_memory_forget_all(void);

CUstream stub_stream_create(CUcontext context);
void stub_stream_destroy(CUstream stream);
/* Whether the stream may be used with what is current. */
bool stub_stream_fits(CUstream stream);

#endif
