/*
 * Options as text: the part of a case's name from which the case can be told apart.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "options.h"
#include "text.h"

static const char *const family_names[] = {"", ".packed_qkv", ".pool_kv", ".v_in_k", ".shared_heads"};
static const char *const values_names[] = {"",         ".outliers", ".large",     ".flat",    ".tiny",
                                           ".v_head",  ".ones",     ".alternate", ".step",    ".rising",
                                           ".jumping", ".heavy",    ".heavier",   ".heaviest"};
static const char *const inject_names[] = {
    "",
    ".q_nan",
    ".q_inf",
    ".q_hides_row",
    ".dout_nan",
    ".dout_inf",
    ".dlse_nan",
    ".bias_infinite",
    ".bias_hides_key",
    ".bias_hides_row",
    ".bias_hides_dout",
    ".bias_low",
    ".k_hidden_nan",
    ".k_hidden_inf",
    ".v_hidden_nan",
    ".v_hidden_inf",
    ".zero_signed",
    ".mask_row",
};
static const char *const align_names[] = {"", ".top_left", ".diagonal"};
static const char *const slopes_names[] = {"", ".alibi_h", ".alibi_bh", ".alibi_ln2"};
static const char *const descale_names[] = {"", ".descale_one", ".descale_bh", ".descale_blocks", ".descale_zero"};
static const char *const sparse_names[] = {"", ".sparse_shared", ".sparse_heads"};

static void add_flag(struct conform_text *text, bool flag, const char *name) {
    conform_text_add(text, "%s", flag ? name : "");
}

static void add_count(struct conform_text *text, const char *name, int64_t count) {
    if (count != 0) {
        conform_text_add(text, ".%s%lld", name, (long long)count);
    }
}

static void add_real(struct conform_text *text, const char *name, bool is_set, double value) {
    if (is_set) {
        conform_text_add(text, ".%s=%g", name, value);
    }
}

static void describe_shape(struct conform_text *text, const struct conform_options *o) {
    conform_text_add(text, "%s.%s", o->op == ATTUNE_OP_BACKWARD ? "bwd" : "fwd", attune_dtype_name(o->dtype));
    if (o->out_dtype != ATTUNE_DTYPE_NONE) {
        conform_text_add(text, ".out_%s", attune_dtype_name(o->out_dtype));
    }
    if (o->grad_dtype != ATTUNE_DTYPE_NONE) {
        conform_text_add(text, ".grad_%s", attune_dtype_name(o->grad_dtype));
    }
    conform_text_add(text, ".B%lld.Sq%lld.Sk%lld.H%lld", (long long)o->batch, (long long)o->rows, (long long)o->keys,
                     (long long)o->heads_q);
    add_count(text, "Hkv", o->heads_kv != o->heads_q ? o->heads_kv : 0);
    add_count(text, "D", o->head_dim);
    add_count(text, "Dv", o->head_dim_v != o->head_dim ? o->head_dim_v : 0);
}

static void describe_memory(struct conform_text *text, const struct conform_options *o) {
    conform_text_add(text, "%s", family_names[o->family]);
    if (o->transposed) {
        conform_text_add(text, ".bhsd_%s%s%s%s", o->transposed & CONFORM_TRANSPOSED_Q ? "q" : "",
                         o->transposed & CONFORM_TRANSPOSED_K ? "k" : "",
                         o->transposed & CONFORM_TRANSPOSED_V ? "v" : "",
                         o->transposed & CONFORM_TRANSPOSED_O ? "o" : "");
    }
    add_flag(text, o->padded, ".padded");
    add_flag(text, o->misaligned, ".misaligned");
    add_flag(text, o->in_place, ".in_place");
    conform_text_add(text, "%s%s", values_names[o->values], inject_names[o->inject]);
}

static void describe_broadcast(struct conform_text *text, const char *name, const struct conform_broadcast *tensor) {
    if (tensor->axes) {
        conform_text_add(text, ".%s_%s%s%s%s", name, tensor->axes[0] ? tensor->axes : "1",
                         tensor->expanded ? "_expanded" : "", tensor->squeezed ? "_squeezed" : "",
                         tensor->as_q ? "_as_q" : "");
    }
}

static void describe_score(struct conform_text *text, const struct conform_options *o) {
    add_real(text, "scale", o->has_scale || o->scale != 0, o->scale);
    add_real(text, "softcap", o->softcap != 0, o->softcap);
    add_flag(text, o->causal, ".causal");
    conform_text_add(text, "%s", align_names[o->align]);
    if (o->align == ATTUNE_ALIGN_DIAGONAL) {
        conform_text_add(text, "%lld", (long long)o->diagonal);
    }
    if (o->window.set) {
        conform_text_add(text, ".window%lld,%lld", (long long)o->window.left, (long long)o->window.right);
    }
    describe_broadcast(text, "bias", &o->bias);
    describe_broadcast(text, "mask", &o->mask);
    conform_text_add(text, "%s", slopes_names[o->slopes]);
    add_flag(text, o->sink, ".sink");
    conform_text_add(text, "%s", sparse_names[o->sparse]);
    if (o->sparse != CONFORM_SPARSE_NONE) {
        conform_text_add(text, "_%lldx%lld", (long long)o->block_rows, (long long)o->block_keys);
    }
    add_real(text, "dropout", o->dropout_rate != 0, o->dropout_rate);
    add_flag(text, o->dropout_memory, ".seed_memory");
    add_flag(text, o->origins, ".origins");
    conform_text_add(text, "%s", descale_names[o->descale]);
}

static void describe_lengths(struct conform_text *text, const struct conform_options *o, const char *name,
                             const struct conform_lengths *lengths) {
    if (lengths->ragged) {
        conform_text_add(text, ".varlen_%s", name);
    }
    if (lengths->used) {
        conform_text_add(text, ".used_%s", name);
    }
    for (int64_t b = 0; lengths->given && b < o->batch; b++) {
        conform_text_add(text, "%c%d", b ? '-' : '=', lengths->given[b]);
    }
}

static void describe_how(struct conform_text *text, const struct conform_options *o) {
    add_flag(text, o->no_lse, ".no_lse");
    add_flag(text, o->probs, ".probs");
    add_flag(text, o->dlse, ".dlse");
    add_flag(text, o->no_dq, ".no_dq");
    add_flag(text, o->no_dkv, ".no_dkv");
    add_flag(text, o->no_dextra, ".no_dextra");
    add_count(text, "splits", o->splits);
    if (o->tile_rows || o->tile_keys) {
        conform_text_add(text, ".tile%dx%d", o->tile_rows, o->tile_keys);
    }
    if (o->kernel[0]) {
        conform_text_add(text, ".kernel=%s", o->kernel);
    }
    add_flag(text, o->deterministic, ".deterministic");
    add_flag(text, o->check, ".check");
    add_flag(text, o->planned, ".planned");
    add_flag(text, o->default_stream, ".default_stream");
}

void conform_options_describe(const struct conform_options *options, char out_text[CONFORM_NAME_MAX]) {
    struct conform_text text = {out_text, CONFORM_NAME_MAX, 0};
    describe_shape(&text, options);
    describe_memory(&text, options);
    describe_score(&text, options);
    describe_lengths(&text, options, "q", &options->q);
    describe_lengths(&text, options, "k", &options->k);
    if (options->extra_rows != 3) {
        conform_text_add(&text, ".extra%lld", (long long)options->extra_rows);
    }
    add_flag(&text, options->leftpad, ".leftpad");
    add_count(&text, "page", options->page_size);
    add_flag(&text, options->max_unset, ".max_unset");
    describe_how(&text, options);
}
