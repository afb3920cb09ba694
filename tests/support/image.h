/*
 * A small problem of every operation, whose tensors lie in one piece of memory: the same struct is copied to a device
 * and back as it is, and the same args are made for any memory that holds it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_IMAGE_H
#define ATTUNE_TESTS_IMAGE_H

#include "attune/attune.h"

/* name, element, dtype, rank, shape. Batch 2, 5 rows of 4 heads, 7 keys of 2 heads, head_dim 8. */
#define IMAGE_TENSORS(TENSOR)                                                                                          \
    TENSOR(q, float, F32, 4, 2, 5, 4, 8)                                                                               \
    TENSOR(k, float, F32, 4, 2, 7, 2, 8)                                                                               \
    TENSOR(v, float, F32, 4, 2, 7, 2, 8)                                                                               \
    TENSOR(o, float, F32, 4, 2, 5, 4, 8)                                                                               \
    TENSOR(lse, float, F32, 3, 2, 4, 5, 1)                                                                             \
    TENSOR(lengths, int32_t, I32, 1, 2, 1, 1, 1) /* seqused_k */                                                       \
    TENSOR(dout, float, F32, 4, 2, 5, 4, 8)                                                                            \
    TENSOR(dq, float, F32, 4, 2, 5, 4, 8)                                                                              \
    TENSOR(dk, float, F32, 4, 2, 7, 2, 8)                                                                              \
    TENSOR(dv, float, F32, 4, 2, 7, 2, 8)                                                                              \
    TENSOR(merged_o, float, F32, 4, 2, 5, 4, 8) /* of (o, lse) and (dout, other_lse) */                                \
    TENSOR(merged_lse, float, F32, 3, 2, 4, 5, 1)                                                                      \
    TENSOR(other_lse, float, F32, 3, 2, 4, 5, 1)                                                                       \
    TENSOR(new_k, float, F32, 4, 2, 1, 2, 8) /* appended at lengths */                                                 \
    TENSOR(new_v, float, F32, 4, 2, 1, 2, 8)                                                                           \
    TENSOR(stored, uint8_t, E4M3, 4, 2, 5, 4, 8) /* q, quantized */                                                    \
    TENSOR(descale, float, F32, 2, 2, 4, 1, 1)

struct image {
#define TENSOR(name, element, dtype, rank, a, b, c, d) _Alignas(16) element name[(a) * (b) * (c) * (d)];
    IMAGE_TENSORS(TENSOR)
#undef TENSOR
};

/* image_q(data) and so on: the tensor, in memory that holds an image from data on. */
#define TENSOR(name, element, dtype, rank, a, b, c, d)                                                                 \
    static inline attune_tensor image_##name(void *data) {                                                             \
        attune_tensor tensor = attune_tensor_contiguous(data, ATTUNE_DTYPE_##dtype, rank, (int64_t[]){a, b, c, d});    \
        tensor.byte_offset = offsetof(struct image, name);                                                             \
        return tensor;                                                                                                 \
    }
IMAGE_TENSORS(TENSOR)
#undef TENSOR

/* Values from -1 to 1 that depend on the seed alone, and lengths of 3 and 6 keys; outputs are 0. */
void image_fill(struct image *image, uint32_t seed);

/* A causal forward with lengths, and its backward. */
attune_forward_args image_forward_args(void *data);
attune_backward_args image_backward_args(void *data);

/* Forward, backward, merge, append and quantize, in this order. */
attune_status image_run_all(attune_device *device, attune_stream *stream, void *data);

/* Copies, in the order of the stream. */
attune_status image_upload(attune_device *device, attune_stream *stream, void *data, const struct image *image);
attune_status image_download(attune_device *device, attune_stream *stream, struct image *image, const void *data);

#endif
