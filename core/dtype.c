/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/types.h"

#include <string.h>

#include "attune/backend_util.h"

size_t attune_dtype_size_bytes(attune_dtype dtype) {
    return (size_t)attune_element_bytes(dtype);
}

const char *attune_dtype_name(attune_dtype dtype) {
    static const char *const names[] = {
        [ATTUNE_DTYPE_NONE] = "none", [ATTUNE_DTYPE_F32] = "f32",   [ATTUNE_DTYPE_F16] = "f16",
        [ATTUNE_DTYPE_BF16] = "bf16", [ATTUNE_DTYPE_E4M3] = "e4m3", [ATTUNE_DTYPE_U8] = "u8",
        [ATTUNE_DTYPE_I32] = "i32",   [ATTUNE_DTYPE_U32] = "u32",   [ATTUNE_DTYPE_U64] = "u64",
        [ATTUNE_DTYPE_F64] = "f64",
    };
    size_t index = (size_t)dtype;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

attune_tensor attune_tensor_contiguous(void *data, attune_dtype dtype, int32_t rank, const int64_t *shape) {
    attune_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    if (rank < 1 || rank > ATTUNE_RANK_MAX || shape == NULL) {
        return tensor;
    }
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = rank;
    /* Unsigned: a product that overflows is refused by the call that the tensor is passed to. */
    uint64_t stride = 1;
    for (int32_t axis = rank; axis-- > 0;) {
        tensor.shape[axis] = shape[axis];
        tensor.stride[axis] = (int64_t)stride;
        stride *= shape[axis] == 0 ? 1 : (uint64_t)shape[axis];
    }
    return tensor;
}
