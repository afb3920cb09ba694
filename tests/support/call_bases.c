/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/call_bases.h"

#include <stdlib.h>
#include <string.h>

const struct call_base call_bases[] = {
    {"forward", ATTUNE_OP_FORWARD,
     "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) lse=f32(2,6,5) bias=f32(6,5,7) mask=u8(2,1,1,7) "
     "alibi_slopes=f32(6) sink=f32(6) probs=f32(2,6,5,7)"},
    {"varlen", ATTUNE_OP_FORWARD,
     "q=f16(10,6,8) k=f16(14,3,8) v=f16(14,3,4) o=f16(10,6,4) lse=f32(6,10) cu_seqlens_q=i32(3) cu_seqlens_k=i32(3) "
     "max_seqlen_q=8 max_seqlen_k=9 bias=f32(8,9)"},
    {"paged", ATTUNE_OP_FORWARD,
     "q=f16(2,5,6,8) k=f16(9,16,3,8) v=f16(9,16,3,4) o=f16(2,5,6,4) block_table=i32(2,4) page_size=16 "
     "seqused_k=i32(2)"},
    {"e4m3", ATTUNE_OP_FORWARD,
     "q=e4m3(2,5,6,8) k=e4m3(2,300,3,8) v=e4m3(2,300,3,4) o=bf16(2,5,6,4) descale_q=f32(2,3,1) descale_k=f32(2,3,3) "
     "descale_v=f32(1)"},
    {"sparse", ATTUNE_OP_FORWARD,
     "q=f32(2,130,6,8) k=f32(2,100,3,8) v=f32(2,100,3,4) o=f32(2,130,6,4) block_row_ptr=i32(6,4) block_col_idx=i32(5) "
     "block_rows=64 block_keys=32"},
    {"dropout", ATTUNE_OP_FORWARD,
     "q=f32(2,5,6,8) k=f32(2,7,3,8) v=f32(2,7,3,4) o=f32(2,5,6,4) dropout_rate=0.5 dropout_seed_memory=u64(1) "
     "dropout_offset_memory=u32(1)"},
    {"backward", ATTUNE_OP_BACKWARD,
     "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) lse=f32(2,6,5) dout=f16(2,5,6,4) dlse=f32(2,6,5) "
     "dq=f16(2,5,6,8) dk=f32(2,7,3,8) dv=f16(2,7,3,4) bias=f32(6,5,7) dbias=f32(6,5,7) sink=f32(6) dsink=f32(6)"},
    {"append", ATTUNE_OP_APPEND,
     "k_cache=f16(2,32,3,8) v_cache=f16(2,32,3,4) k_new=f16(2,5,3,8) v_new=f16(2,5,3,4) seqused_k=i32(2) "
     "rotary_cos=f32(40,4) rotary_sin=f32(40,4) q=f16(2,6,9,8) q_out=f16(2,6,9,8)"},
    {"append paged", ATTUNE_OP_APPEND,
     "k_cache=e4m3(9,16,3,8) v_cache=e4m3(9,16,3,4) k_new=bf16(2,5,3,8) v_new=bf16(2,5,3,4) seqused_k=i32(2) "
     "block_table=i32(2,4) page_size=16 descale_k=f32(2,3) descale_v=f32(1)"},
    {"merge", ATTUNE_OP_MERGE, "parts=3 part_o=f32(2,5,6,4) part_lse=f32(2,6,5) o=f16(2,5,6,4) lse=f32(2,6,5)"},
    {"merge packed", ATTUNE_OP_MERGE, "parts=2 part_o=f16(10,6,4) part_lse=f32(6,10) o=f32(10,6,4)"},
    {"quantize", ATTUNE_OP_QUANTIZE, "x=f32(2,300,6,8) y=e4m3(2,300,6,8) descale=f32(2,3,3)"},
    {NULL, ATTUNE_OP_FORWARD, NULL},
};

const struct call_base *call_base_find(const char *name) {
    for (const struct call_base *base = call_bases; base->name != NULL; base++) {
        if (strcmp(base->name, name) == 0) {
            return base;
        }
    }
    abort();
}
