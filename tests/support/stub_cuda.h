/*
 * A CUDA driver without a device: what the stub library lets a test set and see. The test finds it by its symbol.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_STUB_CUDA_H
#define ATTUNE_TESTS_STUB_CUDA_H

#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#define STUB_CUDA_SYMBOL      "stub_cuda"
#define STUB_CUDA_DEVICES_MAX 4

struct stub_cuda_launch {
    int device;
    CUstream stream;
    unsigned blocks;
    unsigned threads;
    unsigned shared_bytes;
};

/* What is alive, 0 when everything was given back. */
struct stub_cuda_live {
    int retained; /* primary contexts */
    int memories;
    int streams;
    int events;
    int modules;
};

struct stub_cuda {
    /* ---- Set by the test ---- */

    int devices;
    int compute_capability;    /* 90 for 9.0 */
    int64_t fail_at;           /* the call, counted from 1, that fails; 0: none */
    const char *fail_function; /* whose calls fail; NULL: none's */
    CUresult fail_with;
    bool capturing; /* all streams: what would wait for one, or allocate, breaks the capture */

    /* ---- Seen by the test ---- */

    int64_t calls;
    const char *failed; /* the function whose call failed, NULL if none has */
    bool capture_broken;
    struct stub_cuda_live live;
    int launches;
    struct stub_cuda_launch last_launch;
    int modules_loaded; /* ever */
    int shared_raised;  /* functions whose limit of dynamic shared memory was set, ever */

    /* ---- Called by the test; these are not counted ---- */

    CUcontext (*context_primary)(int device);
    CUcontext (*context_create)(int device); /* current nowhere */
    void (*context_destroy)(CUcontext context);
    CUstream (*stream_create)(CUcontext context);
    void (*stream_destroy)(CUstream stream);
    void (*make_current)(CUcontext context); /* the only one of this thread; NULL: none */
    CUcontext (*current)(void);              /* of this thread */
    int (*depth)(void);                      /* of this thread's stack of contexts */
    void (*forget_all)(void);                /* ends all that lives, as the loss of a context does */
};

#endif
