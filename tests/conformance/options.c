/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>

#include "attune/backend.h"

struct conform_options conform_options_make(attune_op op, attune_dtype dtype) {
    struct conform_options options;
    memset(&options, 0, sizeof options);
    options.op = op;
    options.dtype = dtype;
    options.batch = 2;
    options.rows = 13;
    options.keys = 21;
    options.heads_q = 2;
    options.heads_kv = 2;
    options.head_dim = 16;
    options.head_dim_v = 16;
    options.extra_rows = 3;
    return options;
}

/* Which has NaN and no infinity. */
static enum conform_inject inject_of_e4m3(enum conform_inject inject) {
    switch (inject) {
    case CONFORM_INJECT_Q_INFINITE:
    case CONFORM_INJECT_Q_HIDES_ROW:
        return CONFORM_INJECT_Q_NAN;
    case CONFORM_INJECT_K_HIDDEN_INFINITE:
        return CONFORM_INJECT_K_HIDDEN_NAN;
    case CONFORM_INJECT_V_HIDDEN_INFINITE:
        return CONFORM_INJECT_V_HIDDEN_NAN;
    default:
        return inject;
    }
}

static void settle_dtypes(struct conform_options *options) {
    if (options->descale != CONFORM_DESCALE_NONE) {
        options->dtype = ATTUNE_DTYPE_E4M3;
    }
    if (options->in_place) {
        options->dtype = options->dtype == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_F16 : options->dtype;
        options->out_dtype = ATTUNE_DTYPE_NONE;
        options->head_dim_v = options->head_dim;
    }
    if (options->dtype == ATTUNE_DTYPE_E4M3) {
        options->inject = inject_of_e4m3(options->inject);
    }
    if (options->out_dtype == options->dtype) {
        options->out_dtype = ATTUNE_DTYPE_NONE;
    }
    if (options->grad_dtype == conform_options_out_dtype(options)) {
        options->grad_dtype = ATTUNE_DTYPE_NONE;
    }
}

/* What one pass has and the other has not. */
static void settle_pass(struct conform_options *options) {
    if (options->op == ATTUNE_OP_BACKWARD) {
        options->in_place = false;
        options->probs = false;
        options->no_lse = false;
        options->page_size = 0;
        return;
    }
    options->grad_dtype = ATTUNE_DTYPE_NONE;
    options->dlse = false;
    options->no_dq = false;
    options->no_dkv = false;
    options->no_dextra = false;
}

void conform_options_settle(struct conform_options *options) {
    settle_pass(options);
    settle_dtypes(options);
    bool has_diagonal = options->causal || options->window.set || options->slopes != CONFORM_SLOPES_NONE;
    if (options->align != ATTUNE_ALIGN_BOTTOM_RIGHT && !has_diagonal) {
        options->causal = true; /* an alignment alone says nothing */
    }
    if ((options->dropout_memory || options->origins) && options->dropout_rate == 0) {
        options->dropout_rate = 0.25;
    }
    if (options->page_size > 0) {
        options->k.ragged = false;
        options->k.used = true;
    }
    if (options->sparse != CONFORM_SPARSE_NONE && options->block_rows == 0) {
        options->block_rows = 5;
        options->block_keys = 7;
    }
    if (options->family == CONFORM_FAMILY_V_IN_K && options->head_dim_v > options->head_dim) {
        options->head_dim_v = options->head_dim;
    }
    if (options->family != CONFORM_FAMILY_SEPARATE) {
        options->transposed = 0;
    }
}

attune_dtype conform_options_out_dtype(const struct conform_options *options) {
    if (options->out_dtype != ATTUNE_DTYPE_NONE) {
        return options->out_dtype;
    }
    return options->dtype == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_BF16 : options->dtype;
}

attune_dtype conform_options_grad_dtype(const struct conform_options *options) {
    return options->grad_dtype != ATTUNE_DTYPE_NONE ? options->grad_dtype : conform_options_out_dtype(options);
}

/* Causal is a window with nothing to the right; what both leave open is no window at all. */
static uint64_t band_features(const struct conform_options *options) {
    int64_t left = options->window.set ? options->window.left : -1;
    int64_t right = options->window.set ? options->window.right : -1;
    right = options->causal ? 0 : right;
    uint64_t features = 0;
    if (left < 0 && right == 0) {
        features |= ATTUNE_FEATURE_CAUSAL;
    } else if (left >= 0 || right >= 0) {
        features |= ATTUNE_FEATURE_WINDOW;
    }
    return features | (options->align != ATTUNE_ALIGN_BOTTOM_RIGHT ? ATTUNE_FEATURE_DIAGONAL : 0);
}

static uint64_t output_features(const struct conform_options *options) {
    bool backward = options->op == ATTUNE_OP_BACKWARD;
    uint64_t features = 0;
    features |= !backward && !options->no_lse ? ATTUNE_FEATURE_LSE : 0;
    features |= options->probs ? ATTUNE_FEATURE_PROBS : 0;
    features |= options->dlse ? ATTUNE_FEATURE_DLSE : 0;
    features |= backward && options->bias.axes && !options->no_dextra ? ATTUNE_FEATURE_DBIAS : 0;
    features |= backward && options->sink && !options->no_dextra ? ATTUNE_FEATURE_DSINK : 0;
    bool wide = conform_options_out_dtype(options) == ATTUNE_DTYPE_F32 ||
                (backward && conform_options_grad_dtype(options) == ATTUNE_DTYPE_F32);
    features |= wide && options->dtype != ATTUNE_DTYPE_F32 ? ATTUNE_FEATURE_F32_OUT : 0;
    return features | (options->in_place ? ATTUNE_FEATURE_O_IS_Q : 0);
}

uint64_t conform_options_features(const struct conform_options *options) {
    uint64_t features = band_features(options) | output_features(options);
    features |= options->softcap > 0 ? ATTUNE_FEATURE_SOFTCAP : 0;
    features |= options->slopes != CONFORM_SLOPES_NONE ? ATTUNE_FEATURE_ALIBI : 0;
    features |= options->bias.axes ? ATTUNE_FEATURE_BIAS : 0;
    features |= options->mask.axes ? ATTUNE_FEATURE_MASK : 0;
    features |= options->sink ? ATTUNE_FEATURE_SINK : 0;
    features |= options->dropout_rate > 0 ? ATTUNE_FEATURE_DROPOUT : 0;
    features |= options->heads_q > options->heads_kv ? ATTUNE_FEATURE_GQA : 0;
    features |= options->q.ragged ? ATTUNE_FEATURE_VARLEN_Q : 0;
    features |= options->k.ragged ? ATTUNE_FEATURE_VARLEN_K : 0;
    features |= options->q.used ? ATTUNE_FEATURE_SEQUSED_Q : 0;
    features |= options->k.used ? ATTUNE_FEATURE_SEQUSED_K : 0;
    features |= options->leftpad ? ATTUNE_FEATURE_LEFTPAD_K : 0;
    features |= options->page_size > 0 ? ATTUNE_FEATURE_PAGED : 0;
    features |= options->sparse != CONFORM_SPARSE_NONE ? ATTUNE_FEATURE_BLOCK_SPARSE : 0;
    features |= options->descale != CONFORM_DESCALE_NONE ? ATTUNE_FEATURE_DESCALE : 0;
    return features | (options->deterministic ? ATTUNE_FEATURE_DETERMINISTIC : 0);
}

attune_attention_args conform_options_args(const struct conform_options *options) {
    attune_attention_args args = attune_attention_args_init();
    args.has_scale = options->has_scale;
    args.scale = options->scale;
    args.softcap = options->softcap;
    args.causal = options->causal;
    args.align = options->align;
    args.diagonal = options->diagonal;
    args.window = options->window;
    args.max_seqlen_q = options->q.ragged && !options->max_unset ? options->rows : 0;
    args.max_seqlen_k = options->k.ragged && !options->max_unset ? options->keys : 0;
    args.page_size = options->page_size;
    args.block_rows = options->block_rows;
    args.block_keys = options->block_keys;
    args.dropout_rate = options->dropout_rate;
    if (options->origins) { /* none a multiple of another, the key's word in the middle of a Philox block */
        args.batch_origin = 3;
        args.head_origin = 5;
        args.row_origin = 1000003;
        args.key_origin = 70002;
        args.heads_total = args.head_origin + options->heads_q + 2;
    }
    args.splits = options->splits;
    args.tile_rows = options->tile_rows;
    args.tile_keys = options->tile_keys;
    args.kernel = options->kernel[0] ? options->kernel : NULL;
    args.deterministic = options->deterministic;
    args.check = options->check;
    return args;
}
