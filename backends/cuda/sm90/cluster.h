/*
 * Two work-groups on neighbouring processors, each of which can write to the other's shared memory.
 *
 * Source: PTX ISA 9.0, "barrier.cluster", "mapa", "mbarrier.arrive", "cp.async.bulk".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_CLUSTER_H
#define ATTUNE_CUDA_SM90_CLUSTER_H

#include "backends/cuda/sm90/columns.h"

namespace {

INLINE int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* Where another work-group's shared memory has what this one's has at an address. */
INLINE uint32_t address_in_cluster(uint32_t address, int rank) {
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

/* All threads of both that have not ended. What one has done before it arrives, the others see when they have waited.
 */
INLINE void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}
INLINE void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

INLINE void store_in_cluster(uint32_t to, int value) {
    asm volatile("st.shared::cluster.s32 [%0], %1;" ::"r"(to), "r"(value) : "memory");
}

/* ---- At a barrier of the other's. They order no more than that what this thread has waited for is over: a release
 * would wait for all that it has ever written to memory, 17% of the backward's time. ---- */

INLINE void mbarrier_arrive_in_cluster(uint32_t barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

INLINE void mbarrier_expect_in_cluster(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

/* A run of bytes of own shared memory to the other's, which its barrier counts. */
INLINE void copy_in_cluster(uint32_t to, uint32_t from, uint32_t barrier, int bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "r"(from), "r"(bytes), "r"(barrier)
        : "memory");
}

} // namespace

#endif
