/*
 * One score: who sees whom, and what is done to a product of q and k; and whether dropout keeps it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_SCORE_H
#define ATTUNE_CUDA_SM80_SCORE_H

#include "backends/cuda/sm80/place.h"
#include "core/portable/philox.h"
#include "core/portable/softmax.h"

namespace {

[[maybe_unused]] __device__ float descale_of(const attune_cuda_operand &descale, const place &at, int64_t position) {
    return descale.data == nullptr
               ? 1.0f
               : static_cast<const float *>(descale.data)[offset(descale, at.batch, at.kv_head, position / 128)];
}

[[maybe_unused]] __device__ bool block_is_listed(const attune_cuda_forward_params &p, const place &at, int64_t row,
                                                 int64_t key) {
    const int32_t *row_ptr = static_cast<const int32_t *>(p.block_row_ptr.data);
    const int32_t *col_idx = static_cast<const int32_t *>(p.block_col_idx.data);
    const int64_t entry = row / p.block_rows;
    const int64_t wanted = key / p.block_keys;
    int64_t low = row_ptr[offset(p.block_row_ptr, at.head, entry)];
    const int64_t end = row_ptr[offset(p.block_row_ptr, at.head, entry + 1)];
    int64_t high = end;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (col_idx[middle * p.block_col_idx.stride[0]] < wanted) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < end && col_idx[low * p.block_col_idx.stride[0]] == wanted;
}

[[maybe_unused]] __device__ bool is_visible(const attune_cuda_forward_params &p, const place &at, int64_t row,
                                            int64_t key) {
    if (row >= at.mask.rows || !attune_mask_visible(at.mask, row, key)) {
        return false;
    }
    if (p.mask.data != nullptr &&
        static_cast<const attune_u8 *>(p.mask.data)[offset(p.mask, at.batch, at.head, row, key)] == 0) {
        return false;
    }
    return p.block_row_ptr.data == nullptr || block_is_listed(p, at, row, key);
}

/* s of a visible key, from q . k. */
[[maybe_unused]] __device__ float finish_score(const attune_cuda_forward_params &p, const place &at, int64_t row,
                                               int64_t key, float dot) {
    float score = p.scale * dot;
    if (p.softcap > 0.0f) {
        score = p.softcap * tanhf(score / p.softcap);
    }
    if (p.bias.data != nullptr) {
        score += load_as(p.bias.data, offset(p.bias, at.batch, at.head, row, key), p.bias_dtype);
    }
    if (p.alibi_slopes.data != nullptr) {
        const float slope = static_cast<const float *>(p.alibi_slopes.data)[offset(p.alibi_slopes, at.batch, at.head)];
        const int64_t distance = row + at.mask.shift - key;
        score -= slope * static_cast<float>(distance < 0 ? -distance : distance);
    }
    return score;
}

[[maybe_unused]] __device__ attune_dropout make_dropout(const attune_cuda_forward_params &p) {
    attune_dropout dropout;
    dropout.seed = p.dropout_seed.data != nullptr ? *static_cast<const attune_u64 *>(p.dropout_seed.data) : p.seed;
    dropout.offset =
        p.dropout_offset.data != nullptr ? *static_cast<const attune_u32 *>(p.dropout_offset.data) : p.offset;
    dropout.threshold = p.dropout_threshold;
    dropout.batch_origin = p.batch_origin;
    dropout.head_origin = p.head_origin;
    dropout.row_origin = p.row_origin;
    dropout.key_origin = p.key_origin;
    dropout.heads_total = p.heads_total;
    return dropout;
}

} // namespace

#endif
