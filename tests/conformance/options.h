/*
 * A problem's description: everything from which its tensors and arguments follow, given a seed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_OPTIONS_H
#define CONFORM_OPTIONS_H

#include "attune/attune.h"

#define CONFORM_NAME_MAX 384

/* How tensors share memory. */
enum conform_family {
    CONFORM_FAMILY_SEPARATE,    /* a buffer for each tensor */
    CONFORM_FAMILY_PACKED_QKV,  /* q, k and v of a token side by side; dq, dk and dv likewise */
    CONFORM_FAMILY_POOL_KV,     /* k and v of a token side by side; dk and dv likewise */
    CONFORM_FAMILY_V_IN_K,      /* v is the first Dv columns of k */
    CONFORM_FAMILY_SHARED_HEADS /* k and v have stride 0 over heads */
};

/* Tensors whose memory order is (B, H, S, D); the others are (B, S, H, D). Gradients follow their tensor. */
#define CONFORM_TRANSPOSED_Q   1u
#define CONFORM_TRANSPOSED_K   2u
#define CONFORM_TRANSPOSED_V   4u
#define CONFORM_TRANSPOSED_O   8u
#define CONFORM_TRANSPOSED_ALL 15u

/* What q, k, v and dout hold. */
enum conform_values {
    CONFORM_VALUES_NORMAL,
    CONFORM_VALUES_OUTLIERS,    /* normal, 0.1% of entries times 10 */
    CONFORM_VALUES_LARGE,       /* q and k times 10: large logits */
    CONFORM_VALUES_FLAT,        /* q = 0: all scores equal */
    CONFORM_VALUES_TINY,        /* v around the smallest normal of the dtype, subnormals among them */
    CONFORM_VALUES_HEAD,        /* v = 1 + its head */
    CONFORM_VALUES_ONES,        /* q = 0, v = 1 */
    CONFORM_VALUES_ALTERNATING, /* q = 0, v = 1000, -999, 1000, ...: cancels to 1/2 */
    CONFORM_VALUES_STEP,        /* q = 0, v = 0 at key 0 and 10000 behind it (256 in e4m3) */
    CONFORM_VALUES_RISING,      /* scores rise by 0.3 a key, and fall in every second head */
    CONFORM_VALUES_JUMPING,     /* scores of every 64 keys are about another level, up to 340 apart */
    CONFORM_VALUES_HEAVY,       /* 17 more at every 50th key, where v = 0: light keys make o */
    CONFORM_VALUES_HEAVIER,     /* 30 more there: what o is made of is seen in f32 only */
    CONFORM_VALUES_HEAVIEST     /* 60 more at the first key alone, which kernels may come to first or last */
};

/* One thing put on top of the values. */
enum conform_inject {
    CONFORM_INJECT_NONE,
    CONFORM_INJECT_Q_NAN,             /* q row 1 of every sequence, one element */
    CONFORM_INJECT_Q_INFINITE,        /* likewise (not in e4m3) */
    CONFORM_INJECT_Q_HIDES_ROW,       /* q row 1 infinite so that all its scores are -inf (not in e4m3) */
    CONFORM_INJECT_DOUT_NAN,          /* dout row 1, one element */
    CONFORM_INJECT_DOUT_INFINITE,     /* likewise */
    CONFORM_INJECT_DLSE_NAN,          /* dlse row 1 */
    CONFORM_INJECT_BIAS_INFINITE,     /* bias +inf at row 1, key 0 */
    CONFORM_INJECT_BIAS_HIDES_KEY,    /* bias -inf at key 0 of every row */
    CONFORM_INJECT_BIAS_HIDES_ROW,    /* bias -inf at every key of row 1 */
    CONFORM_INJECT_BIAS_HIDES_DOUT,   /* bias -inf at key 0 and at every key of row 1; dout rows 0 and 1 have NaN */
    CONFORM_INJECT_BIAS_LOW,          /* bias -1e30 at every key of row 1: ordinary scores */
    CONFORM_INJECT_K_HIDDEN_NAN,      /* k of the last key NaN; rows that do not see it are as before */
    CONFORM_INJECT_K_HIDDEN_INFINITE, /* k infinite likewise (not in e4m3) */
    CONFORM_INJECT_V_HIDDEN_NAN,      /* v likewise */
    CONFORM_INJECT_V_HIDDEN_INFINITE, /* v infinite likewise (not in e4m3) */
    CONFORM_INJECT_ZERO_SIGNED,       /* every second zero of q, k and v is -0: 0x80 in e4m3 */
    CONFORM_INJECT_MASK_ROW           /* mask 0 at every key of row 1 */
};

/* A tensor that broadcasts to (B, Hq, Sq, Sk). */
struct conform_broadcast {
    const char *axes; /* those with their full extent, of "bhij"; NULL: the tensor is absent */
    bool expanded;    /* the others have their full extent too, with stride 0 */
    bool squeezed;    /* leading axes that broadcast are left out */
    bool as_q;        /* q's dtype in place of f32; bf16 for e4m3. dbias likewise */
};

enum conform_slopes { CONFORM_SLOPES_NONE, CONFORM_SLOPES_HEADS, CONFORM_SLOPES_BATCH_HEADS, CONFORM_SLOPES_LN2 };

enum conform_descale {
    CONFORM_DESCALE_NONE,
    CONFORM_DESCALE_ONE,
    CONFORM_DESCALE_HEADS,
    CONFORM_DESCALE_BLOCKS,
    CONFORM_DESCALE_ZERO /* (B, Hkv), 0 for v's first head */
};

enum conform_sparse { CONFORM_SPARSE_NONE, CONFORM_SPARSE_SHARED, CONFORM_SPARSE_HEADS };

/* Lengths of sequences: drawn, or given. */
struct conform_lengths {
    const int32_t *given; /* batch entries, or NULL */
    bool ragged;          /* cu_seqlens */
    bool used;            /* seqused */
};

struct conform_options {
    attune_op op;
    attune_dtype dtype;
    attune_dtype out_dtype;  /* of o and dout; NONE: dtype, or bf16 for e4m3 */
    attune_dtype grad_dtype; /* of dq, dk, dv; NONE: out_dtype */
    int64_t batch;
    int64_t rows; /* of a sequence at most */
    int64_t keys;
    int64_t heads_q;
    int64_t heads_kv;
    int64_t head_dim;
    int64_t head_dim_v;

    enum conform_family family;
    unsigned transposed;
    bool padded;     /* odd gaps between rows, heads and batches */
    bool misaligned; /* each tensor begins one element past a multiple of 16 bytes */
    bool in_place;   /* o is q */
    enum conform_values values;
    enum conform_inject inject;

    bool has_scale;
    double scale;
    double softcap;
    bool causal;
    attune_align align;
    int64_t diagonal;
    attune_window window;
    struct conform_broadcast bias;
    struct conform_broadcast mask;
    enum conform_slopes slopes;
    bool sink;
    enum conform_sparse sparse;
    int64_t block_rows;
    int64_t block_keys;

    struct conform_lengths q;
    struct conform_lengths k;
    int64_t extra_rows; /* of a packed batch, behind the last sequence */
    bool leftpad;
    int64_t page_size; /* 0: not paged */
    bool max_unset;    /* max_seqlen_q and max_seqlen_k are left 0 */

    enum conform_descale descale;
    double dropout_rate;
    bool dropout_memory; /* seed and offset lie in device memory */
    bool origins;

    bool no_lse;
    bool probs;
    bool dlse;
    bool no_dq;
    bool no_dkv;
    bool no_dextra; /* neither dbias nor dsink */

    int32_t splits;
    int32_t tile_rows;
    int32_t tile_keys;
    char kernel[ATTUNE_NAME_MAX]; /* "": the best */
    bool deterministic;
    bool check;
    bool planned;        /* attune_plan_create and _run in place of one call */
    bool default_stream; /* NULL */
};

/* A small plain forward problem, to start from. */
struct conform_options conform_options_make(attune_op op, attune_dtype dtype);

/* Settles what follows from other options, so that the API cannot refuse the whole: see the text of the function. */
void conform_options_settle(struct conform_options *options);

attune_dtype conform_options_out_dtype(const struct conform_options *options);
attune_dtype conform_options_grad_dtype(const struct conform_options *options);

/* Every option that is not the default, as text without blanks: equal texts are equal problems. */
void conform_options_describe(const struct conform_options *options, char out_text[CONFORM_NAME_MAX]);

/* ATTUNE_FEATURE_* of backend.h that the problem asks for. */
uint64_t conform_options_features(const struct conform_options *options);

/* The scalar arguments; tensors are left absent. */
attune_attention_args conform_options_args(const struct conform_options *options);

#endif
