/*
 * What a CUDA kernel of plain C++ takes for granted, on a processor: the threads of a work-group, one running at a
 * time, that wait for each other in __syncthreads and in shuffles. It tells whether a kernel computes the right thing,
 * not how fast, and nothing of races.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_EMULATOR_CUDA_THREADS_H
#define ATTUNE_TESTS_EMULATOR_CUDA_THREADS_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#undef __launch_bounds__
#define __launch_bounds__(...)

struct emulator_index {
    unsigned x;
};
extern emulator_index threadIdx, blockIdx, blockDim, gridDim; /* of the thread that runs */

extern float4 emulator_shared[]; /* the shared memory of a launch */

void __syncthreads();
void __syncwarp();

/* What each lane of the warp brings, at most EMULATOR_GATHER_BYTES, one lane's after the other's. */
#define EMULATOR_GATHER_BYTES 32
void emulator_gather(const void *own, size_t bytes, void *out_all);

/* x of another lane of the warp. */
float emulator_shuffle(float x, unsigned lane);

inline float __shfl_sync(unsigned, float x, int lane) {
    return emulator_shuffle(x, static_cast<unsigned>(lane));
}

inline float __shfl_xor_sync(unsigned, float x, int mask) {
    return emulator_shuffle(x, (threadIdx.x % 32) ^ static_cast<unsigned>(mask));
}

/* One thread runs at a time. */
inline unsigned atomicMax(unsigned *at, unsigned x) {
    const unsigned before = *at;
    *at = before < x ? x : before;
    return before;
}

/* A kernel by its name. Made before main begins, one for each. */
struct emulator_kernel {
    emulator_kernel(const char *name, void (*run)(void *parameters));
    const char *name;
    void (*run)(void *parameters);
    const emulator_kernel *next;
};

#endif
