/*
 * A launch that may begin before the one that it follows has ended: what both say. Without effect before 9.0.
 *
 * Source: PTX ISA 9.0, "griddepcontrol".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_DEPENDENT_H
#define ATTUNE_CUDA_SM80_DEPENDENT_H

namespace {

/* Once all work-groups have said so, the launch that follows may begin, and use what this one leaves free. */
[[maybe_unused]] __device__ __forceinline__ void let_next_launch_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Until the launch before has ended, and all that it wrote can be read. */
[[maybe_unused]] __device__ __forceinline__ void wait_for_last_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

} // namespace

#endif
