/*
 * Barriers: mbarriers between the producer and the consumers, named barriers among the consumers.
 *
 * Source: PTX ISA 9.0, "Parallel Synchronization and Communication Instructions".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_BARRIER_H
#define ATTUNE_CUDA_SM90_BARRIER_H

#include "backends/cuda/sm90/columns.h"

namespace {

INLINE void mbarrier_init(uint32_t barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/* Makes what was initialised visible to the copy engine. */
INLINE void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

INLINE void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives, and announces the bytes that the copy engine will bring. */
INLINE void mbarrier_expect(uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/* try_wait gives up after a time that the system sets, hence the loop. */
INLINE void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Whether what it waits for is there. */
INLINE bool mbarrier_test(uint32_t barrier, uint32_t parity) {
    int is_over;
    asm volatile("{\n"
                 ".reg .pred over;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
                 "selp.s32 %0, 1, 0, over;\n"
                 "}"
                 : "=r"(is_over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return is_over != 0;
}

INLINE void named_barrier_sync(int name, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* Whether any thread says so. */
INLINE bool named_barrier_or(int name, int threads, bool says) {
    int any;
    asm volatile("{\n"
                 ".reg .pred own, found;\n"
                 "setp.ne.s32 own, %3, 0;\n"
                 "bar.red.or.pred found, %1, %2, own;\n"
                 "selp.s32 %0, 1, 0, found;\n"
                 "}"
                 : "=r"(any)
                 : "r"(name), "r"(threads), "r"(static_cast<int>(says))
                 : "memory");
    return any != 0;
}

INLINE void named_barrier_arrive(int name, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(name), "r"(threads) : "memory");
}

/* Orders this thread's stores to shared memory before what the copy engine and wgmma read after the next barrier. */
INLINE void async_proxy_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

constexpr int BARRIER_BYTES = 8;

INLINE uint32_t barrier_address(int first, int buffer) {
    return shared_address(first) + buffer * BARRIER_BYTES;
}

/* How far a side has got in a ring of buffers, each with a barrier "full" and one "empty". A fresh
 * barrier lets a wait for parity 1 pass. */
template <int BUFFERS> struct ring {
    uint32_t count = 0;

    INLINE int buffer() const {
        return count % BUFFERS;
    }
    INLINE uint32_t parity() const {
        return count / BUFFERS & 1;
    }
};

} // namespace

#endif
