/*
 * What the lanes of a warp do together.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_WARP_H
#define ATTUNE_CUDA_SM80_WARP_H

namespace {

constexpr int LANES = 32;
constexpr unsigned ALL_LANES = 0xFFFFFFFFu;

/* The largest; NaN is passed over. */
[[maybe_unused]] __device__ float warp_max(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, step));
    }
    return x;
}

[[maybe_unused]] __device__ float warp_sum(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) {
        x += __shfl_xor_sync(ALL_LANES, x, step);
    }
    return x;
}

} // namespace

#endif
