/*
 * Elements in memory, as f32 and back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_ELEMENT_H
#define ATTUNE_CUDA_SM80_ELEMENT_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "attune/types.h"
#include "backends/cuda/operand.h"
#include "core/portable/convert.h"

namespace {

struct f32 {
    float bits;
};
struct f16 {
    __half bits;
};
struct bf16 {
    __nv_bfloat16 bits;
};
struct e4m3 {
    attune_u8 bits;
};

[[maybe_unused]] __device__ float value(f32 x) {
    return x.bits;
}
[[maybe_unused]] __device__ float value(f16 x) {
    return __half2float(x.bits);
}
[[maybe_unused]] __device__ float value(bf16 x) {
    return __bfloat162float(x.bits);
}
[[maybe_unused]] __device__ float value(e4m3 x) {
    return attune_f32_from_e4m3(x.bits);
}

[[maybe_unused]] __device__ float load_as(const void *data, int64_t index, int32_t dtype) {
    switch (dtype) {
    case ATTUNE_DTYPE_F16:
        return value(static_cast<const f16 *>(data)[index]);
    case ATTUNE_DTYPE_BF16:
        return value(static_cast<const bf16 *>(data)[index]);
    case ATTUNE_DTYPE_E4M3:
        return value(static_cast<const e4m3 *>(data)[index]);
    default:
        return static_cast<const float *>(data)[index];
    }
}

[[maybe_unused]] __device__ void store_as(void *data, int64_t index, int32_t dtype, float x) {
    switch (dtype) {
    case ATTUNE_DTYPE_F16:
        static_cast<__half *>(data)[index] = __float2half_rn(x);
        break;
    case ATTUNE_DTYPE_BF16:
        static_cast<__nv_bfloat16 *>(data)[index] = __float2bfloat16_rn(x);
        break;
    case ATTUNE_DTYPE_E4M3:
        static_cast<attune_u8 *>(data)[index] = attune_e4m3_from_f32(x);
        break;
    default:
        static_cast<float *>(data)[index] = x;
    }
}

[[maybe_unused]] __device__ int64_t offset(const attune_cuda_operand &operand, int64_t i0, int64_t i1, int64_t i2 = 0,
                                           int64_t i3 = 0) {
    return i0 * operand.stride[0] + i1 * operand.stride[1] + i2 * operand.stride[2] + i3 * operand.stride[3];
}

[[maybe_unused]] __device__ int64_t length_at(const attune_cuda_operand &lengths, int64_t index, int64_t absent) {
    return lengths.data == nullptr ? absent : static_cast<const int32_t *>(lengths.data)[index * lengths.stride[0]];
}

} // namespace

#endif
