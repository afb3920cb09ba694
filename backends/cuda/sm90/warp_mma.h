/*
 * Matrix products of one warp, and their fragments. With g = lane / 4 and t = lane % 4, in 8 x 8 matrices of elements a
 * lane has row g, columns 2 t and 2 t + 1.
 *
 * Source: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16", "ldmatrix", "movmatrix".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_WARP_MMA_H
#define ATTUNE_CUDA_SM90_WARP_MMA_H

#include "backends/cuda/sm90/columns.h"

namespace {

/* Four matrices from shared memory, of which lanes 8 i to 8 i + 7 give the rows of the i-th. */
INLINE void load_matrices(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

/* Each matrix transposed. */
INLINE void load_matrices_transposed(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

INLINE uint32_t transpose(uint32_t matrix) {
    uint32_t turned;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(matrix));
    return turned;
}

/* C += A B, of 16 x 16 and 16 x 8. a: the upper and the lower rows of columns 0 to 7, then of 8 to 15. b0, b1: rows 0
 * to 7 and 8 to 15 of B transposed. c[0], c[1]: row g of C, columns 2 t and 2 t + 1; c[2], c[3]: row g + 8 of the same.
 */
INLINE void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32." ELEMENT "." ELEMENT ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
        " {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

} // namespace

#endif
