/*
 * The cache of keys and values: appending to it, and storing it as e4m3.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_KVCACHE_H
#define ATTUNE_KVCACHE_H

#include <string.h>

#include "attune/device.h"
#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

/* Row i of sequence b's new keys and values goes to position seqused_k[b] + i. */
typedef struct attune_kvcache_append_args {
    size_t struct_size;
    attune_tensor k_cache; /* (B, capacity, Hkv, D), or with block_table (pages, page_size, Hkv, D). Written */
    attune_tensor v_cache; /* (B, capacity, Hkv, Dv), or (pages, page_size, Hkv, Dv). Written; k_cache's dtype */
    attune_tensor k_new;   /* (B, Snew, Hkv, D), Snew at most the capacity; the cache's dtype, or f32, f16 or bf16 where
                              the cache is e4m3 */
    attune_tensor v_new;   /* (B, Snew, Hkv, Dv); k_new's dtype */
    attune_tensor seqused_k;   /* (B) i32: positions used so far. Absent: 0. Not changed: the caller advances it */
    attune_tensor block_table; /* (B, n) i32; needs page_size and seqused_k */
    int64_t page_size;         /* with block_table: k_cache's second extent. Otherwise 0 */

    attune_tensor descale_k; /* e4m3 caches: stored = saturate(value / descale); shapes as in attention.h, S being
                                the capacity. Absent: 1 */
    attune_tensor descale_v; /* likewise */

    attune_tensor rotary_cos; /* (positions, rotary_dim / 2) f32; absent: no rotation. rotary_dim to D, even */
    attune_tensor rotary_sin; /* as rotary_cos */
    bool rotary_interleaved;  /* pairs (2 t, 2 t + 1); otherwise (t, t + rotary_dim / 2) */
    attune_tensor q;          /* (B, Sq, Hq, D): rotated too, row i at position seqused_k[b] + i; copied if there is no
                                 rotation. f32, f16, bf16 or e4m3. Optional; needs q_out */
    attune_tensor q_out;      /* shaped and typed as q; may be q */

    const char *kernel; /* as in attune_attention_args */
    bool check;         /* as in attune_attention_args */
} attune_kvcache_append_args;

static inline attune_kvcache_append_args attune_kvcache_append_args_init(void) {
    attune_kvcache_append_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}

/* Writes new keys (rotated if asked) and values into the cache, and rotates q.
 *
 * Shapes, ranges: attune_kvcache_append_args; D to 576, Dv to 512. A position past the capacity, the columns of the
 * block table or the rows of rotary_cos is the caller's fault; ATTUNE_CHECK=1 finds it. Ownership: all tensors stay the
 * caller's; only the positions named are written. Visibility, threads: as attune_forward. Errors: INVALID_ARGUMENT,
 * UNSUPPORTED, NOT_FOUND, OUT_OF_MEMORY, DEVICE_LOST, INTERNAL, as attune_forward. Nothing is written on an error found
 * before the launch. Source: Su et al., RoFormer (arXiv 2104.09864), section 3.4. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_kvcache_append(attune_device *device, attune_stream *stream,
                                                                 const attune_kvcache_append_args *args);

typedef struct attune_quantize_args {
    size_t struct_size;
    attune_tensor x;       /* (B, S, H, D); f32, f16 or bf16 */
    attune_tensor y;       /* (B, S, H, D); e4m3. Written */
    attune_tensor descale; /* (1), (B, G) or (B, G, ceil(S / 128)) f32; G divides H: head h is in group h / (H / G) */
    bool descale_given;    /* true: descale is read. false: it is written, the largest finite |x| of the group / 448 */
    const char *kernel;    /* as in attune_attention_args */
} attune_quantize_args;

static inline attune_quantize_args attune_quantize_args_init(void) {
    attune_quantize_args args;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    return args;
}

/* Stores x as e4m3: y = saturate(x / descale), rounded to nearest even. NaN stays NaN, infinity saturates. A group that
 * holds no finite value but 0 gets descale 1; with a given descale of 0, y is 0.
 *
 * Ownership, visibility, threads, errors: as attune_forward.
 * Source: Micikevicius et al., FP8 Formats for Deep Learning (arXiv 2209.05433). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_quantize(attune_device *device, attune_stream *stream,
                                                           const attune_quantize_args *args);

ATTUNE_EXTERN_C_END

#endif
