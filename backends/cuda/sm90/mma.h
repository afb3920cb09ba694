/*
 * The warpgroup's matrix products, asynchronous until waited for.
 *
 * Accumulator of m64nNk16: thread t of the warpgroup, lane l = t % 32, holds rows 16 (t / 32) + l / 4 and that + 8, of
 * each columns 8 j + 2 (l % 4) and that + 1: registers 4 j, 4 j + 1 are of the upper row, 4 j + 2, 4 j + 3 of the
 * lower. A's fragment of 16 columns has the same shape, so P is S packed in pairs, without a shuffle.
 *
 * Source: PTX ISA 9.0, "Asynchronous Warpgroup Level Matrix Instructions".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_MMA_H
#define ATTUNE_CUDA_SM90_MMA_H

#include "backends/cuda/sm90/columns.h"

namespace {

/* ---- Operands in shared memory ---- */

/* "Matrix Descriptor Format": address, leading and stride byte offsets, each / 16, and the swizzle of 128 bytes. A tile
 * is a stack of panels [panel][row][128 bytes], aligned to 1,024.
 *   Q, K (K-major):  stride 1,024 to the next 8 rows; 16 columns on is + 32 bytes, a panel on is + rows * 128.
 *   V (MN-major):    stride 1,024 to the next 8 keys, leading to the next panel; 16 keys on is + 2,048 bytes. */
INLINE uint64_t matrix_descriptor(uint32_t address, uint32_t leading_bytes) {
    return static_cast<uint64_t>((address & 0x3FFFF) >> 4) | static_cast<uint64_t>(leading_bytes >> 4) << 16 |
           uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}

INLINE constexpr uint32_t descriptor_step(int bytes) {
    return static_cast<uint32_t>(bytes) >> 4;
}

/* Of 16 columns from k * 16 on, in a tile of that many rows. */
INLINE constexpr uint32_t column_step(int k, int rows) {
    return descriptor_step(k / 4 * rows * PANEL_BYTES + k % 4 * 32);
}

/* ---- Ordering ---- */

INLINE void mma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

INLINE void mma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Until no more than so many groups are pending. Waits of different COPY are not made one by the compiler. */
template <int PENDING = 0, int COPY = 0> INLINE void mma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0; // %1" ::"n"(PENDING), "n"(COPY) : "memory");
}

/* The compiler does not know that accumulators change until the wait: this holds their uses behind it. */
template <int N> INLINE void pin(float (&registers)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "+f"(registers[i])::"memory");
    }
}

/* Packing P must not sink below the next product. */
template <int N> INLINE void pin(uint32_t (&registers)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        asm volatile("" : "+r"(registers[i])::"memory");
    }
}

/* ---- Products ---- */

/* Operand lists by the eight: names of the accumulators in the text, and their bindings to c. */
#define NAMES_8(a, b, c, d, e, f, g, h) "%" #a ",%" #b ",%" #c ",%" #d ",%" #e ",%" #f ",%" #g ",%" #h
#define NAMES_16                        NAMES_8(0, 1, 2, 3, 4, 5, 6, 7) "," NAMES_8(8, 9, 10, 11, 12, 13, 14, 15)
#define NAMES_32                                                                                                       \
    NAMES_8(0, 1, 2, 3, 4, 5, 6, 7)                                                                                    \
    "," NAMES_8(8, 9, 10, 11, 12, 13, 14, 15) "," NAMES_8(16, 17, 18, 19, 20, 21, 22, 23) "," NAMES_8(24, 25, 26, 27,  \
                                                                                                      28, 29, 30, 31)
#define NAMES_48 NAMES_32 "," NAMES_8(32, 33, 34, 35, 36, 37, 38, 39) "," NAMES_8(40, 41, 42, 43, 44, 45, 46, 47)
#define NAMES_56 NAMES_48 "," NAMES_8(48, 49, 50, 51, 52, 53, 54, 55)
#define NAMES_64 NAMES_56 "," NAMES_8(56, 57, 58, 59, 60, 61, 62, 63)
#define NAMES_96                                                                                                       \
    NAMES_64 "," NAMES_8(64, 65, 66, 67, 68, 69, 70, 71) "," NAMES_8(72, 73, 74, 75, 76, 77, 78, 79) "," NAMES_8(      \
        80, 81, 82, 83, 84, 85, 86, 87) "," NAMES_8(88, 89, 90, 91, 92, 93, 94, 95)
#define NAMES_128                                                                                                      \
    NAMES_96 "," NAMES_8(96, 97, 98, 99, 100, 101, 102, 103) "," NAMES_8(                                              \
        104, 105, 106, 107, 108, 109, 110, 111) "," NAMES_8(112, 113, 114, 115, 116, 117, 118,                         \
                                                            119) "," NAMES_8(120, 121, 122, 123, 124, 125, 126, 127)

#define BOUND_8(i)                                                                                                     \
    "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), "+f"(c[i + 6]),        \
        "+f"(c[i + 7])
#define BOUND_16  BOUND_8(0), BOUND_8(8)
#define BOUND_32  BOUND_8(0), BOUND_8(8), BOUND_8(16), BOUND_8(24)
#define BOUND_48  BOUND_32, BOUND_8(32), BOUND_8(40)
#define BOUND_56  BOUND_48, BOUND_8(48)
#define BOUND_64  BOUND_56, BOUND_8(56)
#define BOUND_96  BOUND_64, BOUND_8(64), BOUND_8(72), BOUND_8(80), BOUND_8(88)
#define BOUND_128 BOUND_96, BOUND_8(96), BOUND_8(104), BOUND_8(112), BOUND_8(120)

/* Of one k step of 16, with N columns of C. */
template <int N> struct product;

/* from_shared: C = A B, or C += A B; both operands from shared memory, K-major. from_shared_mn: the same with B
 * MN-major, which the last immediate says. from_shared_mn_mn: A, too. from_registers: C = A B, or C += A B, B MN-major.
 * The numbers are those of the operands that follow the accumulators. */
#define FROM_SHARED(name, n, registers, r0, r1, r2, orders)                                                            \
    static INLINE void name(float(&c)[registers], uint64_t a, uint64_t b, int accumulates) {                           \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #r2 ", 0;\n"                                           \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." ELEMENT "." ELEMENT " {" NAMES_##registers      \
                     "}, %" #r0 ", %" #r1 ", adds, 1, 1, " orders ";\n}"                                               \
                     : BOUND_##registers                                                                               \
                     : "l"(a), "l"(b), "r"(accumulates));                                                              \
    }
#define PRODUCT(n, registers, r0, r1, r2, r3, r4, r5)                                                                  \
    template <> struct product<n> {                                                                                    \
        FROM_SHARED(from_shared, n, registers, r0, r1, r2, "0, 0")                                                     \
        FROM_SHARED(from_shared_mn, n, registers, r0, r1, r2, "0, 1")                                                  \
        FROM_SHARED(from_shared_mn_mn, n, registers, r0, r1, r2, "1, 1")                                               \
        static INLINE void from_registers(float (&c)[registers], const uint32_t *a, uint64_t b, int accumulates = 1) { \
            asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, %" #r5 ", 0;\n"                                       \
                         "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." ELEMENT "." ELEMENT " {" NAMES_##registers  \
                         "}, {%" #r0 ",%" #r1 ",%" #r2 ",%" #r3 "}, %" #r4 ", adds, 1, 1, 1;\n}"                       \
                         : BOUND_##registers                                                                           \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulates));                      \
        }                                                                                                              \
    };
PRODUCT(32, 16, 16, 17, 18, 19, 20, 21)
PRODUCT(64, 32, 32, 33, 34, 35, 36, 37)
PRODUCT(96, 48, 48, 49, 50, 51, 52, 53)
PRODUCT(112, 56, 56, 57, 58, 59, 60, 61)
PRODUCT(128, 64, 64, 65, 66, 67, 68, 69)
PRODUCT(192, 96, 96, 97, 98, 99, 100, 101)
PRODUCT(256, 128, 128, 129, 130, 131, 132, 133)

} // namespace

#endif
