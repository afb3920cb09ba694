/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/operand.h"

#include "core/tensor_rules.h"

/* ---- Sets of dtypes ---- */

#define F32 ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_F32)
#define F64 ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_F64)
#define I32 ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_I32)

#define HALVES  (ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_F16) | ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_BF16))
#define FLOATS  (F32 | HALVES)
#define E4M3    ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_E4M3)
#define RESULTS (F32 | F64)

#define ONLY(dtypes)                    dtypes, ATTUNE_RELATION_NONE, ATTUNE_OPERAND_COUNT
#define RELATIVE(dtypes, kind, operand) dtypes, ATTUNE_RELATION_##kind, ATTUNE_OPERAND_##operand

/* ---- The tables ---- */

#define ROW(operand, field, use, use_in_backward, form, ...)                                                           \
    {                                                                                                                  \
        ATTUNE_OPERAND_##operand, #field, offsetof(ARGS, field), false, ATTUNE_USE_##use,                              \
            ATTUNE_USE_##use_in_backward, ATTUNE_FORM_##form, __VA_ARGS__                                              \
    }
#define ROW_OF_PARTS(operand, field, use, form, ...)                                                                   \
    {                                                                                                                  \
        ATTUNE_OPERAND_##operand, #field, offsetof(ARGS, field), true, ATTUNE_USE_##use, ATTUNE_USE_REFUSED,           \
            ATTUNE_FORM_##form, __VA_ARGS__                                                                            \
    }

#define ARGS attune_attention_args
static const struct attune_operand_rule attention_rules[] = {
    ROW(Q, q, READ_ALWAYS, READ_ALWAYS, ROWS_D, ONLY(FLOATS | E4M3)),
    ROW(K, k, READ_ALWAYS, READ_ALWAYS, KEYS_D, RELATIVE(0, SAME, Q)),
    ROW(V, v, READ_ALWAYS, READ_ALWAYS, KEYS_DV, RELATIVE(0, SAME, Q)),
    ROW(O, o, WRITE_ALWAYS, READ_ALWAYS, ROWS_DV, RELATIVE(RESULTS, AS, Q)),
    ROW(LSE, lse, WRITE, READ_ALWAYS, LSE, ONLY(RESULTS)),
    ROW(PROBS, probs, WRITE, REFUSED, SCORES, ONLY(RESULTS)),
    ROW(DOUT, dout, REFUSED, READ_ALWAYS, ROWS_DV, RELATIVE(F32, AS, Q)),
    ROW(DLSE, dlse, REFUSED, READ, LSE, ONLY(F32)),
    ROW(DQ, dq, REFUSED, WRITE, ROWS_D, RELATIVE(RESULTS, AS, Q)),
    ROW(DK, dk, REFUSED, WRITE, KEYS_D, RELATIVE(RESULTS, AS, Q)),
    ROW(DV, dv, REFUSED, WRITE, KEYS_DV, RELATIVE(RESULTS, AS, Q)),
    ROW(DBIAS, dbias, REFUSED, WRITE, BROADCAST, RELATIVE(RESULTS, AS, Q)),
    ROW(DSINK, dsink, REFUSED, WRITE, HEADS, ONLY(RESULTS)),
    ROW(BIAS, bias, READ, READ, BROADCAST, RELATIVE(F32, AS, Q)),
    ROW(MASK, mask, READ, READ, BROADCAST, ONLY(ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_U8))),
    ROW(ALIBI_SLOPES, alibi_slopes, READ, READ, SLOPES, ONLY(F32)),
    ROW(SINK, sink, READ, READ, HEADS, ONLY(F32)),
    ROW(CU_SEQLENS_Q, cu_seqlens_q, READ, READ, OFFSETS, ONLY(I32)),
    ROW(CU_SEQLENS_K, cu_seqlens_k, READ, READ, OFFSETS, ONLY(I32)),
    ROW(SEQUSED_Q, seqused_q, READ, READ, LENGTHS, ONLY(I32)),
    ROW(SEQUSED_K, seqused_k, READ, READ, LENGTHS, ONLY(I32)),
    ROW(LEFTPAD_K, leftpad_k, READ, READ, LENGTHS, ONLY(I32)),
    ROW(BLOCK_TABLE, block_table, READ, REFUSED, TABLE, ONLY(I32)),
    ROW(BLOCK_ROW_PTR, block_row_ptr, READ, READ, ROW_PTR, ONLY(I32)),
    ROW(BLOCK_COL_IDX, block_col_idx, READ, READ, COL_IDX, ONLY(I32)),
    ROW(DESCALE_Q, descale_q, READ, READ, DESCALE_Q, ONLY(F32)),
    ROW(DESCALE_K, descale_k, READ, READ, DESCALE_K, ONLY(F32)),
    ROW(DESCALE_V, descale_v, READ, READ, DESCALE_K, ONLY(F32)),
    ROW(DROPOUT_SEED, dropout_seed_memory, READ, READ, ONE, ONLY(ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_U64))),
    ROW(DROPOUT_OFFSET, dropout_offset_memory, READ, READ, ONE, ONLY(ATTUNE_DTYPE_BIT(ATTUNE_DTYPE_U32))),
};
#undef ARGS

#define ARGS attune_kvcache_append_args
static const struct attune_operand_rule append_rules[] = {
    ROW(K, k_cache, WRITE_ALWAYS, REFUSED, KEYS_D, ONLY(FLOATS | E4M3)),
    ROW(V, v_cache, WRITE_ALWAYS, REFUSED, KEYS_DV, RELATIVE(0, SAME, K)),
    ROW(K_NEW, k_new, READ_ALWAYS, REFUSED, NEW_D, RELATIVE(0, STORED_IN, K)),
    ROW(V_NEW, v_new, READ_ALWAYS, REFUSED, NEW_DV, RELATIVE(0, SAME, K_NEW)),
    ROW(SEQUSED_K, seqused_k, READ, REFUSED, LENGTHS, ONLY(I32)),
    ROW(BLOCK_TABLE, block_table, READ, REFUSED, TABLE, ONLY(I32)),
    ROW(DESCALE_K, descale_k, READ, REFUSED, DESCALE_K, ONLY(F32)),
    ROW(DESCALE_V, descale_v, READ, REFUSED, DESCALE_K, ONLY(F32)),
    ROW(ROTARY_COS, rotary_cos, READ, REFUSED, ROTARY, ONLY(F32)),
    ROW(ROTARY_SIN, rotary_sin, READ, REFUSED, ROTARY, ONLY(F32)),
    ROW(Q, q, READ, REFUSED, ROWS_D, ONLY(FLOATS | E4M3)),
    ROW(Q_OUT, q_out, WRITE, REFUSED, ROWS_D, RELATIVE(0, SAME, Q)),
};
#undef ARGS

#define ARGS attune_merge_args
static const struct attune_operand_rule merge_rules[] = {
    ROW_OF_PARTS(PART_O, part_o, READ_ALWAYS, ROWS_DV, ONLY(FLOATS)),
    ROW_OF_PARTS(PART_LSE, part_lse, READ_ALWAYS, LSE, ONLY(F32)),
    ROW(O, o, WRITE_ALWAYS, REFUSED, ROWS_DV, RELATIVE(RESULTS, NARROWED_FROM, PART_O)),
    ROW(LSE, lse, WRITE, REFUSED, LSE, ONLY(RESULTS)),
};
#undef ARGS

#define ARGS attune_quantize_args
static const struct attune_operand_rule quantize_rules[] = {
    ROW(X, x, READ_ALWAYS, REFUSED, ROWS_D, ONLY(FLOATS)),
    ROW(Y, y, WRITE_ALWAYS, REFUSED, ROWS_D, ONLY(E4M3)),
    ROW(DESCALE, descale, WRITE_ALWAYS, REFUSED, DESCALE_Q, ONLY(F32)),
};
#undef ARGS

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct operation {
    const char *function;
    const struct attune_operand_rule *rules;
    size_t rule_count;
} operations[] = {
    [ATTUNE_OP_FORWARD] = {"attune_forward", attention_rules, COUNT(attention_rules)},
    [ATTUNE_OP_BACKWARD] = {"attune_backward", attention_rules, COUNT(attention_rules)},
    [ATTUNE_OP_APPEND] = {"attune_kvcache_append", append_rules, COUNT(append_rules)},
    [ATTUNE_OP_MERGE] = {"attune_merge", merge_rules, COUNT(merge_rules)},
    [ATTUNE_OP_QUANTIZE] = {"attune_quantize", quantize_rules, COUNT(quantize_rules)},
};

/* ---- Looking things up ---- */

static const struct operation *find_operation(attune_op op) {
    static const struct operation none = {"", NULL, 0};
    return op >= ATTUNE_OP_FORWARD && op <= ATTUNE_OP_QUANTIZE ? &operations[op] : &none;
}

const char *attune_op_function(attune_op op) {
    return find_operation(op)->function;
}

const struct attune_operand_rule *attune_operand_rules(attune_op op, size_t *out_count) {
    const struct operation *operation = find_operation(op);
    *out_count = operation->rule_count;
    return operation->rules;
}

const struct attune_operand_rule *attune_operand_find(attune_op op, attune_operand operand) {
    const struct operation *operation = find_operation(op);
    for (size_t k = 0; k < operation->rule_count; k++) {
        if (operation->rules[k].operand == operand) {
            return &operation->rules[k];
        }
    }
    return NULL;
}

const char *attune_operand_name(attune_op op, attune_operand operand) {
    const struct attune_operand_rule *rule = attune_operand_find(op, operand);
    return rule == NULL ? "" : rule->argument;
}

enum attune_use attune_operand_use(attune_op op, bool descale_given, const struct attune_operand_rule *rule) {
    if (rule->operand == ATTUNE_OPERAND_DESCALE && descale_given) {
        return ATTUNE_USE_READ_ALWAYS;
    }
    return op == ATTUNE_OP_BACKWARD ? rule->use_in_backward : rule->use;
}

bool attune_use_writes(enum attune_use use) {
    return use == ATTUNE_USE_WRITE || use == ATTUNE_USE_WRITE_ALWAYS;
}

bool attune_problem_writes(const attune_problem *problem, attune_operand operand) {
    const struct attune_operand_rule *rule = attune_operand_find(problem->op, operand);
    return rule != NULL && attune_use_writes(attune_operand_use(problem->op, problem->descale_given, rule));
}

static uint32_t related_dtypes(enum attune_dtype_relation relation, attune_dtype dtype) {
    switch (relation) {
    case ATTUNE_RELATION_NONE:
        return 0;
    case ATTUNE_RELATION_SAME:
        return ATTUNE_DTYPE_BIT(dtype);
    case ATTUNE_RELATION_AS:
        return dtype == ATTUNE_DTYPE_E4M3 ? HALVES : ATTUNE_DTYPE_BIT(dtype);
    case ATTUNE_RELATION_STORED_IN:
        return dtype == ATTUNE_DTYPE_E4M3 ? FLOATS | E4M3 : ATTUNE_DTYPE_BIT(dtype);
    case ATTUNE_RELATION_NARROWED_FROM:
        return dtype == ATTUNE_DTYPE_F32 ? FLOATS : ATTUNE_DTYPE_BIT(dtype);
    }
    return 0;
}

uint32_t attune_operand_dtypes(const struct attune_operand_rule *rule, enum attune_use use,
                               attune_dtype relative_dtype) {
    uint32_t dtypes = rule->dtypes | related_dtypes(rule->relation, relative_dtype);
    return attune_use_writes(use) ? dtypes : dtypes & ~F64;
}
