/*
 * Tensor maps: what the copy engine of compute capability 9.0 knows of a tensor. They hold its address, so they are
 * encoded at each run.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_TENSORMAP_H
#define ATTUNE_CUDA_TENSORMAP_H

#include "backends/cuda/api.h"

#define ATTUNE_CUDA_MAP_RANK_MAX 5

/* A tensor and the boxes that it is copied in, axes from the contiguous one outwards. */
struct attune_cuda_boxes {
    attune_dtype dtype; /* f16 or bf16 */
    int rank;
    void *data;
    int64_t extent[ATTUNE_CUDA_MAP_RANK_MAX]; /* 1 or more */
    int64_t stride[ATTUNE_CUDA_MAP_RANK_MAX]; /* in elements; that of the first axis is 1 */
    int64_t box[ATTUNE_CUDA_MAP_RANK_MAX];    /* 1 to 256. The first: 128 bytes, which are swizzled */
    bool is_read_once; /* fetched by 128 bytes, not 256: the other half may not last in the L2 cache until it is asked
                          for */
};

/* Whether the engine can follow a layout (b, s, h, d): strides of whole 16 bytes below 2^40 bytes, and extents and
 * strides that an index can be a coordinate of. reason names the operand, its value and the rule. */
bool attune_cuda_boxes_possible(const attune_layout *layout, const char *operand, char reason[ATTUNE_REASON_MAX]);

attune_status attune_cuda_tensormap_encode(const struct attune_cuda_api *api, const struct attune_cuda_boxes *boxes,
                                           CUtensorMap *out_map);

#endif
