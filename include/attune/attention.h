/*
 * Exact attention: forward, backward, and the merge of partial results.
 *
 * Notation: B batch, Sq / Sk rows / keys of a sequence, Hq / Hkv query and key-value heads (Hq a multiple of Hkv), D
 * the head size of q and k, Dv that of v and o. Row i of head h attends to keys of head h / (Hq / Hkv):
 *
 *     raw = scale * dot(q_i, k_j)
 *     s   = softcap > 0 ? softcap * tanh(raw / softcap) : raw
 *     s   = s + bias[b, h, i, j] - slope[b, h] * |i + shift - j|;   s = -inf where key j is not visible to row i
 *     m   = max(max_j s, sink[h]);  p = exp(s - m);  l = sum_j p + exp(sink[h] - m)
 *     o   = sum_j p v_j / l;  lse = m + log(l)
 *
 * A row that sees no key has o = 0 and lse = -inf (with a sink: lse = sink). A row with a score of +inf, or a NaN in q,
 * is NaN; no other row is touched by it. Bytes outside of a sequence never reach a result. Rows of an output that no
 * sequence owns are never written. A key inside the sequence that a row does not see has no effect on that row if it is
 * finite; if it is not, a tiled kernel may give NaN in that row, and in no other.
 *
 * Source: Dao, FlashAttention-2 (arXiv 2307.08691); Rabe and Staats, Self-attention Does Not Need O(n^2) Memory
 * (arXiv 2112.05682).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_ATTENTION_H
#define ATTUNE_ATTENTION_H

#include <string.h>

#include "attune/device.h"
#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

/* Where row i's own key lies: the diagonal passes through key i + shift. */
typedef enum attune_align {
    ATTUNE_ALIGN_BOTTOM_RIGHT = 0, /* shift = Sk - Sq: the last row's own key is the last key */
    ATTUNE_ALIGN_TOP_LEFT = 1,     /* shift = 0 */
    ATTUNE_ALIGN_DIAGONAL = 2      /* shift = args.diagonal, for every sequence */
} attune_align;

/* Row i sees the keys i + shift - left to i + shift + right, both included; -1 leaves a side open. Made by
 * ATTUNE_WINDOW, since a window of (0, 0) is not the absence of one. */
typedef struct attune_window {
    bool set;
    int64_t left;  /* -1 or more; W gives W + 1 keys with the diagonal */
    int64_t right; /* -1 or more */
} attune_window;

static inline attune_window attune_window_make(int64_t left, int64_t right) {
    attune_window window;
    window.set = true;
    window.left = left;
    window.right = right;
    return window;
}
#define ATTUNE_WINDOW(left, right) attune_window_make((left), (right))

/* What forward and backward take: tensors first, then options. Only q, k, v and the outputs are needed.
 *
 * B, Sq and Sk may be 0; Hq, Hkv, D and Dv are 1 or more. Every tensor has its own strides; the last axis of q, k, v, o
 * and of their gradients has stride 1. Strides of 0 are legal on inputs, never on outputs. "As q" means q's dtype;
 * where q is e4m3 it means f16 or bf16. Pointers are aligned to 16 bytes unless a plan says otherwise
 * (attune_explanation.alignment_bytes); one-call functions take any pointer that is aligned to its element, and a less
 * aligned one may cost speed.
 *
 * An output may not share an element with another tensor, except that o may be q in forward where both have one dtype
 * and shape and the kernel row can (INVALID_ARGUMENT otherwise). Interleaved views without common elements are fine:
 * packed qkv, K and V in one pool; and inputs may overlap each other (V as the first columns of K). */
typedef struct attune_attention_args {
    size_t struct_size;

    /* ---- Tensors ---- */
    attune_tensor q;   /* (B, Sq, Hq, D); with cu_seqlens_q (total, Hq, D). f32, f16, bf16 or e4m3, as k and v */
    attune_tensor k;   /* (B, Sk, Hkv, D); with cu_seqlens_k (total, Hkv, D); paged (pages, page_size, Hkv, D) */
    attune_tensor v;   /* (B, Sk, Hkv, Dv), and so on */
    attune_tensor o;   /* (B, Sq, Hq, Dv), or (total, Hq, Dv). As q, or f32. Forward writes it, backward reads it */
    attune_tensor lse; /* (B, Hq, Sq), or (Hq, total); f32, natural logarithm. Optional in forward, read by backward */
    attune_tensor probs; /* forward, for looking: (B, Hq, Sq, Sk) f32, p / l before dropout; O(S^2) memory. Optional */

    attune_tensor dout;  /* backward reads: the gradient of o, shaped as o. As q, or f32 */
    attune_tensor dlse;  /* backward reads: the gradient of lse, shaped as lse, f32. Optional */
    attune_tensor dq;    /* backward writes: shaped as q. As q, or f32. Optional, as dk, dv, dbias and dsink */
    attune_tensor dk;    /* shaped as k */
    attune_tensor dv;    /* shaped as v */
    attune_tensor dbias; /* shaped as bias, summed over the axes that bias broadcasts; f32 or as q */
    attune_tensor dsink; /* (Hq); f32 */

    attune_tensor bias; /* broadcastable to (B, Hq, Sq, Sk), from the right; with cu_seqlens to the maximal lengths, i
                           and j local to the sequence. f32, or q's dtype */
    attune_tensor mask; /* broadcastable likewise; u8, nonzero is visible */
    attune_tensor alibi_slopes; /* (Hq) or (B, Hq); f32 */
    attune_tensor sink;         /* (Hq); f32: a logit that takes part in m and l and brings no value. -inf is no sink */

    attune_tensor cu_seqlens_q; /* (B + 1) i32: sequence b owns rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1 */
    attune_tensor cu_seqlens_k; /* (B + 1) i32 */
    attune_tensor seqused_q;    /* (B) i32: only the first so many rows exist; Sq and Sk above are then those */
    attune_tensor seqused_k;    /* (B) i32 */
    attune_tensor leftpad_k;    /* (B) i32: the first so many keys are outside the sequence; moves no diagonal */

    attune_tensor block_table; /* (B, n) i32: the page of keys n * page_size and on. Forward only; needs page_size and
                                  seqused_k, refuses cu_seqlens_k. Entries that no row can see are not read */

    attune_tensor block_row_ptr; /* (nq + 1), or (Hq, nq + 1) i32: offsets into block_col_idx; see sparse.h.
                                    nq = ceil(maximal Sq / block_rows) */
    attune_tensor block_col_idx; /* (n) i32: key blocks, strictly increasing within a row of blocks */

    attune_tensor descale_q; /* e4m3 only, value = stored * descale. f32: (1), (B, Hkv) or (B, Hkv, ceil(S / 128)) over
                                positions from the sequence's start, S the maximal length. Absent: 1 */
    attune_tensor descale_k; /* S is columns * page_size where there is a block table */
    attune_tensor descale_v;

    attune_tensor dropout_seed_memory;   /* (1) u64 in device memory, in place of dropout_seed. Optional */
    attune_tensor dropout_offset_memory; /* (1) u32 in device memory, in place of dropout_offset. Optional */

    /* ---- The score ---- */
    bool has_scale; /* false: scale is taken as 1 / sqrt(D) if it is 0 */
    double scale;   /* finite; negative and, with has_scale, 0 are legal */
    double softcap; /* 0: off. Finite, not negative */

    /* ---- Who sees whom: the AND of all that is asked for ---- */
    bool causal;          /* j <= i + shift */
    attune_align align;   /* what shift is; also in window and ALiBi */
    int64_t diagonal;     /* shift, for ATTUNE_ALIGN_DIAGONAL, within +-2^61; otherwise 0 */
    attune_window window; /* ATTUNE_WINDOW(left, right) */

    /* ---- Lengths ---- */
    int64_t max_seqlen_q; /* with cu_seqlens_q: no sequence has more rows. 0: the total. Otherwise 0 or Sq */
    int64_t max_seqlen_k; /* with cu_seqlens_k likewise */
    int64_t page_size;    /* with block_table: 1 or more, k's second extent. Otherwise 0 */
    int64_t block_rows;   /* with block_row_ptr: rows of a block, 1 or more. Otherwise 0 */
    int64_t block_keys;   /* with block_row_ptr: keys of a block, 1 or more. Otherwise 0 */

    /* ---- Dropout: Philox 4x32-10, the same bits on every backend, tile and split ---- */
    double dropout_rate; /* 0: off. In [0, 1): the probability that a weight is dropped, the others * 1 / (1 - rate) */
    uint64_t dropout_seed;   /* any */
    uint32_t dropout_offset; /* any */
    int64_t batch_origin;    /* where this call's first batch, head, row and key lie in the whole problem: set by */
    int64_t head_origin;     /* sharding and ring attention so that the bits are those of the whole. 0 or more */
    int64_t row_origin;
    int64_t key_origin;
    int64_t heads_total; /* heads of the whole problem, head_origin + Hq or more. 0: Hq */

    /* ---- How ---- */
    int32_t splits;    /* parts that the keys are processed in; 0: automatic. A request: may be ignored */
    int32_t tile_rows; /* Br x Bc of a tile, 16 to 128; 0: automatic (or ATTUNE_TILE). A request: may be ignored */
    int32_t tile_keys;
    const char *kernel; /* a kernel row's name (attune_device_get_kernel); no other is used. NULL: the best */
    bool deterministic; /* bit-identical from run to run on one device, at a cost that the backend's page states */
    bool check; /* also check lengths, offsets and tables in device memory; synchronises. ATTUNE_CHECK=1 sets it */
} attune_attention_args;

/* One struct serves both passes, so that a caller fills in the options once. Forward refuses gradients, backward
 * refuses probs and block_table. */
typedef attune_attention_args attune_forward_args;
typedef attune_attention_args attune_backward_args;

static inline attune_attention_args attune_attention_args_init(void) {
    attune_attention_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}
#define attune_forward_args_init  attune_attention_args_init
#define attune_backward_args_init attune_attention_args_init

/* Computes o, and lse and probs if they are given.
 *
 * Shapes, ranges: attune_attention_args. D and Dv to 256; with Sq to 16 also D to 576 with Dv to 512.
 * Ownership: args and all tensors stay the caller's. The plan is cached in the device, and scratch memory is kept for
 * each stream and grows on need; attune_plan_create avoids both. Graphs that were captured from one stream share its
 * scratch memory, which they have until the device is closed: they must not run at once.
 * Visibility: in the order of the stream. Tensors must stay valid until the stream has got there; args may go at once.
 * Threads: any; calls on one stream take their order from the caller.
 * Errors: INVALID_ARGUMENT (a rule above, named with argument and value); UNSUPPORTED (no kernel row: one line each
 * with its reason); NOT_FOUND (args.kernel); OUT_OF_MEMORY (or scratch would have to grow while the stream is
 * captured); DEVICE_LOST; INTERNAL. Nothing is written on an error found before the launch. Source: arXiv 2307.08691,
 * algorithm 1. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_forward(attune_device *device, attune_stream *stream,
                                                          const attune_forward_args *args);

/* Computes those of dq, dk, dv, dbias and dsink that are given, from q, k, v, o, lse, dout and, if given, dlse.
 *
 * Z = keep / (1 - rate), or 1; P = exp(s - lse); "o" the element-wise product:
 *     dv = (P o Z)^T dout;  dP = Z o (dout v^T);  D_i = sum_d dout_id o_id;  dA = P o (dP - D_i + dlse_i)
 *     dbias = dA;  dS = dA o (1 - tanh^2(raw / softcap));  dq = scale dS k;  dk = scale dS^T q
 *     dsink[h] = sum_{b, i} exp(sink[h] - lse_i) (dlse_i - D_i)
 * dk and dv are summed over a group's query heads in f32. For e4m3 the gradients are with respect to the values
 * (stored * descale). Keys past seqused_k or under leftpad_k own no row of dk and dv: not written.
 *
 * Shapes, ranges: attune_attention_args; D and Dv to 256; block_table and probs are refused.
 * Ownership, visibility, threads, errors: as attune_forward.
 * Source: arXiv 2307.08691, algorithm 2. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_backward(attune_device *device, attune_stream *stream,
                                                           const attune_backward_args *args);

#define ATTUNE_MERGE_PARTS_MAX 128

/* States of the same rows over disjoint sets of keys. All o parts have one dtype, shape and strides, and so have all
 * lse parts. o and lse may be the first part itself (in place); any other overlap is refused. */
typedef struct attune_merge_args {
    size_t struct_size;
    int32_t parts;                 /* 1 to ATTUNE_MERGE_PARTS_MAX */
    const attune_tensor *part_o;   /* parts tensors (B, S, H, Dv), or (total, H, Dv); f32, f16 or bf16 */
    const attune_tensor *part_lse; /* parts tensors (B, H, S), or (H, total); f32, natural logarithm */
    attune_tensor o;               /* shaped as a part. f32, or a part's dtype, or f16 or bf16 where parts are f32 */
    attune_tensor lse;             /* shaped as a part's; f32. Optional */
    const char *kernel;            /* as in attune_attention_args */
} attune_merge_args;

static inline attune_merge_args attune_merge_args_init(void) {
    attune_merge_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}

/* Merges (o, lse) states: lse = log(sum_n exp(lse_n)), o = sum_n o_n exp(lse_n - lse), in index order whatever finished
 * first. An empty state (0, -inf) changes nothing, bit for bit; all empty gives (0, -inf). Exactly one part of a split
 * problem is given the sink.
 *
 * Ownership, visibility, threads, errors: as attune_forward.
 * Source: arXiv 2112.05682, section 3; Dao, Flash-Decoding (2023). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_merge(attune_device *device, attune_stream *stream,
                                                        const attune_merge_args *args);

ATTUNE_EXTERN_C_END

#endif
