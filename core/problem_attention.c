/*
 * The rules of attune_forward and attune_backward.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/problem_internal.h"

#include <inttypes.h>
#include <math.h>

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/arguments.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"
#include "core/tile.h"

#define DIAGONAL_MAX (INT64_C(1) << 61)
#define WINDOW_MAX   (INT64_C(1) << 62) /* further than any key: rows and shift are less than this */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Options ---- */

static attune_status check_integers(const attune_attention_args *args) {
    const struct attune_range ranges[] = {
        {"align", (int64_t)args->align, ATTUNE_ALIGN_BOTTOM_RIGHT, ATTUNE_ALIGN_DIAGONAL,
         "must be one of attune_align"},
        {"diagonal", args->diagonal, -DIAGONAL_MAX, DIAGONAL_MAX, "must be within +-2^61"},
        {"window.left", args->window.left, -1, INT64_MAX, "must be -1 (open) or more"},
        {"window.right", args->window.right, -1, INT64_MAX, "must be -1 (open) or more"},
        {"max_seqlen_q", args->max_seqlen_q, 0, INT64_MAX, "must be 0 or more"},
        {"max_seqlen_k", args->max_seqlen_k, 0, INT64_MAX, "must be 0 or more"},
        {"batch_origin", args->batch_origin, 0, INT64_MAX, "must be 0 or more"},
        {"head_origin", args->head_origin, 0, INT64_MAX, "must be 0 or more"},
        {"row_origin", args->row_origin, 0, INT64_MAX, "must be 0 or more"},
        {"key_origin", args->key_origin, 0, INT64_MAX, "must be 0 or more"},
        {"heads_total", args->heads_total, 0, INT64_MAX, "must be 0 (Hq) or more"},
        {"splits", args->splits, 0, INT32_MAX, "must be 0 (automatic) or more"},
    };
    attune_status status = attune_ranges_check(ranges, COUNT(ranges));
    if (status != ATTUNE_OK) {
        return status;
    }
    if (args->align != ATTUNE_ALIGN_DIAGONAL && args->diagonal != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "diagonal = %" PRId64 ": must be 0 without ATTUNE_ALIGN_DIAGONAL",
                           args->diagonal);
    }
    if (!args->window.set && (args->window.left != 0 || args->window.right != 0)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "window = (%" PRId64 ", %" PRId64 ") and not set: must be made by ATTUNE_WINDOW",
                           args->window.left, args->window.right);
    }
    return ATTUNE_OK;
}

static attune_status check_tiles(const attune_attention_args *args) {
    const struct {
        const char *argument;
        int32_t value;
    } tiles[] = {{"tile_rows", args->tile_rows}, {"tile_keys", args->tile_keys}};
    for (size_t k = 0; k < COUNT(tiles); k++) {
        if (tiles[k].value != 0 && (tiles[k].value < ATTUNE_TILE_SIDE_MIN || tiles[k].value > ATTUNE_TILE_SIDE_MAX)) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s = %" PRId32 ": must be 0 (automatic) or %d to %d",
                               tiles[k].argument, tiles[k].value, ATTUNE_TILE_SIDE_MIN, ATTUNE_TILE_SIDE_MAX);
        }
    }
    return ATTUNE_OK;
}

static attune_status check_reals(const attune_attention_args *args) {
    if (!isfinite(args->scale)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "scale = %g: must be finite", args->scale);
    }
    if (!isfinite(args->softcap) || args->softcap < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "softcap = %g: must be finite, and 0 (off) or more", args->softcap);
    }
    if (!(args->dropout_rate >= 0 && args->dropout_rate < 1)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "dropout_rate = %.17g: must be in [0, 1)", args->dropout_rate);
    }
    return ATTUNE_OK;
}

static attune_status check_options(const attune_attention_args *args, const struct attune_arguments *arguments) {
    const struct {
        attune_operand operand;
        const char *option;
        int64_t value;
    } units[] = {
        {ATTUNE_OPERAND_BLOCK_TABLE, "page_size", args->page_size},
        {ATTUNE_OPERAND_BLOCK_ROW_PTR, "block_rows", args->block_rows},
        {ATTUNE_OPERAND_BLOCK_ROW_PTR, "block_keys", args->block_keys},
    };
    attune_status status = check_reals(args);
    if (status == ATTUNE_OK) {
        status = check_integers(args);
    }
    if (status == ATTUNE_OK) {
        status = check_tiles(args);
    }
    for (size_t k = 0; status == ATTUNE_OK && k < COUNT(units); k++) {
        status = attune_arguments_check_unit(arguments, units[k].operand, units[k].option, units[k].value);
    }
    return status;
}

/* ---- Tensors ---- */

static attune_status check_presence(const struct attune_arguments *arguments) {
    static const struct attune_pair pairs[] = {
        {ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_PAIRING_EXCLUDES, ATTUNE_OPERAND_CU_SEQLENS_K},
        {ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_SEQUSED_K},
        {ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_BLOCK_COL_IDX},
        {ATTUNE_OPERAND_BLOCK_COL_IDX, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_BLOCK_ROW_PTR},
        {ATTUNE_OPERAND_DBIAS, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_BIAS},
        {ATTUNE_OPERAND_DSINK, ATTUNE_PAIRING_NEEDS, ATTUNE_OPERAND_SINK},
    };
    static const attune_operand gradients[] = {ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV,
                                               ATTUNE_OPERAND_DBIAS, ATTUNE_OPERAND_DSINK};
    attune_status status = attune_arguments_check_pairs(arguments, pairs, COUNT(pairs));
    if (status != ATTUNE_OK || arguments->op != ATTUNE_OP_BACKWARD) {
        return status;
    }
    for (size_t k = 0; k < COUNT(gradients); k++) {
        if (arguments->tensor[gradients[k]] != NULL) {
            return ATTUNE_OK;
        }
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "dq, dk, dv, dbias and dsink are absent: one must be given for attune_backward");
}

/* The two sides of attention, as far as their lengths are stated in the same way. */
struct side {
    attune_operand data;
    attune_operand offsets;
    enum attune_axis total;
    enum attune_axis length;
    const char *max_seqlen;
    const char *offsets_name;
    const char *length_name;
};
static const struct side side_q = {ATTUNE_OPERAND_Q,
                                   ATTUNE_OPERAND_CU_SEQLENS_Q,
                                   ATTUNE_AXIS_TOTAL_Q,
                                   ATTUNE_AXIS_SQ,
                                   "max_seqlen_q",
                                   "cu_seqlens_q",
                                   "Sq"};
static const struct side side_k = {ATTUNE_OPERAND_K,
                                   ATTUNE_OPERAND_CU_SEQLENS_K,
                                   ATTUNE_AXIS_TOTAL_K,
                                   ATTUNE_AXIS_SK,
                                   "max_seqlen_k",
                                   "cu_seqlens_k",
                                   "Sk"};

static attune_status bind_side(struct attune_arguments *arguments, const struct side *side, int64_t max_seqlen) {
    attune_status status = attune_arguments_bind(arguments, side->data);
    if (status == ATTUNE_OK) {
        status = attune_arguments_bind(arguments, side->offsets);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (arguments->tensor[side->offsets] == NULL) {
        int64_t length = arguments->extents.value[side->length];
        if (max_seqlen != 0 && max_seqlen != length) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT,
                               "%s = %" PRId64 ": without %s must be 0 or %s, which is %" PRId64, side->max_seqlen,
                               max_seqlen, side->offsets_name, side->length_name, length);
        }
        return ATTUNE_OK;
    }
    int64_t total = arguments->extents.value[side->total];
    if (max_seqlen > total) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s = %" PRId64 ": must be at most the total that %s divides, %" PRId64, side->max_seqlen,
                           max_seqlen, side->offsets_name, total);
    }
    attune_extents_set(&arguments->extents, side->length, max_seqlen != 0 ? max_seqlen : total, side->max_seqlen);
    return ATTUNE_OK;
}

static void bind_blocks(struct attune_extents *extents, int64_t block_rows) {
    int64_t rows = extents->value[ATTUNE_AXIS_SQ];
    int64_t keys = extents->value[ATTUNE_AXIS_SK];
    if (block_rows > 0) {
        attune_extents_set(extents, ATTUNE_AXIS_NQ, attune_ceil_div(rows, block_rows), "ceil(Sq / block_rows)");
    }
    attune_extents_set(extents, ATTUNE_AXIS_DESCALE_Q, attune_ceil_div(rows, 128), "Sq");
    attune_extents_set(extents, ATTUNE_AXIS_DESCALE_K, attune_ceil_div(keys, 128), "Sk");
}

static attune_status bind_shapes(struct attune_arguments *arguments, const attune_attention_args *args) {
    arguments->extents.packed_q = arguments->tensor[ATTUNE_OPERAND_CU_SEQLENS_Q] != NULL;
    arguments->extents.packed_k = arguments->tensor[ATTUNE_OPERAND_CU_SEQLENS_K] != NULL;
    attune_status status = bind_side(arguments, &side_q, args->max_seqlen_q);
    if (status == ATTUNE_OK) {
        status = attune_arguments_bind_pages(arguments, args->page_size);
    }
    if (status == ATTUNE_OK) {
        status = bind_side(arguments, &side_k, args->max_seqlen_k);
    }
    if (status == ATTUNE_OK) {
        bind_blocks(&arguments->extents, args->block_rows);
        status = attune_arguments_bind_all(arguments);
    }
    return status;
}

static attune_status check_heads(const struct attune_arguments *arguments, const attune_attention_args *args) {
    int64_t heads_q = arguments->extents.value[ATTUNE_AXIS_HQ];
    int64_t heads_kv = arguments->extents.value[ATTUNE_AXIS_HKV];
    if (heads_q % heads_kv != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "q has %" PRId64 " heads and k has %" PRId64 ": Hq must be a multiple of Hkv", heads_q,
                           heads_kv);
    }
    int64_t heads_total = args->heads_total == 0 ? heads_q : args->heads_total;
    if (args->head_origin > heads_total - heads_q) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "head_origin = %" PRId64 ", heads_total = %" PRId64 " (0: Hq): the %" PRId64
                           " heads of q must lie within heads_total",
                           args->head_origin, args->heads_total, heads_q);
    }
    return ATTUNE_OK;
}

static attune_status check_dbias(const struct attune_arguments *arguments) {
    const attune_tensor *bias = arguments->tensor[ATTUNE_OPERAND_BIAS];
    const attune_tensor *dbias = arguments->tensor[ATTUNE_OPERAND_DBIAS];
    bool alike = dbias == NULL || dbias->rank == bias->rank;
    for (int32_t k = 0; alike && dbias != NULL && k < bias->rank; k++) {
        alike = dbias->shape[k] == bias->shape[k];
    }
    if (alike) {
        return ATTUNE_OK;
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "dbias has shape %s: must be that of bias, %s",
                       attune_shape_format(dbias->rank, dbias->shape).text,
                       attune_shape_format(bias->rank, bias->shape).text);
}

static attune_status check_args(attune_op op, const attune_attention_args *args,
                                struct attune_arguments *out_arguments) {
    attune_status status = attune_arguments_collect(op, args, false, out_arguments);
    if (status == ATTUNE_OK) {
        status = check_presence(out_arguments);
    }
    if (status == ATTUNE_OK) {
        status = check_options(args, out_arguments);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_check_dtypes(out_arguments, ATTUNE_OPERAND_Q);
    }
    if (status == ATTUNE_OK) {
        status = bind_shapes(out_arguments, args);
    }
    if (status == ATTUNE_OK) {
        status = check_heads(out_arguments, args);
    }
    return status == ATTUNE_OK ? check_dbias(out_arguments) : status;
}

/* ---- The canonical problem: what means the same is written the same, so that it shares a plan ---- */

static void set_window(const attune_attention_args *args, attune_problem *problem) {
    if (args->window.set) {
        problem->window_left = args->window.left < WINDOW_MAX ? args->window.left : WINDOW_MAX;
        problem->window_right = args->window.right < WINDOW_MAX ? args->window.right : WINDOW_MAX;
    }
    if (args->causal) {
        problem->window_right = 0; /* no window side is less, and an open one is more */
    }
    if (problem->window_left == -1 && problem->window_right == 0) {
        problem->features |= ATTUNE_FEATURE_CAUSAL;
    } else if (problem->window_left != -1 || problem->window_right != -1) {
        problem->features |= ATTUNE_FEATURE_WINDOW;
    }
}

/* Bottom-right unless the shift is used and may be another. */
static void set_shift(const attune_attention_args *args, attune_problem *problem) {
    const uint64_t uses_shift = ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_ALIBI;
    const uint64_t has_lengths =
        ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q | ATTUNE_FEATURE_SEQUSED_K;
    if (args->align == ATTUNE_ALIGN_BOTTOM_RIGHT || (problem->features & uses_shift) == 0) {
        return;
    }
    int64_t shift = args->align == ATTUNE_ALIGN_DIAGONAL ? args->diagonal : 0;
    if ((problem->features & has_lengths) == 0 && shift == problem->keys - problem->rows) {
        return;
    }
    problem->align = args->align;
    problem->diagonal = args->diagonal;
    problem->features |= ATTUNE_FEATURE_DIAGONAL;
}

/* The counter's words are taken mod 2^32 (docs/semantics.md, "Dropout"), and four keys share one. */
static void set_dropout(const attune_attention_args *args, attune_problem *problem) {
    if (args->dropout_rate == 0) {
        return;
    }
    problem->features |= ATTUNE_FEATURE_DROPOUT;
    problem->dropout_rate = args->dropout_rate;
    problem->batch_origin = args->batch_origin & ((INT64_C(1) << 32) - 1);
    problem->head_origin = args->head_origin & ((INT64_C(1) << 32) - 1);
    problem->row_origin = args->row_origin & ((INT64_C(1) << 32) - 1);
    problem->key_origin = args->key_origin & ((INT64_C(1) << 34) - 1);
    if (args->heads_total != 0) {
        problem->heads_total = args->heads_total;
    }
}

static void set_options(const attune_attention_args *args, attune_problem *problem) {
    if (args->softcap > 0) {
        problem->softcap = args->softcap;
        problem->features |= ATTUNE_FEATURE_SOFTCAP;
    }
    if (problem->heads_q > problem->heads_kv) {
        problem->features |= ATTUNE_FEATURE_GQA;
    }
    if (problem->op == ATTUNE_OP_FORWARD && problem->operand[ATTUNE_OPERAND_LSE].dtype != ATTUNE_DTYPE_NONE) {
        problem->features |= ATTUNE_FEATURE_LSE;
    }
    if (args->deterministic) {
        problem->deterministic = true;
        problem->features |= ATTUNE_FEATURE_DETERMINISTIC;
    }
    /* A block past the last row or key is as good as one that ends there, and no product with its size wraps. */
    problem->block_rows = attune_min(args->block_rows, attune_max(problem->rows, 1));
    problem->block_keys = attune_min(args->block_keys, attune_max(problem->keys, 1));
    set_window(args, problem);
    set_shift(args, problem);
    set_dropout(args, problem);
}

static void set_request(const attune_attention_args *args, struct attune_call *call) {
    call->request.kernel = args->kernel;
    call->request.tile_rows = args->tile_rows;
    call->request.tile_keys = args->tile_keys;
    call->request.splits = args->splits;
    call->request.check = args->check;
    bool default_scale = args->scale == 0 && !args->has_scale;
    call->bindings.scale = default_scale ? 1 / sqrt((double)call->problem.head_dim) : args->scale;
    call->bindings.dropout_seed = args->dropout_seed;
    call->bindings.dropout_offset = args->dropout_offset;
}

attune_status attune_call_make_attention(attune_op op, const void *args, struct attune_call *out_call) {
    attune_attention_args known;
    struct attune_arguments arguments;
    attune_status status = attune_args_import("attune_attention_args", args, sizeof known, &known);
    if (status == ATTUNE_OK) {
        status = check_args(op, &known, &arguments);
    }
    if (status == ATTUNE_OK) {
        status = attune_arguments_store(&arguments, ATTUNE_OPERAND_Q, out_call);
    }
    if (status == ATTUNE_OK) {
        set_options(&known, &out_call->problem);
        set_request(&known, out_call);
    }
    return status;
}
