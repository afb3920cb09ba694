/*
 * Calls every function of core/portable, so that compiling this for a target proves the headers for it. The value is
 * of no use but to keep the calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_PORTABLE_USE_ALL_H
#define ATTUNE_TESTS_PORTABLE_USE_ALL_H

#include "core/portable/convert.h"
#include "core/portable/mask.h"
#include "core/portable/philox.h"
#include "core/portable/softmax.h"
#include "core/portable/work.h"

ATTUNE_FN float attune_use_convert(float x) {
    return attune_f32_from_f16(attune_f16_from_f32(x)) + attune_f32_from_bf16(attune_bf16_from_f32(x)) +
           attune_f32_from_e4m3(attune_e4m3_from_f32(x));
}

ATTUNE_FN attune_i64 attune_use_mask(attune_i64 n) {
    attune_mask mask;
    mask.rows = n;
    mask.keys = 2 * n;
    mask.leftpad = 1;
    mask.shift = attune_mask_shift(true, 0, mask.rows, mask.keys);
    mask.left = -1;
    mask.right = 0;
    return attune_mask_keys(mask, 0, 1).end + attune_mask_rows(mask, 1, 1).begin + attune_mask_visible(mask, 0, n);
}

ATTUNE_FN attune_i64 attune_use_work(attune_i64 n) {
    const attune_work work = attune_work_unfold(n, 3, 2);
    const attune_packed packed = attune_packed_row(n, 4);
    attune_mask mask;
    attune_interval tiles;
    mask.rows = n;
    mask.keys = n;
    mask.leftpad = 0;
    mask.shift = 0;
    mask.left = 1;
    mask.right = 1;
    tiles = attune_interval_tiles(attune_mask_common_keys(mask, 0, 1), 16);
    return work.row_tile + work.split + work.batch_head + packed.row + packed.head +
           attune_split_tiles(tiles, 2, 1).begin + attune_partial_row(1, 2, n, 0, 0, 1, n);
}

ATTUNE_FN float attune_use_philox(attune_i64 n) {
    attune_dropout dropout;
    dropout.seed = (attune_u64)n;
    dropout.threshold = (attune_u64)n;
    dropout.batch_origin = n;
    dropout.head_origin = n;
    dropout.row_origin = n;
    dropout.key_origin = n;
    dropout.heads_total = 1;
    dropout.offset = 7;
    return attune_dropout_keeps(dropout, 1, 2, 3, n) ? 1.0f : ATTUNE_NAN;
}

ATTUNE_FN float attune_use_softmax(float x) {
    attune_softmax state = attune_softmax_empty();
    attune_softmax_merged merged;
    attune_softmax_result result;
    const float factor = attune_softmax_raise(&state, x);
    state.sum += attune_softmax_weight(x, attune_softmax_base(state.max));
    merged = attune_softmax_merge(state, attune_softmax_from_logit(x));
    result = attune_softmax_finish(merged.state);
    return factor + merged.factor_a + merged.factor_b + result.inverse + result.lse;
}

ATTUNE_FN float attune_use_all(float x, attune_i64 n) {
    return attune_use_convert(x) + (float)attune_use_mask(n) + (float)attune_use_work(n) + attune_use_philox(n) +
           attune_use_softmax(x);
}

#endif
