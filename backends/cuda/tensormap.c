/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/tensormap.h"

#include <inttypes.h>
#include <stdio.h>

#include "attune/backend_util.h"

/* CUDA driver API, cuTensorMapEncodeTiled. */
#define STRIDE_BYTES_MULTIPLE 16
#define STRIDE_BYTES_LIMIT    (INT64_C(1) << 40)

/* Coordinates are 32 bits, and a box may reach past the end. */
#define EXTENT_MAX (INT32_MAX - 256)

/* Axes of attune_layout for q, k, v and o. */
#define AXIS_S 1
#define AXES   "bshd"

static bool stride_is_possible(int64_t stride_bytes) {
    return stride_bytes % STRIDE_BYTES_MULTIPLE == 0 && stride_bytes < STRIDE_BYTES_LIMIT;
}

bool attune_cuda_boxes_possible(const attune_layout *layout, const char *operand, char reason[ATTUNE_REASON_MAX]) {
    const int64_t element_bytes = attune_element_bytes(layout->dtype);
    for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
        const int64_t extent = layout->shape[axis];
        if (extent > EXTENT_MAX) {
            snprintf(reason, ATTUNE_REASON_MAX, "%s has %" PRId64 " elements along axis %c, more than %d", operand,
                     extent, AXES[axis], EXTENT_MAX);
            return false;
        }
        if (extent == 0) {
            snprintf(reason, ATTUNE_REASON_MAX, "%s has no elements", operand);
            return false;
        }
        if (axis + 1 == ATTUNE_RANK_MAX || extent == 1) {
            continue;
        }
        if (axis == AXIS_S && layout->stride[axis] == 0) {
            snprintf(reason, ATTUNE_REASON_MAX, "%s has stride 0 along axis s", operand);
            return false;
        }
        if (!stride_is_possible(layout->stride[axis] * element_bytes)) {
            snprintf(reason, ATTUNE_REASON_MAX,
                     "%s has a stride of %" PRId64 " bytes along axis %c, not a multiple of %d below 2^40", operand,
                     layout->stride[axis] * element_bytes, AXES[axis], STRIDE_BYTES_MULTIPLE);
            return false;
        }
    }
    return true;
}

attune_status attune_cuda_tensormap_encode(const struct attune_cuda_api *api, const struct attune_cuda_boxes *boxes,
                                           CUtensorMap *out_map) {
    cuuint64_t extent[ATTUNE_CUDA_MAP_RANK_MAX];
    cuuint64_t stride_bytes[ATTUNE_CUDA_MAP_RANK_MAX];
    cuuint32_t box[ATTUNE_CUDA_MAP_RANK_MAX];
    const cuuint32_t each[ATTUNE_CUDA_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    for (int axis = 0; axis < boxes->rank; axis++) {
        /* Along an axis of stride 0 every coordinate is 0, and along one of extent 1 the stride is not looked at. */
        const bool is_single = axis > 0 && (boxes->stride[axis] == 0 || boxes->extent[axis] == 1);
        extent[axis] = is_single ? 1 : (cuuint64_t)boxes->extent[axis];
        box[axis] = (cuuint32_t)boxes->box[axis];
        if (axis > 0) {
            const int64_t stride = boxes->stride[axis] * attune_element_bytes(boxes->dtype);
            stride_bytes[axis - 1] = is_single ? STRIDE_BYTES_MULTIPLE : (cuuint64_t)stride;
        }
    }
    const CUtensorMapDataType type =
        boxes->dtype == ATTUNE_DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    const CUtensorMapL2promotion fetch =
        boxes->is_read_once ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    return attune_cuda_check(api,
                             api->TensorMapEncodeTiled(out_map, type, (cuuint32_t)boxes->rank, boxes->data, extent,
                                                       stride_bytes, box, each, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                                       CU_TENSOR_MAP_SWIZZLE_128B, fetch,
                                                       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                             "cuTensorMapEncodeTiled");
}
