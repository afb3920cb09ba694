/*
 * What right args become: layouts in canonical axes, features, and one spelling for what means the same.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdio.h>

#include "attune/status.h"
#include "core/operand.h"
#include "core/problem.h"
#include "tests/support/call_text.h"

#define DENSE    "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) "
#define SQUARE   "q=f16(2,7,3,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,7,3,4) "
#define BACKWARD DENSE "lse=f32(2,6,5) dout=f16(2,5,6,4) "
#define PACKED   "q=f16(10,6,8) v=f16(14,3,4) k=f16(14,3,8) o=f16(10,6,4) cu_seqlens_q=i32(3) cu_seqlens_k=i32(3) "
#define PAGED                                                                                                          \
    "q=f16(2,5,6,8) k=f16(9,16,3,8) v=f16(9,16,3,4) o=f16(2,5,6,4) block_table=i32(2,4) page_size=16 "                 \
    "seqused_k=i32(2) "
#define E4M3   "q=e4m3(2,5,6,8) k=e4m3(2,300,3,8) v=e4m3(2,300,3,4) o=bf16(2,5,6,4) "
#define APPEND "k_cache=f16(2,32,3,8) v_cache=f16(2,32,3,4) k_new=f16(2,5,3,8) v_new=f16(2,5,3,4) "
#define MERGE  "parts=3 part_o=f16(2,5,6,4) part_lse=f32(2,6,5) o=f16(2,5,6,4) "

static struct call_text text;

static struct attune_call make(attune_op op, const char *assignments) {
    struct attune_call call;
    call_text_init(op, &text);
    call_text_apply(&text, assignments);
    if (attune_call_make(op, &text.args, &call) != ATTUNE_OK) {
        fail_msg("%s: %s", assignments, attune_last_error());
    }
    return call;
}

/* ---- Layouts ---- */

struct layout_row {
    attune_op op;
    const char *assignments;
    attune_operand operand;
    int64_t shape[4];
    int64_t stride[4];
};

#define ROW(op, assignments, operand, ...)                                                                             \
    { ATTUNE_OP_##op, assignments, ATTUNE_OPERAND_##operand, __VA_ARGS__ }

static const struct layout_row layout_rows[] = {
    ROW(FORWARD, DENSE, Q, {2, 5, 6, 8}, {240, 48, 8, 1}),
    ROW(FORWARD, DENSE "k.stride[1]=8 k.stride[2]=56", K, {2, 7, 3, 8}, {168, 8, 56, 1}), /* BHSD */
    ROW(FORWARD, DENSE, V, {2, 7, 3, 4}, {84, 12, 4, 1}),
    ROW(FORWARD, DENSE "o.stride[1]=4 o.stride[2]=20", O, {2, 5, 6, 4}, {120, 4, 20, 1}),
    ROW(FORWARD, DENSE "k.stride[0]=0", K, {2, 7, 3, 8}, {0, 24, 8, 1}),
    ROW(FORWARD, DENSE "lse=f32(2,6,5)", LSE, {2, 6, 5, 1}, {30, 5, 1, 0}),
    ROW(FORWARD, DENSE "probs=f32(2,6,5,7)", PROBS, {2, 6, 5, 7}, {210, 35, 7, 1}),
    ROW(FORWARD, DENSE, BIAS, {0}, {0}),
    ROW(FORWARD, DENSE "bias=f32(2,6,5,7)", BIAS, {2, 6, 5, 7}, {210, 35, 7, 1}),
    ROW(FORWARD, DENSE "bias=f16(2,1,5,7)", BIAS, {2, 1, 5, 7}, {35, 0, 7, 1}),
    ROW(FORWARD, DENSE "bias=f32(6,1,7)", BIAS, {1, 6, 1, 7}, {0, 7, 0, 1}),
    ROW(FORWARD, DENSE "bias=f32(5,1)", BIAS, {1, 1, 5, 1}, {0, 0, 1, 0}),
    ROW(FORWARD, DENSE "bias=f32(7)", BIAS, {1, 1, 1, 7}, {0, 0, 0, 1}),
    ROW(FORWARD, DENSE "bias=f32(1)", BIAS, {1, 1, 1, 1}, {0, 0, 0, 0}),
    ROW(FORWARD, DENSE "bias=f32(5,7) bias.stride[1]=0", BIAS, {1, 1, 5, 7}, {0, 0, 7, 0}),
    ROW(FORWARD, DENSE "mask=u8(2,1,1,7)", MASK, {2, 1, 1, 7}, {7, 0, 0, 1}),
    ROW(FORWARD, DENSE "mask=u8(2,1,5,7) mask.stride[3]=2", MASK, {2, 1, 5, 7}, {35, 0, 7, 2}),
    ROW(FORWARD, DENSE "alibi_slopes=f32(6)", ALIBI_SLOPES, {1, 6, 1, 1}, {0, 1, 0, 0}),
    ROW(FORWARD, DENSE "alibi_slopes=f32(2,6)", ALIBI_SLOPES, {2, 6, 1, 1}, {6, 1, 0, 0}),
    ROW(FORWARD, DENSE "sink=f32(6) sink.stride[0]=0", SINK, {6, 1, 1, 1}, {0, 0, 0, 0}),
    ROW(FORWARD, DENSE "seqused_q=i32(2) seqused_q.stride[0]=3", SEQUSED_Q, {2, 1, 1, 1}, {3, 0, 0, 0}),
    ROW(FORWARD, DENSE "leftpad_k=i32(2)", LEFTPAD_K, {2, 1, 1, 1}, {1, 0, 0, 0}),
    ROW(FORWARD, DENSE "block_row_ptr=i32(3) block_col_idx=i32(9) block_rows=3 block_keys=2", BLOCK_ROW_PTR,
        {1, 3, 1, 1}, {0, 1, 0, 0}),
    ROW(FORWARD, DENSE "block_row_ptr=i32(6) block_col_idx=i32(9) block_rows=1 block_keys=1", BLOCK_ROW_PTR,
        {1, 6, 1, 1}, {0, 1, 0, 0}),
    ROW(FORWARD, DENSE "block_row_ptr=i32(6,3) block_col_idx=i32(9) block_rows=3 block_keys=2", BLOCK_ROW_PTR,
        {6, 3, 1, 1}, {3, 1, 0, 0}),
    ROW(FORWARD, DENSE "block_row_ptr=i32(3) block_col_idx=i32(0) block_rows=3 block_keys=2", BLOCK_COL_IDX,
        {0, 1, 1, 1}, {0, 0, 0, 0}),
    ROW(FORWARD, DENSE "dropout_rate=0.5 dropout_seed_memory=u64(1)", DROPOUT_SEED, {1, 1, 1, 1}, {0, 0, 0, 0}),
    ROW(FORWARD, PACKED, Q, {1, 10, 6, 8}, {0, 48, 8, 1}),
    ROW(FORWARD, PACKED, K, {1, 14, 3, 8}, {0, 24, 8, 1}),
    ROW(FORWARD, PACKED, V, {1, 14, 3, 4}, {0, 12, 4, 1}),
    ROW(FORWARD, PACKED, O, {1, 10, 6, 4}, {0, 24, 4, 1}),
    ROW(FORWARD, PACKED "lse=f32(6,10)", LSE, {1, 6, 10, 1}, {0, 10, 1, 0}),
    ROW(FORWARD, PACKED, CU_SEQLENS_Q, {3, 1, 1, 1}, {1, 0, 0, 0}),
    ROW(FORWARD, PACKED "max_seqlen_q=8 max_seqlen_k=9 bias=f32(2,6,8,9)", BIAS, {2, 6, 8, 9}, {432, 72, 9, 1}),
    ROW(FORWARD, PAGED, K, {9, 16, 3, 8}, {384, 24, 8, 1}),
    ROW(FORWARD, PAGED, V, {9, 16, 3, 4}, {192, 12, 4, 1}),
    ROW(FORWARD, PAGED, BLOCK_TABLE, {2, 4, 1, 1}, {4, 1, 0, 0}),
    ROW(FORWARD, PAGED "mask=u8(64)", MASK, {1, 1, 1, 64}, {0, 0, 0, 1}),
    ROW(FORWARD, E4M3 "descale_q=f32(1)", DESCALE_Q, {1, 1, 1, 1}, {0, 0, 0, 0}),
    ROW(FORWARD, E4M3 "descale_q=f32(2,3)", DESCALE_Q, {2, 3, 1, 1}, {3, 1, 0, 0}),
    ROW(FORWARD, E4M3 "descale_k=f32(2,3)", DESCALE_K, {2, 3, 1, 1}, {3, 1, 0, 0}),
    ROW(FORWARD, E4M3 "descale_k=f32(2,3,3)", DESCALE_K, {2, 3, 3, 1}, {9, 3, 1, 0}),
    ROW(FORWARD, E4M3 "descale_v=f32(2,3,3) descale_v.stride[2]=0", DESCALE_V, {2, 3, 3, 1}, {9, 3, 0, 0}),
    ROW(BACKWARD, BACKWARD "dq=f16(2,5,6,8) dq.stride[0]=1000", DQ, {2, 5, 6, 8}, {1000, 48, 8, 1}),
    ROW(BACKWARD, BACKWARD "bias=f32(1,5,7) dbias=f32(1,5,7)", DBIAS, {1, 1, 5, 7}, {0, 0, 7, 1}),
    ROW(BACKWARD, BACKWARD "sink=f32(6) dsink=f32(6)", DSINK, {6, 1, 1, 1}, {1, 0, 0, 0}),
    ROW(BACKWARD, BACKWARD "dk=f16(2,7,3,8) dlse=f32(2,6,5)", DLSE, {2, 6, 5, 1}, {30, 5, 1, 0}),
    ROW(APPEND, APPEND, K, {2, 32, 3, 8}, {768, 24, 8, 1}),
    ROW(APPEND, APPEND, K_NEW, {2, 5, 3, 8}, {120, 24, 8, 1}),
    ROW(APPEND, APPEND, V_NEW, {2, 5, 3, 4}, {60, 12, 4, 1}),
    ROW(APPEND, APPEND "rotary_cos=f32(40,3) rotary_sin=f32(40,3)", ROTARY_SIN, {40, 3, 1, 1}, {3, 1, 0, 0}),
    ROW(APPEND, APPEND "q=bf16(2,9,6,8) q_out=bf16(2,9,6,8)", Q_OUT, {2, 9, 6, 8}, {432, 48, 8, 1}),
    ROW(APPEND, APPEND "q=e4m3(2,9,6,8) q_out=e4m3(2,9,6,8)", Q, {2, 9, 6, 8}, {432, 48, 8, 1}),
    ROW(MERGE, MERGE, PART_O, {2, 5, 6, 4}, {120, 24, 4, 1}),
    ROW(MERGE,
        "parts=128 part_o=f16(2,5,6,4) part_o.stride[1]=0 part_lse=f32(2,6,5) part_lse.stride[0]=0 o=f16(2,5,6,4)",
        PART_LSE, {2, 6, 5, 1}, {0, 5, 1, 0}),
    ROW(MERGE, MERGE, PART_LSE, {2, 6, 5, 1}, {30, 5, 1, 0}),
    ROW(MERGE, "parts=1 part_o=f32(10,6,4) part_lse=f32(6,10) o=f32(10,6,4)", O, {1, 10, 6, 4}, {0, 24, 4, 1}),
    ROW(QUANTIZE, "x=f32(2,300,6,8) y=e4m3(2,300,6,8) descale=f32(2,3,3)", DESCALE, {2, 3, 3, 1}, {9, 3, 1, 0}),
    ROW(QUANTIZE, "x=f32(2,300,6,8) y=e4m3(2,300,6,8) descale=f32(2,2) descale_given=1 descale.stride[0]=0", DESCALE,
        {2, 2, 1, 1}, {0, 1, 0, 0}),

    /* An extent of 1 or 0 has no stride worth telling apart; the last axis keeps 1. */
    ROW(FORWARD, "q=f16(1,5,6,1) q.stride[0]=77 q.stride[3]=5 k=f16(1,7,3,1) v=f16(1,7,3,4) o=f16(1,5,6,4)", Q,
        {1, 5, 6, 1}, {0, 6, 1, 1}),
    ROW(FORWARD, "q=f16(2,1,6,8) q.stride[1]=0 k=f16(2,7,1,8) v=f16(2,7,1,4) o=f16(2,1,6,4) o.stride[1]=0", O,
        {2, 1, 6, 4}, {24, 0, 4, 1}),
    ROW(FORWARD, "q=f16(2,0,6,8) k=f16(2,7,1,8) v=f16(2,7,1,4) o=f16(2,0,6,4) o.stride[1]=0", O, {2, 0, 6, 4},
        {24, 0, 4, 1}),
};
#undef ROW

static void layouts_are_canonical(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof layout_rows / sizeof layout_rows[0]; n++) {
        const struct layout_row *row = &layout_rows[n];
        struct attune_call call = make(row->op, row->assignments);
        const attune_layout *layout = &call.problem.operand[row->operand];
        if (memcmp(layout->shape, row->shape, sizeof row->shape) != 0 ||
            memcmp(layout->stride, row->stride, sizeof row->stride) != 0) {
            fail_msg("%s: %s has shape (%ld, %ld, %ld, %ld), stride (%ld, %ld, %ld, %ld)", row->assignments,
                     attune_operand_name(row->op, row->operand), (long)layout->shape[0], (long)layout->shape[1],
                     (long)layout->shape[2], (long)layout->shape[3], (long)layout->stride[0], (long)layout->stride[1],
                     (long)layout->stride[2], (long)layout->stride[3]);
        }
    }
}

/* ---- Features ---- */

#define HAS(name) ATTUNE_FEATURE_##name

static const struct feature_row {
    attune_op op;
    const char *assignments;
    uint64_t features;
} feature_rows[] = {
    {ATTUNE_OP_FORWARD, SQUARE, 0},
    {ATTUNE_OP_FORWARD, DENSE, HAS(GQA)},
    {ATTUNE_OP_FORWARD, SQUARE "lse=f32(2,3,7) probs=f32(2,3,7,7)", HAS(LSE) | HAS(PROBS)},
    {ATTUNE_OP_FORWARD, SQUARE "causal=1", HAS(CAUSAL)},
    {ATTUNE_OP_FORWARD, SQUARE "window.set=1 window.left=-1 window.right=0", HAS(CAUSAL)},
    {ATTUNE_OP_FORWARD, SQUARE "causal=1 window.set=1 window.left=-1 window.right=4", HAS(CAUSAL)},
    {ATTUNE_OP_FORWARD, SQUARE "window.set=1", HAS(WINDOW)},
    {ATTUNE_OP_FORWARD, SQUARE "causal=1 window.set=1 window.left=3 window.right=-1", HAS(WINDOW)},
    {ATTUNE_OP_FORWARD, SQUARE "window.set=1 window.left=-1 window.right=-1", 0},
    {ATTUNE_OP_FORWARD, DENSE "causal=1 align=1", HAS(GQA) | HAS(CAUSAL) | HAS(DIAGONAL)},
    {ATTUNE_OP_FORWARD, DENSE "alibi_slopes=f32(6) align=2 diagonal=3", HAS(GQA) | HAS(ALIBI) | HAS(DIAGONAL)},
    {ATTUNE_OP_FORWARD, DENSE "causal=1 align=2 diagonal=2", HAS(GQA) | HAS(CAUSAL)}, /* is Sk - Sq */
    {ATTUNE_OP_FORWARD, SQUARE "causal=1 align=1", HAS(CAUSAL)},
    {ATTUNE_OP_FORWARD, DENSE "align=1 softcap=0.5", HAS(GQA) | HAS(SOFTCAP)}, /* nothing uses the shift */
    {ATTUNE_OP_FORWARD, SQUARE "causal=1 align=1 seqused_k=i32(2)", HAS(CAUSAL) | HAS(DIAGONAL) | HAS(SEQUSED_K)},
    {ATTUNE_OP_FORWARD, SQUARE "bias=f32(7,7) mask=u8(7) sink=f32(3)", HAS(BIAS) | HAS(MASK) | HAS(SINK)},
    {ATTUNE_OP_FORWARD, SQUARE "dropout_rate=0.1 deterministic=1", HAS(DROPOUT) | HAS(DETERMINISTIC)},
    {ATTUNE_OP_FORWARD, PACKED, HAS(GQA) | HAS(VARLEN_Q) | HAS(VARLEN_K)},
    {ATTUNE_OP_FORWARD, "q=f16(10,3,8) cu_seqlens_q=i32(3) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(10,3,4)", HAS(VARLEN_Q)},
    {ATTUNE_OP_FORWARD, "q=f16(2,5,3,8) cu_seqlens_k=i32(3) k=f16(14,3,8) v=f16(14,3,4) o=f16(2,5,3,4)", HAS(VARLEN_K)},
    {ATTUNE_OP_FORWARD, SQUARE "seqused_q=i32(2) leftpad_k=i32(2)", HAS(SEQUSED_Q) | HAS(LEFTPAD_K)},
    {ATTUNE_OP_FORWARD, PAGED, HAS(GQA) | HAS(PAGED) | HAS(SEQUSED_K)},
    {ATTUNE_OP_FORWARD, PAGED "q=f16(10,6,8) o=f16(10,6,4) cu_seqlens_q=i32(3)",
     HAS(GQA) | HAS(PAGED) | HAS(SEQUSED_K) | HAS(VARLEN_Q)},
    {ATTUNE_OP_FORWARD, SQUARE "block_row_ptr=i32(2) block_col_idx=i32(1) block_rows=64 block_keys=64",
     HAS(BLOCK_SPARSE)},
    {ATTUNE_OP_FORWARD, E4M3 "descale_v=f32(1)", HAS(GQA) | HAS(DESCALE)},
    {ATTUNE_OP_FORWARD, E4M3 "o=f32(2,5,6,4)", HAS(GQA) | HAS(F32_OUT)},
    {ATTUNE_OP_FORWARD, SQUARE "o=f32(2,7,3,4)", HAS(F32_OUT)},
    {ATTUNE_OP_FORWARD, "q=f32(1,2,1,4) k=f32(1,2,1,4) v=f32(1,2,1,4) o=f32(1,2,1,4)", 0},
    {ATTUNE_OP_FORWARD, SQUARE "o=f64(2,7,3,4)", HAS(F64_OUT)},
    {ATTUNE_OP_FORWARD, SQUARE "lse=f64(2,3,7)", HAS(LSE) | HAS(F64_OUT)},
    {ATTUNE_OP_FORWARD, SQUARE "probs=f64(2,3,7,7)", HAS(PROBS) | HAS(F64_OUT)},
    {ATTUNE_OP_BACKWARD, BACKWARD "dq=f16(2,5,6,8)", HAS(GQA)},
    {ATTUNE_OP_BACKWARD, BACKWARD "dk=f32(2,7,3,8)", HAS(GQA) | HAS(F32_OUT)},
    {ATTUNE_OP_BACKWARD, BACKWARD "dv=f64(2,7,3,4)", HAS(GQA) | HAS(F64_OUT)},
    {ATTUNE_OP_BACKWARD, BACKWARD "dq=f16(2,5,6,8) dout=f32(2,5,6,4)", HAS(GQA) | HAS(F32_OUT)},
    {ATTUNE_OP_BACKWARD, BACKWARD "dlse=f32(2,6,5) bias=f32(7) dbias=f32(7) sink=f32(6) dsink=f64(6)",
     HAS(GQA) | HAS(DLSE) | HAS(BIAS) | HAS(DBIAS) | HAS(SINK) | HAS(DSINK) | HAS(F64_OUT)},
    {ATTUNE_OP_APPEND, APPEND, 0},
    {ATTUNE_OP_APPEND, APPEND "seqused_k=i32(2) rotary_cos=f32(40,4) rotary_sin=f32(40,4)",
     HAS(SEQUSED_K) | HAS(ROTARY)},
    {ATTUNE_OP_APPEND,
     "k_cache=e4m3(9,16,3,8) v_cache=e4m3(9,16,3,4) k_new=bf16(2,5,3,8) v_new=bf16(2,5,3,4) seqused_k=i32(2) "
     "block_table=i32(2,4) page_size=16 descale_k=f32(1)",
     HAS(SEQUSED_K) | HAS(PAGED) | HAS(DESCALE) | HAS(CONVERT)},
    {ATTUNE_OP_MERGE, MERGE, 0},
    {ATTUNE_OP_MERGE, MERGE "o=f32(2,5,6,4) lse=f64(2,6,5)", HAS(F32_OUT) | HAS(F64_OUT)},
    {ATTUNE_OP_QUANTIZE, "x=f32(2,300,6,8) y=e4m3(2,300,6,8) descale=f32(1)", 0},
};

static void features_say_what_a_kernel_must_do(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof feature_rows / sizeof feature_rows[0]; n++) {
        struct attune_call call = make(feature_rows[n].op, feature_rows[n].assignments);
        if (call.problem.features != feature_rows[n].features) {
            fail_msg("%s: features are 0x%llx, not 0x%llx", feature_rows[n].assignments,
                     (unsigned long long)call.problem.features, (unsigned long long)feature_rows[n].features);
        }
    }
}

/* ---- The same problem in other words, and other problems ---- */

static const struct pair_row {
    const char *first;
    const char *second;
    bool same;
} pair_rows[] = {
    {DENSE, DENSE "scale=3 dropout_seed=5 dropout_offset=7", true},
    {DENSE, DENSE "q.data=8192 v.byte_offset=64 splits=3 tile_rows=16 check=1", true},
    {DENSE "causal=1", DENSE "window.set=1 window.left=-1 window.right=0", true},
    {DENSE "causal=1", DENSE "causal=1 align=2 diagonal=2", true},
    {DENSE, DENSE "align=1", true},
    {DENSE, DENSE "max_seqlen_q=5 max_seqlen_k=7", true},
    {PACKED, PACKED "max_seqlen_q=10", true},
    {DENSE, DENSE "batch_origin=4 row_origin=7", true}, /* without dropout nobody asks */
    {DENSE, DENSE "softcap=-0.0 dropout_rate=-0.0", true},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 heads_total=6", true},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 row_origin=4294967296 key_origin=17179869184", true},
    {DENSE "bias=f32(1,5,7)", DENSE "bias=f32(5,7)", true},
    {DENSE "window.set=1 window.left=9223372036854775807 window.right=1",
     DENSE "window.set=1 window.left=4611686018427387904 window.right=1", true},
    {DENSE "window.set=1 window.left=4 window.right=1", DENSE "window.set=1 window.left=5 window.right=1", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 batch_origin=4294967296", true},
    {DENSE "dropout_rate=0.5 heads_total=4294967302",
     DENSE "dropout_rate=0.5 heads_total=4294967302 head_origin=4294967296", true},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 batch_origin=1", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 batch_origin=2147483648", false},
    {DENSE "dropout_rate=0.5 heads_total=9", DENSE "dropout_rate=0.5 heads_total=9 head_origin=3", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 row_origin=1", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 key_origin=1", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 key_origin=8589934592", false},
    {DENSE "dropout_rate=0.5", DENSE "dropout_rate=0.5 heads_total=7", false},
    {DENSE "causal=1", DENSE "causal=1 align=1", false},
    {DENSE, DENSE "k.stride[0]=0", false},
    {DENSE, DENSE "k.memory=3", false},
    {DENSE, DENSE "deterministic=1", false},
    {DENSE "softcap=1", DENSE "softcap=2", false},
};

static void equal_problems_are_equal_bytes(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof pair_rows / sizeof pair_rows[0]; n++) {
        struct attune_call first = make(ATTUNE_OP_FORWARD, pair_rows[n].first);
        struct attune_call second = make(ATTUNE_OP_FORWARD, pair_rows[n].second);
        bool same = memcmp(&first.problem, &second.problem, sizeof first.problem) == 0;
        if (same != pair_rows[n].same) {
            fail_msg("%s and %s are %s", pair_rows[n].first, pair_rows[n].second, same ? "one" : "two");
        }
    }
}

/* ---- The rest of the problem ---- */

static void forward_is_filled_in(void **state) {
    (void)state;
    struct attune_call call = make(ATTUNE_OP_FORWARD, DENSE "q.byte_offset=32 dropout_rate=0.25 dropout_seed=9 "
                                                            "dropout_offset=4 softcap=30 splits=4 tile_rows=64 "
                                                            "tile_keys=128 check=1 window.set=1 window.left=3 "
                                                            "window.right=2 head_origin=1 heads_total=9");
    const attune_problem *problem = &call.problem;
    assert_int_equal(problem->op, ATTUNE_OP_FORWARD);
    assert_int_equal(problem->dtype, ATTUNE_DTYPE_F16);
    assert_int_equal(problem->batch, 2);
    assert_int_equal(problem->rows, 5);
    assert_int_equal(problem->keys, 7);
    assert_int_equal(problem->heads_q, 6);
    assert_int_equal(problem->heads_kv, 3);
    assert_int_equal(problem->head_dim, 8);
    assert_int_equal(problem->head_dim_v, 4);
    assert_int_equal(problem->page_size, 0);
    assert_int_equal(problem->parts, 0);
    assert_int_equal(problem->alignment_bytes, 16);
    assert_int_equal(problem->window_left, 3);
    assert_int_equal(problem->window_right, 2);
    assert_true(problem->softcap == 30);
    assert_true(problem->dropout_rate == 0.25);
    assert_int_equal(problem->head_origin, 1);
    assert_int_equal(problem->heads_total, 9);
    assert_ptr_equal(call.bindings.operand[ATTUNE_OPERAND_Q].data, (void *)4096);
    assert_int_equal(call.bindings.operand[ATTUNE_OPERAND_Q].byte_offset, 32);
    assert_null(call.bindings.operand[ATTUNE_OPERAND_LSE].data);
    assert_true(call.bindings.scale == 1 / sqrt(8.0));
    assert_int_equal(call.bindings.dropout_seed, 9);
    assert_int_equal(call.bindings.dropout_offset, 4);
    assert_int_equal(call.request.splits, 4);
    assert_int_equal(call.request.tile_rows, 64);
    assert_int_equal(call.request.tile_keys, 128);
    assert_true(call.request.check);
    assert_false(problem->deterministic);
    assert_true(make(ATTUNE_OP_FORWARD, DENSE "deterministic=1").problem.deterministic);
    assert_null(call.request.kernel);
}

static void lengths_are_capacities(void **state) {
    (void)state;
    struct attune_call call = make(ATTUNE_OP_FORWARD, PACKED);
    assert_int_equal(call.problem.batch, 2);
    assert_int_equal(call.problem.rows, 10);
    assert_int_equal(call.problem.keys, 14);
    call = make(ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=8 max_seqlen_k=9");
    assert_int_equal(call.problem.rows, 8);
    assert_int_equal(call.problem.keys, 9);
    call = make(ATTUNE_OP_FORWARD, PAGED);
    assert_int_equal(call.problem.batch, 2);
    assert_int_equal(call.problem.keys, 64);
    assert_int_equal(call.problem.page_size, 16);
    call = make(ATTUNE_OP_FORWARD, PACKED "q=f16(0,6,8) k=f16(0,3,8) v=f16(0,3,4) o=f16(0,6,4) cu_seqlens_q=i32(1) "
                                          "cu_seqlens_k=i32(1)");
    assert_int_equal(call.problem.batch, 0);
    assert_int_equal(call.problem.rows, 0);
}

static void a_given_scale_is_kept(void **state) {
    (void)state;
    assert_true(make(ATTUNE_OP_FORWARD, DENSE "scale=-0.5").bindings.scale == -0.5);
    assert_true(make(ATTUNE_OP_FORWARD, DENSE "has_scale=1").bindings.scale == 0);
    assert_true(make(ATTUNE_OP_FORWARD, DENSE "has_scale=1 scale=2").bindings.scale == 2);
}

static void every_combination_of_nothing_is_right(void **state) {
    (void)state;
    for (int n = 0; n < 8; n++) {
        char line[512];
        int batch = (n & 1) != 0 ? 0 : 2;
        int rows = (n & 2) != 0 ? 0 : 5;
        int keys = (n & 4) != 0 ? 0 : 7;
        snprintf(line, sizeof line,
                 "q=f16(%d,%d,6,8) k=f16(%d,%d,3,8) v=f16(%d,%d,3,4) o=f16(%d,%d,6,4) lse=f32(%d,6,%d) causal=1", batch,
                 rows, batch, keys, batch, keys, batch, rows, batch, rows);
        assert_int_equal(make(ATTUNE_OP_FORWARD, line).problem.batch, batch);
        snprintf(line + strlen(line), sizeof line - strlen(line),
                 " dout=f16(%d,%d,6,4) dq=f16(%d,%d,6,8) dk=f16(%d,%d,3,8)", batch, rows, batch, rows, batch, keys);
        assert_int_equal(make(ATTUNE_OP_BACKWARD, line).problem.keys, keys);
    }
}

/* The last size that each rule lets through. */
static void limits_are_inclusive(void **state) {
    (void)state;
    (void)make(ATTUNE_OP_APPEND, APPEND "k_new=f16(2,32,3,8) v_new=f16(2,32,3,4)");
    (void)make(ATTUNE_OP_APPEND, APPEND "rotary_cos=f32(5,4) rotary_sin=f32(5,4)");
    (void)make(ATTUNE_OP_APPEND, "k_cache=e4m3(2,256,3,8) v_cache=e4m3(2,256,3,4) k_new=e4m3(2,5,3,8) "
                                 "v_new=e4m3(2,5,3,4) descale_k=f32(2,3,2)");
    (void)make(ATTUNE_OP_FORWARD, DENSE "q.memory=4 causal=1 align=2 diagonal=2305843009213693952 tile_rows=128");
    (void)make(ATTUNE_OP_FORWARD, DENSE "causal=1 align=2 diagonal=-2305843009213693952 dropout_rate=0.99999999999");
    (void)make(ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=10 max_seqlen_k=14");
    (void)make(ATTUNE_OP_FORWARD, DENSE "dropout_rate=0.5 head_origin=4 heads_total=10");
}

/* Backends multiply by the size of a block. */
static void blocks_end_where_rows_and_keys_do(void **state) {
    (void)state;
    struct attune_call call = make(ATTUNE_OP_FORWARD, DENSE "block_row_ptr=i32(2) block_col_idx=i32(1) "
                                                            "block_rows=9223372036854775807 "
                                                            "block_keys=9223372036854775807");
    assert_int_equal(call.problem.block_rows, call.problem.rows);
    assert_int_equal(call.problem.block_keys, call.problem.keys);
}

static void append_merge_and_quantize_are_filled_in(void **state) {
    (void)state;
    struct attune_call call = make(ATTUNE_OP_APPEND, APPEND "rotary_cos=f32(40,3) rotary_sin=f32(40,3) "
                                                            "rotary_interleaved=1 q=f32(2,9,6,8) q_out=f32(2,9,6,8)");
    assert_int_equal(call.problem.rows, 5);
    assert_int_equal(call.problem.keys, 32);
    assert_int_equal(call.problem.heads_q, 6);
    assert_int_equal(call.problem.heads_kv, 3);
    assert_int_equal(call.problem.rotary_dim, 6);
    assert_true(call.problem.rotary_interleaved);
    assert_int_equal(call.problem.window_left, -1);
    call = make(ATTUNE_OP_APPEND, APPEND "rotary_interleaved=1");
    assert_int_equal(call.problem.heads_q, 0);
    assert_int_equal(call.problem.heads_total, 1);
    assert_int_equal(call.problem.rotary_dim, 0);
    assert_false(call.problem.rotary_interleaved);

    call_text_init(ATTUNE_OP_MERGE, &text);
    call_text_apply(&text, MERGE "part_o[2].data=8192 part_lse[1].byte_offset=64");
    assert_int_equal(attune_call_make(ATTUNE_OP_MERGE, &text.args, &call), ATTUNE_OK);
    assert_int_equal(call.problem.parts, 3);
    assert_int_equal(call.problem.batch, 2);
    assert_int_equal(call.problem.rows, 5);
    assert_int_equal(call.problem.heads_q, 6);
    assert_int_equal(call.problem.heads_kv, 0);
    assert_int_equal(call.problem.keys, 0);
    assert_int_equal(call.problem.head_dim, 0);
    assert_int_equal(call.problem.head_dim_v, 4);
    assert_ptr_equal(call.bindings.part_o, call.part_o);
    assert_ptr_equal(call.bindings.part_o[2].data, (void *)8192);
    assert_int_equal(call.bindings.part_lse[1].byte_offset, 64);
    call = make(ATTUNE_OP_MERGE, "parts=1 part_o=f32(10,6,4) part_lse=f32(6,10) o=bf16(10,6,4)");
    assert_int_equal(call.problem.batch, 1);
    assert_int_equal(call.problem.rows, 10);

    call = make(ATTUNE_OP_QUANTIZE, "x=f32(2,300,6,8) y=e4m3(2,300,6,8) descale=f32(2,3) descale_given=1");
    assert_int_equal(call.problem.dtype, ATTUNE_DTYPE_F32);
    assert_int_equal(call.problem.heads_q, 6);
    assert_int_equal(call.problem.heads_kv, 3);
    assert_int_equal(call.problem.head_dim, 8);
    assert_int_equal(call.problem.head_dim_v, 0);
    assert_true(call.problem.descale_given);
    call = make(ATTUNE_OP_QUANTIZE, "x=f32(2,256,6,8) y=e4m3(2,256,6,8) descale=f32(2,1,2)");
    assert_int_equal(call.problem.heads_kv, 1);
    assert_int_equal(make(ATTUNE_OP_QUANTIZE, "x=f32(2,1,6,8) y=e4m3(2,1,6,8) descale=f32(1)").problem.heads_kv, 1);
}

static void old_callers_are_understood(void **state) {
    (void)state;
    struct attune_call call;
    call_text_init(ATTUNE_OP_FORWARD, &text);
    call_text_apply(&text, DENSE "splits=-7");
    text.args.attention.struct_size = offsetof(attune_attention_args, splits); /* does not know the field */
    assert_int_equal(attune_call_make(ATTUNE_OP_FORWARD, &text.args, &call), ATTUNE_OK);
    assert_int_equal(call.request.splits, 0);
}

static void operands_have_the_callers_names(void **state) {
    (void)state;
    assert_string_equal(attune_operand_name(ATTUNE_OP_FORWARD, ATTUNE_OPERAND_K), "k");
    assert_string_equal(attune_operand_name(ATTUNE_OP_APPEND, ATTUNE_OPERAND_K), "k_cache");
    assert_string_equal(attune_operand_name(ATTUNE_OP_BACKWARD, ATTUNE_OPERAND_DROPOUT_SEED), "dropout_seed_memory");
    assert_string_equal(attune_operand_name(ATTUNE_OP_MERGE, ATTUNE_OPERAND_Q), "");
    assert_string_equal(attune_operand_name((attune_op)9, ATTUNE_OPERAND_Q), "");
    assert_string_equal(attune_operand_name((attune_op)0, ATTUNE_OPERAND_Q), "");
}

static bool writes(attune_op op, bool descale_given, attune_operand operand) {
    const attune_problem problem = {.op = op, .descale_given = descale_given};
    return attune_problem_writes(&problem, operand);
}

static void operands_that_are_written(void **state) {
    (void)state;
    assert_true(writes(ATTUNE_OP_FORWARD, false, ATTUNE_OPERAND_LSE));
    assert_false(writes(ATTUNE_OP_BACKWARD, false, ATTUNE_OPERAND_LSE));
    assert_true(writes(ATTUNE_OP_BACKWARD, false, ATTUNE_OPERAND_DBIAS));
    assert_true(writes(ATTUNE_OP_APPEND, false, ATTUNE_OPERAND_K));
    assert_false(writes(ATTUNE_OP_FORWARD, false, ATTUNE_OPERAND_K));
    assert_true(writes(ATTUNE_OP_QUANTIZE, false, ATTUNE_OPERAND_DESCALE));
    assert_false(writes(ATTUNE_OP_QUANTIZE, true, ATTUNE_OPERAND_DESCALE));
    assert_false(writes(ATTUNE_OP_MERGE, false, ATTUNE_OPERAND_X));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_are_canonical),
        cmocka_unit_test(features_say_what_a_kernel_must_do),
        cmocka_unit_test(equal_problems_are_equal_bytes),
        cmocka_unit_test(forward_is_filled_in),
        cmocka_unit_test(lengths_are_capacities),
        cmocka_unit_test(a_given_scale_is_kept),
        cmocka_unit_test(every_combination_of_nothing_is_right),
        cmocka_unit_test(limits_are_inclusive),
        cmocka_unit_test(blocks_end_where_rows_and_keys_do),
        cmocka_unit_test(append_merge_and_quantize_are_filled_in),
        cmocka_unit_test(old_callers_are_understood),
        cmocka_unit_test(operands_have_the_callers_names),
        cmocka_unit_test(operands_that_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
