/*
 * Storing x as e4m3. A warp has a vector, one row of one head. Where the descales are not given, a first launch of the
 * same kernel measures; the largest is the same in whichever order the warps come.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/quantize.h"

#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/warp.h"

namespace {

constexpr int WARPS = ATTUNE_CUDA_QUANTIZE_WARPS;
constexpr float E4M3_LARGEST = 448.0f;

struct place {
    int64_t batch, row, head, group;
};

__device__ float load_x(const attune_cuda_quantize_params &p, const place &at, int element) {
    return load_as(p.x.data, offset(p.x, at.batch, at.row, at.head, element), p.x_dtype);
}

__device__ void measure(const attune_cuda_quantize_params &p, const place &at) {
    float largest = 0.0f;
    for (int element = threadIdx.x % LANES; element < p.head_dim; element += LANES) {
        const float magnitude = fabsf(load_x(p, at, element));
        largest = magnitude < ATTUNE_INFINITY ? fmaxf(largest, magnitude) : largest;
    }
    largest = warp_max(largest);
    /* Bits of numbers that are not negative are in the order of the numbers. */
    float *slot = static_cast<float *>(p.largest.data) + offset(p.largest, at.batch, at.group, at.row / 128);
    if (threadIdx.x % LANES == 0 && largest > *static_cast<volatile float *>(slot)) {
        atomicMax(reinterpret_cast<unsigned *>(slot), attune_f32_to_bits(largest));
    }
}

/* The largest / 448, or 1 where there is nothing but 0. */
__device__ float descale_for(float largest) {
    return largest == 0.0f ? 1.0f : largest / E4M3_LARGEST;
}

__device__ float descale_of(const attune_cuda_quantize_params &p, const place &at) {
    const attune_cuda_operand &from = p.largest.data != nullptr ? p.largest : p.descale;
    const float x = static_cast<const float *>(from.data)[offset(from, at.batch, at.group, at.row / 128)];
    return p.largest.data != nullptr ? descale_for(x) : x;
}

__device__ void store(const attune_cuda_quantize_params &p, const place &at) {
    const float descale = descale_of(p, at);
    for (int element = threadIdx.x % LANES; element < p.head_dim; element += LANES) {
        const float scaled = descale == 0.0f ? 0.0f : load_x(p, at, element) / descale;
        store_as(p.y.data, offset(p.y, at.batch, at.row, at.head, element), ATTUNE_DTYPE_E4M3, scaled);
    }
}

__device__ void write_descales(const attune_cuda_quantize_params &p) {
    const int64_t count = p.descales[0] * p.descales[1] * p.descales[2];
    const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int64_t n = first; n < count; n += static_cast<int64_t>(gridDim.x) * blockDim.x) {
        const int64_t index =
            offset(p.descale, n / p.descales[2] / p.descales[1], n / p.descales[2] % p.descales[1], n % p.descales[2]);
        static_cast<float *>(p.descale.data)[index] = descale_for(static_cast<const float *>(p.largest.data)[n]);
    }
}

} // namespace

/* Work-groups go round, so that any number of vectors fits a launch. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_quantize_params p) {
    const int64_t vectors = p.batch * p.rows * p.heads;
    const int64_t first = static_cast<int64_t>(blockIdx.x) * WARPS + threadIdx.x / LANES;
    for (int64_t index = first; index < vectors; index += static_cast<int64_t>(gridDim.x) * WARPS) {
        place at;
        at.batch = index / p.heads / p.rows;
        at.row = index / p.heads % p.rows;
        at.head = index % p.heads;
        at.group = at.head / (p.heads / p.descales[1]);
        if (p.is_measure != 0) {
            measure(p, at);
        } else {
            store(p, at);
        }
    }
    if (p.is_measure == 0 && p.largest.data != nullptr) {
        write_descales(p);
    }
}
