/* SPDX-License-Identifier: Apache-2.0 */
#include "feature.h"

/* ---- Who sees whom ---- */

static void set_causal(struct conform_options *o) {
    o->causal = true;
}
static void set_top_left(struct conform_options *o) {
    o->align = ATTUNE_ALIGN_TOP_LEFT;
}
static void set_diagonal(struct conform_options *o) {
    o->align = ATTUNE_ALIGN_DIAGONAL;
    o->diagonal = -2; /* two rows see nothing when causal */
}
static void set_window(struct conform_options *o) {
    o->window = ATTUNE_WINDOW(4, 2);
}
static void set_window_left(struct conform_options *o) {
    o->window = ATTUNE_WINDOW(3, -1);
}
static void set_window_right(struct conform_options *o) {
    o->window = ATTUNE_WINDOW(-1, 2);
}
static void set_mask(struct conform_options *o) {
    o->mask.axes = "bhij";
}
static void set_mask_keys(struct conform_options *o) {
    o->mask.axes = "bj";
}
static void set_sparse_shared(struct conform_options *o) {
    o->sparse = CONFORM_SPARSE_SHARED;
}
static void set_sparse_heads(struct conform_options *o) {
    o->sparse = CONFORM_SPARSE_HEADS;
}

/* ---- The score ---- */

static void set_softcap(struct conform_options *o) {
    o->softcap = 1.5;
}
static void set_bias(struct conform_options *o) {
    o->bias.axes = "bhij";
}
static void set_bias_as_q(struct conform_options *o) {
    o->bias = (struct conform_broadcast){"ij", false, true, true};
}
static void set_bias_keys(struct conform_options *o) {
    o->bias.axes = "bj";
}
static void set_bias_heads(struct conform_options *o) {
    o->bias = (struct conform_broadcast){"hij", true, false, false};
}
static void set_bias_rows(struct conform_options *o) {
    o->bias.axes = "i";
}
static void set_alibi(struct conform_options *o) {
    o->slopes = CONFORM_SLOPES_HEADS;
}
static void set_alibi_batch(struct conform_options *o) {
    o->slopes = CONFORM_SLOPES_BATCH_HEADS;
}
static void set_sink(struct conform_options *o) {
    o->sink = true;
}
static void set_scale_negative(struct conform_options *o) {
    o->scale = -0.3;
}
static void set_scale_zero(struct conform_options *o) {
    o->has_scale = true;
    o->scale = 0;
}

/* ---- Lengths ---- */

static void set_varlen_q(struct conform_options *o) {
    o->q.ragged = true;
}
static void set_varlen_k(struct conform_options *o) {
    o->k.ragged = true;
}
static void set_varlen(struct conform_options *o) {
    o->q.ragged = o->k.ragged = true;
}
static void set_used_q(struct conform_options *o) {
    o->q.used = true;
}
static void set_used_k(struct conform_options *o) {
    o->k.used = true;
}
static void set_leftpad(struct conform_options *o) {
    o->leftpad = true;
}
static void set_paged(struct conform_options *o) {
    o->page_size = 4;
}
static void set_single_row(struct conform_options *o) {
    o->rows = 1;
}

/* ---- Dropout ---- */

static void set_dropout(struct conform_options *o) {
    o->dropout_rate = 0.3;
}
static void set_dropout_memory(struct conform_options *o) {
    o->dropout_memory = true;
}
static void set_origins(struct conform_options *o) {
    o->origins = true;
}

/* ---- Heads ---- */

static void set_gqa(struct conform_options *o) {
    o->heads_q = 6;
    o->heads_kv = 2;
}
static void set_mqa(struct conform_options *o) {
    o->heads_q = 4;
    o->heads_kv = 1;
}
static void set_head_odd(struct conform_options *o) {
    o->head_dim_v = o->head_dim_v == o->head_dim ? 13 : o->head_dim_v;
    o->head_dim = 13;
}
static void set_head_v(struct conform_options *o) {
    o->head_dim_v = 24;
}

/* ---- Numbers ---- */

static void set_descale_one(struct conform_options *o) {
    o->descale = CONFORM_DESCALE_ONE;
}
static void set_descale_heads(struct conform_options *o) {
    o->descale = CONFORM_DESCALE_HEADS;
}
static void set_descale_blocks(struct conform_options *o) {
    o->descale = CONFORM_DESCALE_BLOCKS;
    o->keys = 150;
}
static void set_outliers(struct conform_options *o) {
    o->values = CONFORM_VALUES_OUTLIERS;
}
static void set_large(struct conform_options *o) {
    o->values = CONFORM_VALUES_LARGE;
}
/* In one row: nothing of it may come to other rows, and to keys that it does not see. Softcap makes an ordinary score
 * of an infinite one. */
static void set_q_infinite(struct conform_options *o) {
    o->inject = CONFORM_INJECT_Q_INFINITE;
    o->softcap = 5;
}
static void set_dout_nan(struct conform_options *o) {
    o->inject = CONFORM_INJECT_DOUT_NAN;
}

/* ---- Memory ---- */

static void set_bhsd(struct conform_options *o) {
    o->transposed = CONFORM_TRANSPOSED_ALL;
}
static void set_padded(struct conform_options *o) {
    o->padded = true;
}
static void set_packed_qkv(struct conform_options *o) {
    o->family = CONFORM_FAMILY_PACKED_QKV;
}
static void set_pool_kv(struct conform_options *o) {
    o->family = CONFORM_FAMILY_POOL_KV;
}
static void set_v_in_k(struct conform_options *o) {
    o->family = CONFORM_FAMILY_V_IN_K;
    o->head_dim_v = 8;
}
static void set_shared_heads(struct conform_options *o) {
    o->family = CONFORM_FAMILY_SHARED_HEADS;
}
static void set_misaligned(struct conform_options *o) {
    o->misaligned = true;
}
static void set_in_place(struct conform_options *o) {
    o->in_place = true;
}

/* ---- Outputs ---- */

static void set_out_f32(struct conform_options *o) {
    o->out_dtype = ATTUNE_DTYPE_F32;
}
static void set_grad_f32(struct conform_options *o) {
    o->grad_dtype = ATTUNE_DTYPE_F32;
}
static void set_no_lse(struct conform_options *o) {
    o->no_lse = true;
}
static void set_probs(struct conform_options *o) {
    o->probs = true;
}
static void set_dlse(struct conform_options *o) {
    o->dlse = true;
}
static void set_no_dq(struct conform_options *o) {
    o->no_dq = true;
}
static void set_no_dkv(struct conform_options *o) {
    o->no_dkv = true;
}

/* ---- How ---- */

static void set_splits(struct conform_options *o) {
    o->splits = 3;
}
static void set_tile(struct conform_options *o) {
    o->tile_rows = 16;
    o->tile_keys = 32;
}
static void set_deterministic(struct conform_options *o) {
    o->deterministic = true;
}
static void set_check(struct conform_options *o) {
    o->check = true;
}
static void set_planned(struct conform_options *o) {
    o->planned = true;
}
static void set_default_stream(struct conform_options *o) {
    o->default_stream = true;
}

enum {
    GROUP_ALIGN = 1 << 0,
    GROUP_WINDOW = 1 << 1,
    GROUP_MASK = 1 << 2,
    GROUP_SPARSE = 1 << 3,
    GROUP_BIAS = 1 << 4,
    GROUP_ALIBI = 1 << 5,
    GROUP_SCALE = 1 << 6,
    GROUP_ROWS = 1 << 7,
    GROUP_KEYS = 1 << 8,
    GROUP_HEADS = 1 << 9,
    GROUP_HEAD_V = 1 << 10,
    GROUP_DESCALE = 1 << 11,
    GROUP_VALUES = 1 << 12,
    GROUP_LAYOUT = 1 << 13,
    GROUP_DTYPE = 1 << 14, /* e4m3 against o that is q */
    GROUP_OUT = 1 << 15,
    GROUP_GRADIENTS = 1 << 16,
    GROUP_INJECT = 1 << 17
};

#define FORWARD  CONFORM_PASS_FORWARD
#define BACKWARD CONFORM_PASS_BACKWARD
#define BOTH     CONFORM_PASS_BOTH

const struct conform_feature conform_features[] = {
    {"causal", BOTH, 0, true, set_causal},
    {"top_left", BOTH, GROUP_ALIGN, true, set_top_left},
    {"diagonal", BOTH, GROUP_ALIGN, true, set_diagonal},
    {"window", BOTH, GROUP_WINDOW, true, set_window},
    {"window_left", BOTH, GROUP_WINDOW, true, set_window_left},
    {"window_right", BOTH, GROUP_WINDOW, true, set_window_right},
    {"mask", BOTH, GROUP_MASK, true, set_mask},
    {"mask_keys", BOTH, GROUP_MASK, true, set_mask_keys},
    {"sparse_shared", BOTH, GROUP_SPARSE, true, set_sparse_shared},
    {"sparse_heads", BOTH, GROUP_SPARSE, true, set_sparse_heads},
    {"softcap", BOTH, 0, true, set_softcap},
    {"bias", BOTH, GROUP_BIAS, true, set_bias},
    {"bias_as_q", BOTH, GROUP_BIAS, true, set_bias_as_q},
    {"bias_keys", BOTH, GROUP_BIAS, true, set_bias_keys},
    {"bias_heads", BOTH, GROUP_BIAS, true, set_bias_heads},
    {"bias_rows", BOTH, GROUP_BIAS, false, set_bias_rows}, /* softmax does not see it, dbias does */
    {"alibi", BOTH, GROUP_ALIBI, true, set_alibi},
    {"alibi_batch", BOTH, GROUP_ALIBI, true, set_alibi_batch},
    {"sink", BOTH, 0, true, set_sink},
    {"scale_negative", BOTH, GROUP_SCALE, true, set_scale_negative},
    {"scale_zero", BOTH, GROUP_SCALE, true, set_scale_zero},
    {"varlen_q", BOTH, GROUP_ROWS, false, set_varlen_q},
    {"varlen_k", BOTH, GROUP_KEYS, false, set_varlen_k},
    {"varlen", BOTH, GROUP_ROWS | GROUP_KEYS, false, set_varlen},
    {"used_q", BOTH, 0, false, set_used_q},
    {"used_k", BOTH, 0, true, set_used_k},
    {"leftpad", BOTH, 0, true, set_leftpad},
    {"paged", FORWARD, GROUP_KEYS, false, set_paged},
    {"single_row", BOTH, 0, false, set_single_row},
    {"dropout", BOTH, 0, true, set_dropout},
    {"dropout_memory", BOTH, 0, true, set_dropout_memory},
    {"origins", BOTH, 0, true, set_origins},
    {"gqa", BOTH, GROUP_HEADS, false, set_gqa},
    {"mqa", BOTH, GROUP_HEADS, false, set_mqa},
    {"head_odd", BOTH, 0, false, set_head_odd},
    {"head_v", BOTH, GROUP_HEAD_V, false, set_head_v},
    {"descale_one", BOTH, GROUP_DESCALE | GROUP_DTYPE, true, set_descale_one},
    {"descale_heads", BOTH, GROUP_DESCALE | GROUP_DTYPE, true, set_descale_heads},
    {"descale_blocks", BOTH, GROUP_DESCALE | GROUP_DTYPE, true, set_descale_blocks},
    {"outliers", BOTH, GROUP_VALUES, false, set_outliers},
    {"large", BOTH, GROUP_VALUES, false, set_large},
    {"q_infinite", BOTH, GROUP_INJECT, false, set_q_infinite},
    {"dout_nan", BACKWARD, GROUP_INJECT, false, set_dout_nan},
    {"bhsd", BOTH, GROUP_LAYOUT, false, set_bhsd},
    {"padded", BOTH, GROUP_LAYOUT, false, set_padded},
    {"packed_qkv", BOTH, GROUP_LAYOUT, false, set_packed_qkv},
    {"pool_kv", BOTH, GROUP_LAYOUT, false, set_pool_kv},
    {"v_in_k", BOTH, GROUP_LAYOUT | GROUP_HEAD_V, false, set_v_in_k},
    {"shared_heads", BOTH, GROUP_LAYOUT, false, set_shared_heads},
    {"misaligned", BOTH, 0, false, set_misaligned},
    {"in_place", FORWARD, GROUP_DTYPE | GROUP_OUT | GROUP_HEAD_V, false, set_in_place},
    {"out_f32", BOTH, GROUP_OUT, false, set_out_f32},
    {"grad_f32", BACKWARD, GROUP_OUT, false, set_grad_f32},
    {"no_lse", FORWARD, 0, false, set_no_lse},
    {"probs", FORWARD, 0, false, set_probs},
    {"dlse", BACKWARD, 0, false, set_dlse},
    {"no_dq", BACKWARD, GROUP_GRADIENTS, false, set_no_dq},
    {"no_dkv", BACKWARD, GROUP_GRADIENTS, false, set_no_dkv},
    {"splits", BOTH, 0, false, set_splits},
    {"tile", BOTH, 0, false, set_tile},
    {"deterministic", BOTH, 0, false, set_deterministic},
    {"check", BOTH, 0, false, set_check},
    {"planned", BOTH, 0, false, set_planned},
    {"default_stream", BOTH, 0, false, set_default_stream},
};

const int conform_feature_count = sizeof conform_features / sizeof conform_features[0];

bool conform_feature_is_in(const struct conform_feature *feature, attune_op op) {
    return feature->passes & (op == ATTUNE_OP_BACKWARD ? BACKWARD : FORWARD);
}
