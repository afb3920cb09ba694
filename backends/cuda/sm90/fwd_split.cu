/*
 * The Hopper forward with tiles cut along their keys, so that problems of few tiles keep all processors busy, and the
 * last tiles of a launch end together: fwd.cu, whose parts of tiles leave their state in the workspace, and a kernel
 * that takes these together.
 *
 * Compiled once per row of kernels.def, as fwd.cu is.
 * Source: Osama et al., Stream-K (arXiv 2301.03598), for tiles of which several work-groups have a part; Dao et al.,
 * Flash-Decoding (2023), for attention.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm90/fwd.cu"
#include "backends/cuda/sm90/merge_parts.h"

extern "C" __global__ void __launch_bounds__(WARPGROUP)
    JOIN(ATTUNE_SYMBOL, _merge)(const __grid_constant__ attune_sm90_forward_params p) {
    merge_slice(p, blockIdx.x);
}
