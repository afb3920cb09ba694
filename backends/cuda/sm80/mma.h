/*
 * Copies and matrix products of sm_80, one warp's. A test has the same functions for any processor.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_MMA_H
#define ATTUNE_CUDA_SM80_MMA_H

#include "backends/cuda/sm80/element.h"

namespace {

/* ---- Copies: PTX ISA 9.0, "cp.async" ---- */

using shared_address = uint32_t;

__device__ __forceinline__ shared_address address_of(const void *shared) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/* Sixteen bytes from global to shared memory, both aligned to 16. */
__device__ __forceinline__ void copy_16(shared_address to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* Zeros, and nothing is read, if they are not there. */
__device__ __forceinline__ void copy_16_or_0(shared_address to, const void *from, bool is_there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

/* The thread's copies since the last call are a group. */
__device__ __forceinline__ void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until no more than so many of the thread's groups are under way; the others' bytes can then be read by this thread.
 */
template <int PENDING> __device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* ---- Products: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" ----
 *
 * With g = lane / 4 and t = lane % 4: a[0] holds row g, columns 2 t and 2 t + 1, a[1] row g + 8 of the same, a[2] and
 * a[3] the same rows' columns 2 t + 8 and 2 t + 9. b0 holds rows 2 t and 2 t + 1 of column g, b1 rows 2 t + 8 and
 * 2 t + 9. c[0] and c[1] are row g, columns 2 t and 2 t + 1, c[2] and c[3] row g + 8 of the same. */

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, f16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The lower or the upper halves of two words, the first's below. */
__device__ __forceinline__ uint32_t lower_halves(uint32_t a, uint32_t b) {
    return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ uint32_t upper_halves(uint32_t a, uint32_t b) {
    return __byte_perm(a, b, 0x7632);
}

/* 2^x; 0 where that is below the smallest normal number. */
__device__ __forceinline__ float exp2_flushed(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

__device__ __forceinline__ bool any_lane(bool x) {
    return __any_sync(0xFFFFFFFFu, x) != 0;
}

} // namespace

#endif
