/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/arguments.h"

#include <inttypes.h>
#include <string.h>

#include "attune/backend_util.h"
#include "core/operand.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"

/* ---- Presence ---- */

static const attune_tensor *find_tensor(const struct attune_operand_rule *rule, const void *args) {
    const char *field = (const char *)args + rule->offset;
    if (!rule->is_array) {
        return (const attune_tensor *)(const void *)field;
    }
    const attune_tensor *first;
    memcpy(&first, field, sizeof first);
    return first;
}

static attune_status collect_operand(struct attune_arguments *arguments, const struct attune_operand_rule *rule,
                                     const attune_tensor *tensor) {
    enum attune_use use = attune_operand_use(arguments->op, arguments->descale_given, rule);
    if (attune_tensor_is_absent(tensor)) {
        if (use == ATTUNE_USE_READ_ALWAYS || use == ATTUNE_USE_WRITE_ALWAYS) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is absent: must be given for %s", rule->argument,
                               attune_op_function(arguments->op));
        }
        return ATTUNE_OK;
    }
    if (use == ATTUNE_USE_REFUSED) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is given: must be absent for %s", rule->argument,
                           attune_op_function(arguments->op));
    }
    arguments->tensor[rule->operand] = tensor;
    return attune_tensor_check(rule->argument, tensor, attune_use_writes(use));
}

attune_status attune_arguments_collect(attune_op op, const void *args, bool descale_given,
                                       struct attune_arguments *out_arguments) {
    memset(out_arguments, 0, sizeof *out_arguments);
    out_arguments->op = op;
    out_arguments->descale_given = descale_given;
    attune_extents_init(&out_arguments->extents);
    size_t count;
    const struct attune_operand_rule *rules = attune_operand_rules(op, &count);
    for (size_t k = 0; k < count; k++) {
        attune_status status = collect_operand(out_arguments, &rules[k], find_tensor(&rules[k], args));
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

attune_status attune_arguments_check_pairs(const struct attune_arguments *arguments, const struct attune_pair *pairs,
                                           size_t count) {
    for (size_t k = 0; k < count; k++) {
        const struct attune_pair *pair = &pairs[k];
        bool needs = pair->pairing == ATTUNE_PAIRING_NEEDS;
        bool other_given = arguments->tensor[pair->other] != NULL;
        if (arguments->tensor[pair->operand] != NULL && other_given != needs) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s is given %s %s: must be given %s it",
                               attune_operand_name(arguments->op, pair->operand), needs ? "without" : "with",
                               attune_operand_name(arguments->op, pair->other), needs ? "with" : "without");
        }
    }
    return ATTUNE_OK;
}

attune_status attune_arguments_check_unit(const struct attune_arguments *arguments, attune_operand operand,
                                          const char *option, int64_t value) {
    bool given = arguments->tensor[operand] != NULL;
    if (given ? value >= 1 : value == 0) {
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": %s %s must be %s", option, value,
                       given ? "with" : "without", attune_operand_name(arguments->op, operand),
                       given ? "1 or more" : "0");
}

attune_status attune_ranges_check(const struct attune_range *ranges, size_t count) {
    for (size_t k = 0; k < count; k++) {
        if (ranges[k].value < ranges[k].low || ranges[k].value > ranges[k].high) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId64 ": %s", ranges[k].argument, ranges[k].value,
                               ranges[k].rule);
        }
    }
    return ATTUNE_OK;
}

/* ---- Dtypes ---- */

static attune_status check_dtype(const struct attune_arguments *arguments, const struct attune_operand_rule *rule) {
    const attune_tensor *tensor = arguments->tensor[rule->operand];
    if (tensor == NULL) {
        return ATTUNE_OK;
    }
    bool relative = rule->relation != ATTUNE_RELATION_NONE;
    attune_dtype given = relative ? arguments->tensor[rule->relative]->dtype : ATTUNE_DTYPE_NONE;
    enum attune_use use = attune_operand_use(arguments->op, arguments->descale_given, rule);
    return attune_tensor_check_dtype(rule->argument, tensor->dtype, attune_operand_dtypes(rule, use, given),
                                     relative ? attune_operand_name(arguments->op, rule->relative) : NULL, given);
}

static attune_status check_descale(const struct attune_arguments *arguments, attune_operand descale,
                                   attune_operand stored) {
    attune_dtype dtype = arguments->tensor[stored]->dtype;
    if (arguments->tensor[descale] == NULL || dtype == ATTUNE_DTYPE_E4M3) {
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "%s is given and %s.dtype = %s: must be e4m3, with which a descale goes",
                       attune_operand_name(arguments->op, descale), attune_operand_name(arguments->op, stored),
                       attune_dtype_name(dtype));
}

attune_status attune_arguments_check_dtypes(const struct attune_arguments *arguments, attune_operand stored) {
    static const attune_operand descales[] = {ATTUNE_OPERAND_DESCALE_Q, ATTUNE_OPERAND_DESCALE_K,
                                              ATTUNE_OPERAND_DESCALE_V};
    attune_status status = ATTUNE_OK;
    size_t count;
    const struct attune_operand_rule *rules = attune_operand_rules(arguments->op, &count);
    for (size_t k = 0; status == ATTUNE_OK && k < count; k++) {
        status = check_dtype(arguments, &rules[k]);
    }
    for (size_t k = 0; status == ATTUNE_OK && k < sizeof descales / sizeof descales[0]; k++) {
        status = check_descale(arguments, descales[k], stored);
    }
    return status;
}

/* ---- Shapes ---- */

static attune_status bind_rule(struct attune_arguments *arguments, const struct attune_operand_rule *rule) {
    const attune_tensor *tensor = arguments->tensor[rule->operand];
    return tensor == NULL ? ATTUNE_OK : attune_extents_bind(&arguments->extents, rule->form, rule->argument, tensor);
}

attune_status attune_arguments_bind(struct attune_arguments *arguments, attune_operand operand) {
    return bind_rule(arguments, attune_operand_find(arguments->op, operand));
}

attune_status attune_arguments_bind_all(struct attune_arguments *arguments) {
    attune_status status = ATTUNE_OK;
    size_t count;
    const struct attune_operand_rule *rules = attune_operand_rules(arguments->op, &count);
    for (size_t k = 0; status == ATTUNE_OK && k < count; k++) {
        status = bind_rule(arguments, &rules[k]);
    }
    return status;
}

attune_status attune_arguments_bind_pages(struct attune_arguments *arguments, int64_t page_size) {
    struct attune_extents *extents = &arguments->extents;
    extents->paged = arguments->tensor[ATTUNE_OPERAND_BLOCK_TABLE] != NULL;
    if (!extents->paged) {
        return ATTUNE_OK;
    }
    attune_extents_set(extents, ATTUNE_AXIS_PAGE_SIZE, page_size, "page_size");
    attune_status status = attune_arguments_bind(arguments, ATTUNE_OPERAND_BLOCK_TABLE);
    if (status != ATTUNE_OK) {
        return status;
    }
    int64_t columns = extents->value[ATTUNE_AXIS_COLUMNS];
    if (attune_extents_multiply(columns, page_size, 1, 1) < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "page_size = %" PRId64 ", and block_table has %" PRId64
                           " columns: their product must be at most 2^60",
                           page_size, columns);
    }
    attune_extents_set(extents, ATTUNE_AXIS_SK, columns * page_size, "block_table and page_size");
    return ATTUNE_OK;
}

int64_t attune_arguments_extent(const struct attune_arguments *arguments, enum attune_axis axis, int64_t absent) {
    int64_t extent = arguments->extents.value[axis];
    return extent < 0 ? absent : extent;
}

/* ---- The call ---- */

/* What the presence of an operand stands for. */
static const struct {
    attune_operand operand;
    uint64_t feature;
} presence_features[] = {
    {ATTUNE_OPERAND_ALIBI_SLOPES, ATTUNE_FEATURE_ALIBI},
    {ATTUNE_OPERAND_BIAS, ATTUNE_FEATURE_BIAS},
    {ATTUNE_OPERAND_MASK, ATTUNE_FEATURE_MASK},
    {ATTUNE_OPERAND_SINK, ATTUNE_FEATURE_SINK},
    {ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_FEATURE_VARLEN_Q},
    {ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_FEATURE_VARLEN_K},
    {ATTUNE_OPERAND_SEQUSED_Q, ATTUNE_FEATURE_SEQUSED_Q},
    {ATTUNE_OPERAND_SEQUSED_K, ATTUNE_FEATURE_SEQUSED_K},
    {ATTUNE_OPERAND_LEFTPAD_K, ATTUNE_FEATURE_LEFTPAD_K},
    {ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_FEATURE_PAGED},
    {ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_FEATURE_BLOCK_SPARSE},
    {ATTUNE_OPERAND_DESCALE_Q, ATTUNE_FEATURE_DESCALE},
    {ATTUNE_OPERAND_DESCALE_K, ATTUNE_FEATURE_DESCALE},
    {ATTUNE_OPERAND_DESCALE_V, ATTUNE_FEATURE_DESCALE},
    {ATTUNE_OPERAND_PROBS, ATTUNE_FEATURE_PROBS},
    {ATTUNE_OPERAND_DLSE, ATTUNE_FEATURE_DLSE},
    {ATTUNE_OPERAND_DBIAS, ATTUNE_FEATURE_DBIAS},
    {ATTUNE_OPERAND_DSINK, ATTUNE_FEATURE_DSINK},
    {ATTUNE_OPERAND_ROTARY_COS, ATTUNE_FEATURE_ROTARY},
};

static uint64_t operand_features(const struct attune_arguments *arguments, attune_dtype dtype) {
    static const attune_operand wide[] = {ATTUNE_OPERAND_O, ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK,
                                          ATTUNE_OPERAND_DV};
    uint64_t features = 0;
    for (size_t k = 0; k < sizeof presence_features / sizeof presence_features[0]; k++) {
        if (arguments->tensor[presence_features[k].operand] != NULL) {
            features |= presence_features[k].feature;
        }
    }
    for (size_t k = 0; k < sizeof wide / sizeof wide[0]; k++) {
        const attune_tensor *tensor = arguments->tensor[wide[k]];
        if (tensor != NULL && tensor->dtype == ATTUNE_DTYPE_F32 && dtype != ATTUNE_DTYPE_F32) {
            features |= ATTUNE_FEATURE_F32_OUT;
        }
    }
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (arguments->tensor[operand] != NULL && arguments->tensor[operand]->dtype == ATTUNE_DTYPE_F64) {
            features |= ATTUNE_FEATURE_F64_OUT;
        }
    }
    return features;
}

static void store_operands(const struct attune_arguments *arguments, struct attune_call *call) {
    size_t count;
    const struct attune_operand_rule *rules = attune_operand_rules(arguments->op, &count);
    for (size_t k = 0; k < count; k++) {
        const attune_tensor *tensor = arguments->tensor[rules[k].operand];
        if (tensor == NULL) {
            continue;
        }
        attune_extents_lay_out(&arguments->extents, rules[k].form, tensor, &call->problem.operand[rules[k].operand]);
        if (!rules[k].is_array) {
            call->bindings.operand[rules[k].operand] = attune_tensor_pointer(tensor);
        }
    }
}

static attune_status check_products(const attune_problem *problem) {
    int64_t head_dim = attune_max(problem->head_dim, problem->head_dim_v);
    if (attune_extents_multiply(problem->batch, problem->heads_q, problem->rows, head_dim) < 0 ||
        attune_extents_multiply(problem->batch, problem->heads_kv, problem->keys, head_dim) < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s with B = %" PRId64 ", Sq = %" PRId64 ", Sk = %" PRId64
                           ": their product with heads and head size must be at most 2^60",
                           attune_op_function(problem->op), problem->batch, problem->rows, problem->keys);
    }
    return ATTUNE_OK;
}

attune_status attune_arguments_store(const struct attune_arguments *arguments, attune_operand stored,
                                     struct attune_call *call) {
    attune_problem *problem = &call->problem;
    problem->op = arguments->op;
    problem->dtype = arguments->tensor[stored]->dtype;
    problem->features = operand_features(arguments, problem->dtype);
    problem->batch = attune_arguments_extent(arguments, ATTUNE_AXIS_B, 1); /* a packed merge has one */
    problem->rows = attune_arguments_extent(arguments, ATTUNE_AXIS_SQ, 0);
    problem->keys = attune_arguments_extent(arguments, ATTUNE_AXIS_SK, 0);
    problem->heads_q = attune_arguments_extent(arguments, ATTUNE_AXIS_HQ, 0);
    problem->heads_kv = attune_arguments_extent(arguments, ATTUNE_AXIS_HKV, 0);
    problem->head_dim = attune_arguments_extent(arguments, ATTUNE_AXIS_D, 0);
    problem->head_dim_v = attune_arguments_extent(arguments, ATTUNE_AXIS_DV, 0);
    problem->page_size = attune_arguments_extent(arguments, ATTUNE_AXIS_PAGE_SIZE, 0);
    problem->alignment_bytes = 16;
    problem->window_left = -1;
    problem->window_right = -1;
    problem->heads_total = problem->heads_q > 0 ? problem->heads_q : 1;
    store_operands(arguments, call);
    return check_products(problem);
}
