/*
 * The sequence and head that a work-group is in, and where its rows and keys lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_PLACE_H
#define ATTUNE_CUDA_SM80_PLACE_H

#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/fwd.h"
#include "core/portable/mask.h"

namespace {

struct place {
    int64_t batch, head, kv_head;
    int64_t row_begin, key_begin; /* along axis s */
    attune_mask mask;
};

[[maybe_unused]] __device__ place find_place(const attune_cuda_forward_params &p, int64_t batch_head) {
    place at;
    at.batch = batch_head / p.heads_q;
    at.head = batch_head % p.heads_q;
    at.kv_head = at.head / (p.heads_q / p.heads_kv);
    at.row_begin = length_at(p.cu_seqlens_q, at.batch, 0);
    at.key_begin = length_at(p.cu_seqlens_k, at.batch, 0);
    at.mask.rows = length_at(p.cu_seqlens_q, at.batch + 1, p.rows) - at.row_begin;
    at.mask.keys = length_at(p.cu_seqlens_k, at.batch + 1, p.keys) - at.key_begin;
    /* A length that lies is cut to the capacity, past which nothing may be read. */
    at.mask.rows = attune_clamp(length_at(p.seqused_q, at.batch, at.mask.rows), 0, p.rows);
    at.mask.keys = attune_clamp(length_at(p.seqused_k, at.batch, at.mask.keys), 0, p.keys);
    at.mask.leftpad = attune_clamp(length_at(p.leftpad_k, at.batch, 0), 0, at.mask.keys);
    at.mask.shift = attune_mask_shift(p.bottom_right != 0, p.diagonal, at.mask.rows, at.mask.keys);
    at.mask.left = p.window_left;
    at.mask.right = p.window_right;
    return at;
}

[[maybe_unused]] __device__ int64_t kv_offset(const attune_cuda_forward_params &p, const attune_cuda_operand &kv,
                                              const place &at, int64_t key) {
    if (p.page_size == 0) {
        return offset(kv, at.batch, at.key_begin + key, at.kv_head);
    }
    const int64_t page =
        static_cast<const int32_t *>(p.block_table.data)[offset(p.block_table, at.batch, key / p.page_size)];
    return offset(kv, page, key % p.page_size, at.kv_head);
}

} // namespace

#endif
