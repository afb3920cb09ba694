/*
 * Every rule for arguments, broken once: the status, and a sentence with the argument, its value and the rule.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include "attune/status.h"
#include "core/problem.h"
#include "tests/support/call_bases.h"
#include "tests/support/call_text.h"

/* A call that is right, and the change that breaks one rule. */
static const struct row {
    const char *base;
    const char *change;
    const char *names; /* parts that the sentence has */
    const char *rule;
} rows[] = {
    /* A tensor by itself. */
    {"forward", "q=none", "q is absent", "must be given for attune_forward"},
    {"forward", "k=none", "k is absent", "must be given"},
    {"forward", "v=none", "v is absent", "must be given"},
    {"forward", "o=none", "o is absent", "must be given"},
    {"forward", "q.dtype=0", "q.dtype = NONE", "an absent tensor must be 0 in all"},
    {"forward", "q.dtype=10", "q.dtype = 10", "one of attune_dtype"},
    {"forward", "o.dtype=-1", "o.dtype = -1", "one of attune_dtype"},
    {"forward", "q.memory=5", "q.memory = 5", "one of attune_memory"},
    {"forward", "q.memory=-1", "q.memory = -1", "one of attune_memory"},
    {"forward", "q.rank=0", "q.rank = 0", "1 to 4"},
    {"forward", "q.rank=5", "q.rank = 5", "1 to 4"},
    {"forward", "q.reserved0=7", "q.reserved0 = 7", "must be 0"},
    {"forward", "v.reserved[0]=9", "v.reserved[0] = 9", "must be 0"},
    {"forward", "v.reserved[1]=1", "v.reserved[1] = 1", "must be 0"},
    {"forward", "q.byte_offset=3", "q.byte_offset = 3", "a multiple of the element's 2 bytes"},
    {"forward", "sink.byte_offset=2", "sink.byte_offset = 2", "a multiple of the element's 4 bytes"},
    {"forward", "k.shape[1]=-7", "k.shape[1] = -7", "0 or more"},
    {"forward", "k.stride[2]=-1", "k.stride[2] = -1", "0 or more"},
    {"forward", "lse.shape[3]=1", "lse.shape[3] = 1 with a rank of 3", "must be 0, as it is not used"},
    {"forward", "lse.stride[3]=1", "lse.stride[3] = 1 with a rank of 3", "must be 0, as it is not used"},
    {"forward", "o.stride[2]=0", "o.stride[2] = 0 where shape[2] = 6", "must not be 0 in an output"},
    {"forward", "lse.stride[0]=0", "lse.stride[0] = 0 where shape[0] = 2", "must not be 0 in an output"},
    {"backward", "dk.stride[1]=0", "dk.stride[1] = 0", "must not be 0 in an output"},
    {"backward", "dbias.stride[0]=0", "dbias.stride[0] = 0", "must not be 0 in an output"},
    {"append", "k_cache.stride[0]=0", "k_cache.stride[0] = 0", "must not be 0 in an output"},
    {"quantize", "descale.stride[1]=0", "descale.stride[1] = 0", "must not be 0 in an output"},
    {"forward", "q.shape[0]=1000000000000 q.shape[1]=1000000000000", "q has shape (1000000000000, 1000000000000, 6, 8)",
     "at most 2^60 elements"},
    {"forward", "q=f16(0,1000000000000,1000000000000,8) q.stride[0]=0",
     "q has shape (0, 1000000000000, 1000000000000, 8)", "at most 2^60 elements"},
    {"forward", "k.stride[0]=4611686018427387904", "stride (4611686018427387904, 24, 8, 1)", "at most 2^60 bytes"},
    {"forward", "k.stride[1]=9223372036854775807", "k has shape (2, 7, 3, 8)", "at most 2^60 bytes"},
    {"forward", "v.byte_offset=1152921504606846976", "byte_offset 1152921504606846976", "at most 2^60 bytes"},
    {"forward", "v.byte_offset=18446744073709551614", "byte_offset 18446744073709551614", "at most 2^60 bytes"},

    /* Dtypes. */
    {"forward", "q=u8(2,5,6,8)", "q.dtype = u8", "must be f32, f16, bf16 or e4m3"},
    {"forward", "q=f64(2,5,6,8)", "q.dtype = f64", "must be f32, f16, bf16 or e4m3"},
    {"forward", "k=bf16(2,7,3,8)", "k.dtype = bf16", "where q is f16, must be f16"},
    {"forward", "v=f32(2,7,3,4)", "v.dtype = f32", "where q is f16, must be f16"},
    {"forward", "o=bf16(2,5,6,4)", "o.dtype = bf16", "where q is f16, must be f32, f16 or f64"},
    {"e4m3", "o=e4m3(2,5,6,4)", "o.dtype = e4m3", "where q is e4m3, must be f32, f16, bf16 or f64"},
    {"forward", "lse=f16(2,6,5)", "lse.dtype = f16", "must be f32 or f64"},
    {"forward", "probs=f16(2,6,5,7)", "probs.dtype = f16", "must be f32 or f64"},
    {"forward", "bias=bf16(6,5,7)", "bias.dtype = bf16", "must be f32 or f16"},
    {"e4m3", "bias=e4m3(5,300)", "bias.dtype = e4m3", "must be f32, f16 or bf16"},
    {"forward", "bias=f64(6,5,7)", "bias.dtype = f64", "must be f32 or f16"},
    {"forward", "mask=i32(2,1,1,7)", "mask.dtype = i32", "must be u8"},
    {"forward", "alibi_slopes=f16(6)", "alibi_slopes.dtype = f16", "must be f32"},
    {"forward", "sink=bf16(6)", "sink.dtype = bf16", "must be f32"},
    {"varlen", "cu_seqlens_q=u32(3)", "cu_seqlens_q.dtype = u32", "must be i32"},
    {"varlen", "cu_seqlens_k=u64(3)", "cu_seqlens_k.dtype = u64", "must be i32"},
    {"paged", "seqused_k=f32(2)", "seqused_k.dtype = f32", "must be i32"},
    {"paged", "seqused_q=u32(2)", "seqused_q.dtype = u32", "must be i32"},
    {"paged", "leftpad_k=u64(2)", "leftpad_k.dtype = u64", "must be i32"},
    {"paged", "block_table=u32(2,4)", "block_table.dtype = u32", "must be i32"},
    {"sparse", "block_row_ptr=u32(6,4)", "block_row_ptr.dtype = u32", "must be i32"},
    {"sparse", "block_col_idx=u64(5)", "block_col_idx.dtype = u64", "must be i32"},
    {"e4m3", "descale_k=f16(2,3,3)", "descale_k.dtype = f16", "must be f32"},
    {"dropout", "dropout_seed_memory=i32(1)", "dropout_seed_memory.dtype = i32", "must be u64"},
    {"dropout", "dropout_offset_memory=u64(1)", "dropout_offset_memory.dtype = u64", "must be u32"},
    {"forward", "descale_q=f32(1)", "descale_q is given and q.dtype = f16", "must be e4m3"},
    {"forward", "descale_v=f32(2,3)", "descale_v is given and q.dtype = f16", "must be e4m3"},
    {"backward", "o=f64(2,5,6,4)", "o.dtype = f64", "where q is f16, must be f32 or f16"},
    {"backward", "lse=f64(2,6,5)", "lse.dtype = f64", "must be f32"},
    {"backward", "dlse=f64(2,6,5)", "dlse.dtype = f64", "must be f32"},
    {"backward", "dout=bf16(2,5,6,4)", "dout.dtype = bf16", "must be f32 or f16"},
    {"backward", "dq=bf16(2,5,6,8)", "dq.dtype = bf16", "must be f32, f16 or f64"},
    {"backward", "dbias=bf16(6,5,7)", "dbias.dtype = bf16", "must be f32, f16 or f64"},
    {"backward", "dsink=f16(6)", "dsink.dtype = f16", "must be f32 or f64"},
    {"append", "k_cache=i32(2,32,3,8)", "k_cache.dtype = i32", "must be f32, f16, bf16 or e4m3"},
    {"append", "v_cache=bf16(2,32,3,4)", "v_cache.dtype = bf16", "where k_cache is f16, must be f16"},
    {"append", "k_new=f32(2,5,3,8) v_new=f32(2,5,3,4)", "k_new.dtype = f32", "where k_cache is f16, must be f16"},
    {"append", "v_new=f32(2,5,3,4)", "v_new.dtype = f32", "where k_new is f16, must be f16"},
    {"append paged", "k_new=u8(2,5,3,8)", "k_new.dtype = u8", "where k_cache is e4m3, must be f32, f16, bf16 or e4m3"},
    {"append", "q=u8(2,6,9,8)", "q.dtype = u8", "must be f32, f16, bf16 or e4m3"},
    {"append", "q_out=f32(2,6,9,8)", "q_out.dtype = f32", "where q is f16, must be f16"},
    {"append", "rotary_cos=f16(40,4)", "rotary_cos.dtype = f16", "must be f32"},
    {"append", "descale_k=f32(1)", "descale_k is given and k_cache.dtype = f16", "must be e4m3"},
    {"merge", "part_o=e4m3(2,5,6,4)", "part_o.dtype = e4m3", "must be f32, f16 or bf16"},
    {"merge", "part_lse=f64(2,6,5)", "part_lse.dtype = f64", "must be f32"},
    {"merge packed", "o=bf16(10,6,4)", "o.dtype = bf16", "where part_o is f16, must be f32, f16 or f64"},
    {"quantize", "x=e4m3(2,300,6,8)", "x.dtype = e4m3", "must be f32, f16 or bf16"},
    {"quantize", "y=u8(2,300,6,8)", "y.dtype = u8", "must be e4m3"},
    {"quantize", "descale=f16(2,3,3)", "descale.dtype = f16", "must be f32"},

    /* Ranks. */
    {"forward", "q=f16(10,6,8)", "q has rank 3, shape (10, 6, 8)", "must be (B, Sq, Hq, D)"},
    {"forward", "k=f16(14,3,8)", "k has rank 3", "must be (B, Sk, Hkv, D)"},
    {"forward", "lse=f32(2,6,5,1)", "lse has rank 4", "must be (B, Hq, Sq)"},
    {"forward", "alibi_slopes=f32(2,6,1)", "alibi_slopes has rank 3", "must be (Hq) or (B, Hq)"},
    {"forward", "sink=f32(2,6)", "sink has rank 2", "must be (Hq)"},
    {"forward", "probs=f32(6,5,7)", "probs has rank 3", "must be (B, Hq, Sq, Sk)"},
    {"varlen", "q=f16(2,5,6,8)", "q has rank 4", "must be (total_q, Hq, D)"},
    {"varlen", "k=f16(2,7,3,8)", "k has rank 4", "must be (total_k, Hkv, D)"},
    {"varlen", "lse=f32(2,6,5)", "lse has rank 3", "must be (Hq, total_q)"},
    {"varlen", "cu_seqlens_q=i32(3,1)", "cu_seqlens_q has rank 2", "must be (B + 1)"},
    {"paged", "k=f16(144,3,8)", "k has rank 3", "must be (pages, page_size, Hkv, D)"},
    {"paged", "block_table=i32(8)", "block_table has rank 1", "must be (B, columns)"},
    {"sparse", "block_row_ptr=i32(1,6,4)", "block_row_ptr has rank 3", "must be (nq + 1) or (Hq, nq + 1)"},
    {"e4m3", "descale_k=f32(2,3,3,1)", "descale_k has rank 4", "must be (1) or (B, Hkv) or (B, Hkv, ceil(Sk / 128))"},
    {"append", "rotary_sin=f32(160)", "rotary_sin has rank 1", "must be (positions, rotary_dim / 2)"},
    {"append", "k_new=f16(10,3,8)", "k_new has rank 3", "must be (B, Snew, Hkv, D)"},
    {"merge", "part_o=f32(12,2)", "part_o has rank 2", "must be (B, Sq, Hq, Dv)"},
    {"merge packed", "part_lse=f32(1,6,10)", "part_lse has rank 3", "must be (Hq, total_q)"},

    /* Shapes against each other. */
    {"forward", "k=f16(3,7,3,8)", "k has shape (3, 7, 3, 8), so that B = 3", "by q of shape (2, 5, 6, 8) must be 2"},
    {"forward", "k=f16(2,7,3,16)", "k has shape (2, 7, 3, 16), so that D = 16", "must be 8"},
    {"forward", "v=f16(2,8,3,4)", "v has shape (2, 8, 3, 4), so that Sk = 8", "by k of shape (2, 7, 3, 8)"},
    {"forward", "v=f16(2,7,6,4)", "v has shape (2, 7, 6, 4), so that Hkv = 6", "by k of shape (2, 7, 3, 8)"},
    {"forward", "o=f16(2,5,6,8)", "o has shape (2, 5, 6, 8), so that Dv = 8", "by v of shape (2, 7, 3, 4)"},
    {"forward", "o=f16(2,4,6,4)", "o has shape (2, 4, 6, 4), so that Sq = 4", "by q of shape (2, 5, 6, 8)"},
    {"forward", "lse=f32(2,5,6)", "lse has shape (2, 5, 6), so that Hq = 5", "must be 6"},
    {"forward", "bias=f32(3,5,7)", "bias has shape (3, 5, 7), so that Hq = 3", "must be 6"},
    {"forward", "bias=f32(6)", "bias has shape (6), so that Sk = 6", "must be 7"},
    {"forward", "mask=u8(3,1,1,7)", "mask has shape (3, 1, 1, 7), so that B = 3", "must be 2"},
    {"forward", "mask=u8(0,7)", "mask has shape (0, 7), so that Sq = 0", "must be 5"},
    {"forward", "alibi_slopes=f32(3)", "alibi_slopes has shape (3), so that Hq = 3", "must be 6"},
    {"forward", "alibi_slopes=f32(6,2)", "alibi_slopes has shape (6, 2), so that B = 6", "must be 2"},
    {"forward", "sink=f32(7)", "sink has shape (7), so that Hq = 7", "must be 6"},
    {"forward", "probs=f32(2,6,5,8)", "probs has shape (2, 6, 5, 8), so that Sk = 8", "must be 7"},
    {"forward", "seqused_k=i32(3)", "seqused_k has shape (3), so that B = 3", "must be 2"},
    {"forward", "leftpad_k=i32(1)", "leftpad_k has shape (1), so that B = 1", "must be 2"},
    {"forward", "seqused_q=i32(4)", "seqused_q has shape (4), so that B = 4", "must be 2"},
    {"forward", "k=f16(2,7,4,8) v=f16(2,7,4,4)", "q has 6 heads and k has 4", "Hq must be a multiple of Hkv"},
    {"forward", "k=f16(2,7,12,8) v=f16(2,7,12,4)", "q has 6 heads and k has 12", "Hq must be a multiple of Hkv"},
    {"forward", "k=f16(2,7,0,8) v=f16(2,7,0,4)", "so that Hkv = 0", "1 or more"},
    {"forward", "q=f16(2,5,0,8) o=f16(2,5,0,4)", "so that Hq = 0", "1 or more"},
    {"forward", "q=f16(2,5,6,0) k=f16(2,7,3,0)", "so that D = 0", "1 or more"},
    {"forward", "v=f16(2,7,3,0) o=f16(2,5,6,0)", "so that Dv = 0", "1 or more"},
    {"forward", "q=f16(0,5,6,8)", "k has shape (2, 7, 3, 8), so that B = 2", "by q of shape (0, 5, 6, 8) must be 0"},
    {"forward", "q.stride[3]=2", "q.stride[3] = 2", "must be 1, as the last axis is contiguous"},
    {"forward", "q=f16(2,5,6,2) q.stride[3]=3 k=f16(2,7,3,2)", "q.stride[3] = 3",
     "must be 1, as the last axis is contiguous"},
    {"forward", "k.stride[3]=0", "k.stride[3] = 0", "must be 1, as the last axis is contiguous"},
    {"forward", "o.stride[3]=3", "o.stride[3] = 3", "must be 1, as the last axis is contiguous"},
    {"varlen", "v.stride[2]=2", "v.stride[2] = 2", "must be 1, as the last axis is contiguous"},
    {"backward", "dv.stride[3]=2", "dv.stride[3] = 2", "must be 1, as the last axis is contiguous"},
    {"varlen", "cu_seqlens_k=i32(4)", "cu_seqlens_k has shape (4), so that B = 3",
     "by cu_seqlens_q of shape (3) must be 2"},
    {"varlen", "cu_seqlens_q=i32(0)", "cu_seqlens_q has shape (0), so that B = -1", "0 or more"},
    {"varlen", "cu_seqlens_k=none k=f16(3,9,3,8) v=f16(3,9,3,4)", "k has shape (3, 9, 3, 8), so that B = 3",
     "by cu_seqlens_q of shape (3) must be 2"},
    {"varlen", "v=f16(13,3,4)", "v has shape (13, 3, 4), so that total_k = 13", "must be 14"},
    {"varlen", "o=f16(9,6,4)", "o has shape (9, 6, 4), so that total_q = 9", "must be 10"},
    {"varlen", "lse=f32(6,8)", "lse has shape (6, 8), so that total_q = 8", "must be 10"},
    {"varlen", "bias=f32(10,9)", "bias has shape (10, 9), so that Sq = 10", "by max_seqlen_q must be 8"},
    {"varlen", "bias=f32(8,14)", "bias has shape (8, 14), so that Sk = 14", "by max_seqlen_k must be 9"},
    {"paged", "k=f16(9,32,3,8)", "k has shape (9, 32, 3, 8), so that page_size = 32", "by page_size must be 16"},
    {"paged", "v=f16(8,16,3,4)", "v has shape (8, 16, 3, 4), so that pages = 8", "must be 9"},
    {"paged", "block_table=i32(3,4)", "block_table has shape (3, 4), so that B = 3", "must be 2"},
    {"paged", "bias=f32(5,63)", "bias has shape (5, 63), so that Sk = 63", "by block_table and page_size must be 64"},
    {"paged", "page_size=1152921504606846976", "page_size = 1152921504606846976, and block_table has 4 columns",
     "at most 2^60"},
    {"sparse", "block_row_ptr=i32(6,3)", "block_row_ptr has shape (6, 3), so that nq = 2",
     "by ceil(Sq / block_rows) must be 3"},
    {"sparse", "block_row_ptr=i32(3,4)", "block_row_ptr has shape (3, 4), so that Hq = 3", "must be 6"},
    {"sparse", "block_row_ptr=i32(0)", "block_row_ptr has shape (0), so that nq = -1", "0 or more"},
    {"e4m3", "descale_v=f32(2)", "descale_v has rank 1, shape (2)", "must be (1) or (B, Hkv)"},
    {"e4m3", "descale_q=f32(2,6)", "descale_q has shape (2, 6), so that Hkv = 6", "must be 3"},
    {"e4m3", "descale_k=f32(2,3,2)", "descale_k has shape (2, 3, 2), so that ceil(Sk / 128) = 2", "by Sk must be 3"},
    {"e4m3", "descale_q=f32(2,3,3)", "descale_q has shape (2, 3, 3), so that ceil(Sq / 128) = 3", "by Sq must be 1"},
    {"dropout", "dropout_seed_memory=u64(2)", "dropout_seed_memory has rank 1, shape (2)", "must be (1)"},
    {"dropout", "dropout_offset_memory=u32(0)", "dropout_offset_memory has rank 1, shape (0)", "must be (1)"},
    {"backward", "dout=f16(2,5,6,8)", "dout has shape (2, 5, 6, 8), so that Dv = 8", "must be 4"},
    {"backward", "dlse=f32(2,6,4)", "dlse has shape (2, 6, 4), so that Sq = 4", "must be 5"},
    {"backward", "dq=f16(2,5,3,8)", "dq has shape (2, 5, 3, 8), so that Hq = 3", "must be 6"},
    {"backward", "dk=f32(2,7,6,8)", "dk has shape (2, 7, 6, 8), so that Hkv = 6", "must be 3"},
    {"backward", "dv=f16(2,7,3,8)", "dv has shape (2, 7, 3, 8), so that Dv = 8", "must be 4"},
    {"backward", "dsink=f32(3)", "dsink has shape (3), so that Hq = 3", "must be 6"},
    {"backward", "dbias=f32(1,5,7)", "dbias has shape (1, 5, 7)", "must be that of bias, (6, 5, 7)"},
    {"backward", "dbias=f32(1,6,5,7)", "dbias has shape (1, 6, 5, 7)", "must be that of bias, (6, 5, 7)"},
    {"append", "v_cache=f16(2,31,3,4)", "v_cache has shape (2, 31, 3, 4), so that Sk = 31", "must be 32"},
    {"append", "k_new=f16(2,5,4,8)", "k_new has shape (2, 5, 4, 8), so that Hkv = 4", "must be 3"},
    {"append", "v_new=f16(2,6,3,4)", "v_new has shape (2, 6, 3, 4), so that Snew = 6", "must be 5"},
    {"append", "v_new=f16(2,5,3,8)", "v_new has shape (2, 5, 3, 8), so that Dv = 8", "must be 4"},
    {"append", "seqused_k=i32(1)", "seqused_k has shape (1), so that B = 1", "must be 2"},
    {"append", "k_new=f16(2,33,3,8) v_new=f16(2,33,3,4)", "k_new has 33 rows", "at most the 32 positions"},
    {"append", "rotary_sin=f32(39,4)", "rotary_sin has shape (39, 4), so that positions = 39", "must be 40"},
    {"append", "rotary_cos=f32(40,5) rotary_sin=f32(40,5)", "so that rotary_dim = 10", "at most D, which is 8"},
    {"append", "rotary_cos=f32(40,0) rotary_sin=f32(40,0)", "so that rotary_dim / 2 = 0", "1 or more"},
    {"append", "rotary_cos=f32(5,4) rotary_sin=f32(5,4)", "rotary_cos has 5 positions", "by q must be 6 or more"},
    {"append", "rotary_cos=f32(4,4) rotary_sin=f32(4,4) q=none q_out=none", "rotary_cos has 4 positions",
     "by k_new must be 5 or more"},
    {"append", "q=f16(2,6,9,4) q_out=f16(2,6,9,4)", "q has shape (2, 6, 9, 4), so that D = 4", "must be 8"},
    {"append", "q_out=f16(2,6,8,8)", "q_out has shape (2, 6, 8, 8), so that Hq = 8", "must be 9"},
    {"append paged", "page_size=8", "k_cache has shape (9, 16, 3, 8), so that page_size = 16",
     "by page_size must be 8"},
    {"append paged", "descale_k=f32(2,3,2)", "so that ceil(Sk / 128) = 2", "by the capacity must be 1"},
    {"merge", "o=f16(2,5,6,8)", "o has shape (2, 5, 6, 8), so that Dv = 8", "by part_o of shape (2, 5, 6, 4)"},
    {"merge", "part_lse=f32(2,5,6)", "part_lse has shape (2, 5, 6), so that Hq = 5", "must be 6"},
    {"merge", "lse=f32(2,6,4)", "lse has shape (2, 6, 4), so that Sq = 4", "must be 5"},
    {"merge", "part_o[2]=f32(2,4,6,4)", "part_o[2] is f32 of shape (2, 4, 6, 4)", "parts must be alike"},
    {"merge", "part_o[1]=f32(1,5,6,4)", "part_o[1] is f32 of shape (1, 5, 6, 4)",
     "part_o[0] is f32 of (2, 5, 6, 4) and (120, 24, 4, 1)"},
    {"merge", "part_o[1].stride[0]=1000", "stride (1000, 24, 4, 1)", "parts must be alike"},
    {"merge", "part_o[1]=f16(2,5,6,4)", "part_o[1] is f16", "part_o[0] is f32"},
    {"merge", "part_o[2].stride[1]=48", "part_o[2] is f32 of shape (2, 5, 6, 4) and stride (120, 48, 4, 1)", "alike"},
    {"merge", "part_lse[1].memory=1", "part_lse[1]", "parts must be alike"},
    {"merge", "part_lse[2]=none", "part_lse[2].dtype = NONE", "an absent tensor"},
    {"merge", "part_o[1].byte_offset=2", "part_o[1].byte_offset = 2", "a multiple of the element's 4 bytes"},
    {"quantize", "y=e4m3(2,300,6,16)", "y has shape (2, 300, 6, 16), so that D = 16", "must be 8"},
    {"quantize", "descale=f32(2,4)", "descale has 4 groups and x has 6 heads", "a multiple of the groups"},
    {"quantize", "descale=f32(2,12)", "descale has 12 groups and x has 6 heads", "a multiple of the groups"},
    {"quantize", "descale=f32(2,3,2)", "so that ceil(Sq / 128) = 2", "by x must be 3"},
    {"quantize", "descale=f32(2,0)", "descale has shape (2, 0), so that Hkv = 0", "1 or more"},
    {"varlen",
     "q.shape[0]=288230376151711744 q.stride[0]=0 max_seqlen_q=288230376151711744 o=f16(288230376151711744,1,1)"
     " o.stride[0]=1 lse=none bias=none q.shape[1]=1 q.shape[2]=1 k=f16(14,1,1) v=f16(14,1,1)"
     " cu_seqlens_q=i32(1000001) cu_seqlens_k=i32(1000001)",
     "B = 1000000, Sq = 288230376151711744", "at most 2^60"},

    /* What goes together. */
    {"forward", "dout=f16(2,5,6,4)", "dout is given", "must be absent for attune_forward"},
    {"forward", "dlse=f32(2,6,5)", "dlse is given", "must be absent"},
    {"forward", "dq=f16(2,5,6,8)", "dq is given", "must be absent"},
    {"forward", "dk=f16(2,7,3,8)", "dk is given", "must be absent"},
    {"forward", "dv=f16(2,7,3,4)", "dv is given", "must be absent"},
    {"forward", "dbias=f32(6,5,7)", "dbias is given", "must be absent"},
    {"forward", "dsink=f32(6)", "dsink is given", "must be absent"},
    {"backward", "probs=f32(2,6,5,7)", "probs is given", "must be absent for attune_backward"},
    {"backward", "block_table=i32(2,4)", "block_table is given", "must be absent for attune_backward"},
    {"backward", "o=none", "o is absent", "must be given for attune_backward"},
    {"backward", "lse=none", "lse is absent", "must be given for attune_backward"},
    {"backward", "dout=none", "dout is absent", "must be given for attune_backward"},
    {"backward", "dq=none dk=none dv=none dbias=none dsink=none", "dq, dk, dv, dbias and dsink are absent",
     "one must be given"},
    {"backward", "bias=none", "dbias is given without bias", "must be given with it"},
    {"backward", "sink=none", "dsink is given without sink", "must be given with it"},
    {"paged", "seqused_k=none", "block_table is given without seqused_k", "must be given with it"},
    {"paged", "cu_seqlens_k=i32(3)", "block_table is given with cu_seqlens_k", "must be given without it"},
    {"paged", "page_size=0", "page_size = 0", "with block_table must be 1 or more"},
    {"paged", "page_size=-16", "page_size = -16", "with block_table must be 1 or more"},
    {"forward", "page_size=16", "page_size = 16", "without block_table must be 0"},
    {"backward", "page_size=16", "page_size = 16", "without block_table must be 0"},
    {"sparse", "block_col_idx=none", "block_row_ptr is given without block_col_idx", "must be given with it"},
    {"sparse", "block_row_ptr=none", "block_col_idx is given without block_row_ptr", "must be given with it"},
    {"sparse", "block_rows=0", "block_rows = 0", "with block_row_ptr must be 1 or more"},
    {"sparse", "block_keys=-1", "block_keys = -1", "with block_row_ptr must be 1 or more"},
    {"forward", "block_rows=64", "block_rows = 64", "without block_row_ptr must be 0"},
    {"forward", "block_keys=64", "block_keys = 64", "without block_row_ptr must be 0"},
    {"append", "k_new=none", "k_new is absent", "must be given for attune_kvcache_append"},
    {"append", "v_cache=none", "v_cache is absent", "must be given"},
    {"append", "q_out=none", "q is given without q_out", "must be given with it"},
    {"append", "q=none", "q_out is given without q", "must be given with it"},
    {"append", "rotary_sin=none", "rotary_cos is given without rotary_sin", "must be given with it"},
    {"append", "rotary_cos=none", "rotary_sin is given without rotary_cos", "must be given with it"},
    {"append paged", "seqused_k=none", "block_table is given without seqused_k", "must be given with it"},
    {"append paged", "page_size=0", "page_size = 0", "with block_table must be 1 or more"},
    {"append", "page_size=16", "page_size = 16", "without block_table must be 0"},
    {"merge", "parts=0", "parts = 0", "1 to 128"},
    {"merge", "parts=129", "parts = 129", "1 to 128"},
    {"merge", "part_o=0", "part_o = NULL", "must point to 3 tensors"},
    {"merge", "part_lse=0", "part_lse = NULL", "must point to 3 tensors"},
    {"merge", "o=none", "o is absent", "must be given for attune_merge"},
    {"merge", "part_o[0]=none", "part_o is absent", "must be given for attune_merge"},
    {"quantize", "y=none", "y is absent", "must be given for attune_quantize"},
    {"quantize", "descale=none", "descale is absent", "must be given for attune_quantize"},
    {"quantize", "descale=none descale_given=1", "descale is absent", "must be given for attune_quantize"},

    /* Options. */
    {"forward", "scale=nan", "scale = nan", "finite"},
    {"forward", "scale=-inf has_scale=1", "scale = -inf", "finite"},
    {"forward", "softcap=-1", "softcap = -1", "0 (off) or more"},
    {"forward", "softcap=inf", "softcap = inf", "finite"},
    {"forward", "softcap=nan", "softcap = nan", "finite"},
    {"forward", "dropout_rate=1", "dropout_rate = 1", "[0, 1)"},
    {"forward", "dropout_rate=-0.25", "dropout_rate = -0.25", "[0, 1)"},
    {"forward", "dropout_rate=nan", "dropout_rate = nan", "[0, 1)"},
    {"forward", "align=3", "align = 3", "one of attune_align"},
    {"forward", "diagonal=4", "diagonal = 4", "must be 0 without ATTUNE_ALIGN_DIAGONAL"},
    {"forward", "align=1 diagonal=-1", "diagonal = -1", "must be 0 without ATTUNE_ALIGN_DIAGONAL"},
    {"forward", "align=2 diagonal=2305843009213693953", "diagonal = 2305843009213693953", "within +-2^61"},
    {"forward", "align=2 diagonal=-2305843009213693953", "diagonal = -2305843009213693953", "within +-2^61"},
    {"forward", "window.set=1 window.left=-2", "window.left = -2", "-1 (open) or more"},
    {"forward", "window.set=1 window.right=-9", "window.right = -9", "-1 (open) or more"},
    {"forward", "window.left=128 window.right=-1", "window = (128, -1) and not set", "ATTUNE_WINDOW"},
    {"forward", "window.left=128", "window = (128, 0) and not set", "ATTUNE_WINDOW"},
    {"forward", "max_seqlen_q=4", "max_seqlen_q = 4", "without cu_seqlens_q must be 0 or Sq, which is 5"},
    {"forward", "max_seqlen_k=8", "max_seqlen_k = 8", "without cu_seqlens_k must be 0 or Sk, which is 7"},
    {"paged", "max_seqlen_k=60", "max_seqlen_k = 60", "must be 0 or Sk, which is 64"},
    {"varlen", "max_seqlen_q=-1", "max_seqlen_q = -1", "0 or more"},
    {"varlen", "max_seqlen_k=-3", "max_seqlen_k = -3", "0 or more"},
    {"varlen", "max_seqlen_q=11", "max_seqlen_q = 11", "at most the total that cu_seqlens_q divides, 10"},
    {"varlen", "max_seqlen_k=15", "max_seqlen_k = 15", "at most the total that cu_seqlens_k divides, 14"},
    {"dropout", "batch_origin=-1", "batch_origin = -1", "0 or more"},
    {"dropout", "head_origin=-1", "head_origin = -1", "0 or more"},
    {"dropout", "row_origin=-5", "row_origin = -5", "0 or more"},
    {"dropout", "key_origin=-5", "key_origin = -5", "0 or more"},
    {"dropout", "heads_total=-6", "heads_total = -6", "0 (Hq) or more"},
    {"dropout", "heads_total=5", "head_origin = 0, heads_total = 5", "the 6 heads of q must lie within heads_total"},
    {"dropout", "heads_total=12 head_origin=7", "head_origin = 7, heads_total = 12",
     "the 6 heads of q must lie within"},
    {"dropout", "head_origin=1", "head_origin = 1, heads_total = 0 (0: Hq)", "the 6 heads of q must lie within"},
    {"forward", "splits=-1", "splits = -1", "0 (automatic) or more"},
    {"forward", "tile_rows=8", "tile_rows = 8", "0 (automatic) or 16 to 128"},
    {"forward", "tile_rows=15", "tile_rows = 15", "0 (automatic) or 16 to 128"},
    {"forward", "tile_rows=-16", "tile_rows = -16", "0 (automatic) or 16 to 128"},
    {"forward", "tile_keys=129", "tile_keys = 129", "0 (automatic) or 16 to 128"},
};

static attune_status make(const struct call_base *base, const char *change, struct attune_call *out_call) {
    static struct call_text text;
    call_text_init(base->op, &text);
    call_text_apply(&text, base->text);
    call_text_apply(&text, change);
    return attune_call_make(base->op, &text.args, out_call);
}

static void bases_are_right(void **state) {
    (void)state;
    static struct attune_call call;
    for (const struct call_base *base = call_bases; base->name != NULL; base++) {
        if (make(base, "", &call) != ATTUNE_OK) {
            fail_msg("%s: %s", base->name, attune_last_error());
        }
    }
}

static void each_broken_rule_is_named(void **state) {
    (void)state;
    static struct attune_call call;
    int wrong = 0;
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        attune_status status = make(call_base_find(rows[n].base), rows[n].change, &call);
        const char *sentence = status == ATTUNE_OK ? "" : attune_last_error();
        if (status != ATTUNE_INVALID_ARGUMENT || strstr(sentence, rows[n].names) == NULL ||
            strstr(sentence, rows[n].rule) == NULL) {
            print_error("%s %s: %s: \"%s\" lacks \"%s\" or \"%s\"\n", rows[n].base, rows[n].change,
                        attune_status_name(status), sentence, rows[n].names, rows[n].rule);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

static void structs_and_operations_are_checked(void **state) {
    (void)state;
    static struct attune_call call;
    static struct call_text text;
    call_text_init(ATTUNE_OP_FORWARD, &text);
    assert_int_equal(attune_call_make(ATTUNE_OP_FORWARD, NULL, &call), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "NULL");
    text.args.attention.struct_size = 3;
    assert_int_equal(attune_call_make(ATTUNE_OP_FORWARD, &text.args, &call), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "struct_size");
    assert_int_equal(attune_call_make((attune_op)9, &text.args, &call), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "op = 9");
    assert_int_equal(attune_call_make((attune_op)0, &text.args, &call), ATTUNE_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bases_are_right),
        cmocka_unit_test(each_broken_rule_is_named),
        cmocka_unit_test(structs_and_operations_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
