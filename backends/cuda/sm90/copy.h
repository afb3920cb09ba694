/*
 * The copy engine, and matrices from registers to shared memory in the copy engine's swizzle.
 *
 * Source: PTX ISA 9.0, "cp.async.bulk", "cp.async.bulk.tensor", "cp.reduce.async.bulk", "stmatrix". What lies outside
 * of a tensor is read as zeros, which count as bytes, and not written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_COPY_H
#define ATTUNE_CUDA_SM90_COPY_H

#include "backends/cuda/sm90/columns.h"

namespace {

/* ---- In ---- */

INLINE void copy_box(uint32_t to, const CUtensorMap &map, uint32_t barrier, int column, int row, int head, int batch,
                     uint64_t cache_policy) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(cache_policy)
                 : "memory");
}

/* A run of bytes; all are multiples of 16. */
INLINE void copy_bytes(uint32_t to, const void *from, uint32_t barrier, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* ---- Out ---- */

/* Clips what lies outside of the tensor. */
INLINE void store_box(const CUtensorMap &map, uint32_t from, int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
                 "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

/* Adds a run of floats to memory. */
INLINE void add_floats(float *to, uint32_t from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}

/* The same from registers; the address is a multiple of 16. */
INLINE void add_four(float *to, float a, float b, float c, float d) {
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

INLINE void store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until shared memory has been read. */
INLINE void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

INLINE void store_wait() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

INLINE void store_matrices(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c),
                 "r"(d)
                 : "memory");
}

/* Each matrix transposed. */
INLINE void store_matrices_transposed(uint32_t to, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b),
                 "r"(c), "r"(d)
                 : "memory");
}

} // namespace

#endif
