/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/describe.h"

#include <inttypes.h>

#include "core/text.h"

const char *attune_op_name(attune_op op) {
    static const char *const names[] = {
        [ATTUNE_OP_FORWARD] = "forward", [ATTUNE_OP_BACKWARD] = "backward", [ATTUNE_OP_APPEND] = "append",
        [ATTUNE_OP_MERGE] = "merge",     [ATTUNE_OP_QUANTIZE] = "quantize",
    };
    size_t index = (size_t)op;
    return index < sizeof names / sizeof names[0] && names[index] != NULL ? names[index] : "unknown";
}

static const struct {
    uint64_t bit;
    const char *name;
} features[ATTUNE_FEATURE_COUNT] = {
    {ATTUNE_FEATURE_CAUSAL, "causal"},
    {ATTUNE_FEATURE_WINDOW, "window"},
    {ATTUNE_FEATURE_DIAGONAL, "align or diagonal"},
    {ATTUNE_FEATURE_SOFTCAP, "softcap"},
    {ATTUNE_FEATURE_ALIBI, "alibi_slopes"},
    {ATTUNE_FEATURE_BIAS, "bias"},
    {ATTUNE_FEATURE_MASK, "mask"},
    {ATTUNE_FEATURE_SINK, "sink"},
    {ATTUNE_FEATURE_DROPOUT, "dropout_rate"},
    {ATTUNE_FEATURE_GQA, "Hq > Hkv"},
    {ATTUNE_FEATURE_VARLEN_Q, "cu_seqlens_q"},
    {ATTUNE_FEATURE_VARLEN_K, "cu_seqlens_k"},
    {ATTUNE_FEATURE_SEQUSED_Q, "seqused_q"},
    {ATTUNE_FEATURE_SEQUSED_K, "seqused_k"},
    {ATTUNE_FEATURE_LEFTPAD_K, "leftpad_k"},
    {ATTUNE_FEATURE_PAGED, "block_table"},
    {ATTUNE_FEATURE_BLOCK_SPARSE, "block_row_ptr"},
    {ATTUNE_FEATURE_DESCALE, "descale"},
    {ATTUNE_FEATURE_LSE, "lse"},
    {ATTUNE_FEATURE_PROBS, "probs"},
    {ATTUNE_FEATURE_DLSE, "dlse"},
    {ATTUNE_FEATURE_DBIAS, "dbias"},
    {ATTUNE_FEATURE_DSINK, "dsink"},
    {ATTUNE_FEATURE_F32_OUT, "f32 outputs"},
    {ATTUNE_FEATURE_F64_OUT, "f64 outputs"},
    {ATTUNE_FEATURE_O_IS_Q, "o that is q"},
    {ATTUNE_FEATURE_DETERMINISTIC, "deterministic"},
    {ATTUNE_FEATURE_ROTARY, "rotary_cos"},
    {ATTUNE_FEATURE_CONVERT, "k_new of another dtype than the cache"},
};

const char *attune_feature_name(int32_t bit) {
    for (int32_t i = 0; i < ATTUNE_FEATURE_COUNT; i++) {
        if (features[i].bit == UINT64_C(1) << bit) {
            return features[i].name;
        }
    }
    return "unknown";
}

void attune_describe_features(uint64_t set, char *text, size_t capacity) {
    const char *separator = "";
    for (int32_t bit = 0; bit < ATTUNE_FEATURE_COUNT; bit++) {
        if ((set & UINT64_C(1) << bit) != 0) {
            attune_text_append(text, capacity, "%s%s", separator, attune_feature_name(bit));
            separator = ", ";
        }
    }
}

static void describe_sizes(const attune_problem *problem, char *text, size_t capacity) {
    attune_text_append(text, capacity, ", B %" PRId64, problem->batch);
    switch (problem->op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        attune_text_append(text, capacity, ", Sq %" PRId64 ", Sk %" PRId64 ", Hq %" PRId64 ", Hkv %" PRId64,
                           problem->rows, problem->keys, problem->heads_q, problem->heads_kv);
        attune_text_append(text, capacity, ", D %" PRId64 ", Dv %" PRId64, problem->head_dim, problem->head_dim_v);
        break;
    case ATTUNE_OP_APPEND:
        attune_text_append(text, capacity, ", Snew %" PRId64 ", capacity %" PRId64 ", Hkv %" PRId64, problem->rows,
                           problem->keys, problem->heads_kv);
        attune_text_append(text, capacity, ", D %" PRId64 ", Dv %" PRId64, problem->head_dim, problem->head_dim_v);
        break;
    case ATTUNE_OP_MERGE:
        attune_text_append(text, capacity, ", S %" PRId64 ", H %" PRId64 ", Dv %" PRId64 ", %" PRId64 " parts",
                           problem->rows, problem->heads_q, problem->head_dim_v, problem->parts);
        break;
    case ATTUNE_OP_QUANTIZE:
        attune_text_append(text, capacity, ", S %" PRId64 ", H %" PRId64 ", D %" PRId64, problem->rows,
                           problem->heads_q, problem->head_dim);
        break;
    }
}

void attune_describe_problem(const attune_problem *problem, char *out_text, size_t capacity) {
    attune_text_format(out_text, capacity, "%s %s", attune_op_name(problem->op), attune_dtype_name(problem->dtype));
    describe_sizes(problem, out_text, capacity);
    if (problem->features != 0) {
        attune_text_append(out_text, capacity, "; ");
        attune_describe_features(problem->features, out_text, capacity);
    }
}
