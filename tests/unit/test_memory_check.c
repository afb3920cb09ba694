/*
 * Pointers of a call: alignment, bounds, aliases and overlaps.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include <stdio.h>

#include "attune/status.h"
#include "core/memory_check.h"
#include "core/operand.h"
#include "core/problem.h"
#include "core/status_internal.h"
#include "tests/support/call_text.h"

/* ---- Memory that is only numbers: allocations of 1 MiB, each a space; below the first of them nobody knows ends ----
 */

#define ALLOCATION_BYTES      1048576u
#define UNKNOWN_TO_THE_DRIVER 0xdead00000u
#define AT_THE_TOP            0xfeed00000u /* 8 bytes before the end of all addresses */

static int range_calls;

static attune_status find_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)device, (void)kind;
    range_calls++;
    uint64_t address = (uint64_t)(uintptr_t)data;
    if (address == AT_THE_TOP) {
        out_range->offset = UINT64_MAX - 7;
        out_range->size_bytes = UINT64_MAX;
        return ATTUNE_OK;
    }
    if (address >= UNKNOWN_TO_THE_DRIVER) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "the driver does not know the pointer");
    }
    out_range->space = address / ALLOCATION_BYTES;
    out_range->offset = address % ALLOCATION_BYTES;
    out_range->size_bytes = out_range->space == 0 ? UINT64_MAX : ALLOCATION_BYTES - out_range->offset;
    return ATTUNE_OK;
}

static const attune_backend backend = {.memory_range = find_range};
static attune_device device = {.backend = &backend};

/* Gives every tensor of the call an allocation of its own. */
static void place_apart(struct call_text *text) {
    uintptr_t next = ALLOCATION_BYTES;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const char *name = attune_operand_name(text->op, (attune_operand)operand);
        attune_tensor *tensor = call_text_tensor(text, name);
        bool is_part = operand == ATTUNE_OPERAND_PART_O || operand == ATTUNE_OPERAND_PART_LSE;
        for (int32_t n = 0; tensor != NULL && n < (is_part ? text->args.merge.parts : 1); n++) {
            if (tensor[n].dtype != ATTUNE_DTYPE_NONE) {
                tensor[n].data = (void *)next;
                next += ALLOCATION_BYTES;
            }
        }
    }
}

static attune_status check(attune_op op, const char *base, const char *change, bool allow_null,
                           struct attune_call *out_call) {
    static struct call_text text;
    call_text_init(op, &text);
    call_text_apply(&text, base);
    place_apart(&text);
    call_text_apply(&text, change);
    attune_status status = attune_call_make(op, &text.args, out_call);
    if (status != ATTUNE_OK) {
        fail_msg("%s %s: %s", base, change, attune_last_error());
    }
    range_calls = 0;
    return attune_call_check_memory(&device, out_call, allow_null);
}

#define FORWARD  "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,8) o=f16(2,5,6,8) "
#define BACKWARD FORWARD "lse=f32(2,6,5) dout=f16(2,5,6,8) dq=f16(2,5,6,8) dk=f16(2,7,3,8) dv=f16(2,7,3,8) "
#define APPEND   "k_cache=f16(2,32,3,8) v_cache=f16(2,32,3,8) k_new=f16(2,5,3,8) v_new=f16(2,5,3,8) "
#define MERGE    "parts=3 part_o=f32(2,5,6,4) part_lse=f32(2,6,5) o=f32(2,5,6,4) lse=f32(2,6,5) "
#define QUANTIZE "x=f32(2,5,6,8) y=e4m3(2,5,6,8) descale=f32(2,3) "

/* ---- Refused ---- */

static const struct refused_row {
    attune_op op;
    const char *base;
    const char *change;
    const char *names;
    const char *rule;
} refused_rows[] = {
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0", "q.data = NULL", "where there are elements"},
    {ATTUNE_OP_FORWARD, FORWARD "seqused_k=i32(2)", "seqused_k.data=0", "seqused_k.data = NULL", "elements"},
    {ATTUNE_OP_FORWARD, FORWARD, "k.data=0xdead00000", "k.data: the driver does not know", "the pointer"},
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0x500001", "q.data is at offset 1", "aligned to its element's 2 bytes"},
    {ATTUNE_OP_FORWARD, FORWARD "sink=f32(6)", "sink.data=0x700002", "sink.data is at offset 2", "4 bytes"},
    {ATTUNE_OP_FORWARD, FORWARD, "q.byte_offset=1047618", "q ends 1048578 bytes after its data",
     "which ends after 1048576"},
    {ATTUNE_OP_FORWARD, FORWARD, "q.stride[0]=524241", "q ends 1048962 bytes", "ends after 1048576"},
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0xfeed00000", "q ends 960 bytes after its data", "none is there"},
    {ATTUNE_OP_MERGE, MERGE, "part_o[1].byte_offset=1048572", "part_o[1] ends", "ends after 1048576"},
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x200000", "o at bytes 0 to 959 and k at 0 to 671",
     "an output must share none"},
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x200000 o.byte_offset=670", "o at bytes 670 to 1629", "k at 0 to 671"},
    {ATTUNE_OP_FORWARD, FORWARD, "k.data=0x400000 k.byte_offset=958", "k at 958 to 1629", "an output must share none"},
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x100000 o.byte_offset=16", "o at bytes 16 to 975 and q at 0 to 959", "none"},
    {ATTUNE_OP_FORWARD, FORWARD "lse=f32(2,6,5)", "lse.data=0x400000", "lse", "share an element"},
    {ATTUNE_OP_FORWARD, FORWARD "mask=u8(7)", "mask.data=0x400000 mask.byte_offset=3", "mask at 3 to 9", "share"},
    /* o is q, but not in shape, stride or dtype */
    {ATTUNE_OP_FORWARD, "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4)", "o.data=0x100000", "o at",
     "q at"},
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x100000 o.stride[1]=8 o.stride[2]=40", "o at", "q at"},
    {ATTUNE_OP_FORWARD, FORWARD, "o=f32(2,5,6,8) o.data=0x100000", "o at", "q at"},
    {ATTUNE_OP_BACKWARD, BACKWARD, "dq.data=0x100000", "dq at", "q at"},
    {ATTUNE_OP_BACKWARD, BACKWARD, "dq.data=0x400000", "dq at", "o at"},
    {ATTUNE_OP_BACKWARD, BACKWARD, "dv.data=0x800000", "dk at", "dv at"},
    {ATTUNE_OP_BACKWARD, BACKWARD, "dk.data=0x600000 dk.byte_offset=320", "dk at", "dout at"},
    {ATTUNE_OP_APPEND, APPEND, "v_cache.data=0x100000", "k_cache at", "v_cache at"},
    {ATTUNE_OP_APPEND, APPEND, "k_new.data=0x100000", "k_cache at", "k_new at"},
    {ATTUNE_OP_APPEND, APPEND "q=f16(2,5,6,8) q_out=f16(2,5,6,8)", "q_out.data=0x100000 q_out.byte_offset=16",
     "q_out at", "q at"},
    {ATTUNE_OP_MERGE, MERGE, "part_o[1].data=0x100000", "o at", "part_o[1] at"},
    {ATTUNE_OP_MERGE, MERGE, "part_lse[2].data=0x200000", "lse at", "part_lse[2] at"},
    {ATTUNE_OP_MERGE, MERGE, "part_o[0].data=0x100000 part_o[0].byte_offset=16", "o at", "part_o[0] at"},
    {ATTUNE_OP_MERGE, MERGE, "part_lse[0].data=0x100000", "o at", "part_lse[0] at"},
    {ATTUNE_OP_QUANTIZE, QUANTIZE, "y.data=0x100000", "y at", "x at"},
    {ATTUNE_OP_QUANTIZE, QUANTIZE, "descale.data=0x100000", "descale at", "x at"},
    /* an output over itself */
    {ATTUNE_OP_FORWARD, FORWARD, "o.stride[2]=7", "o of shape (2, 5, 6, 8)", "has an element twice"},
    {ATTUNE_OP_FORWARD, FORWARD, "o.stride[0]=8", "o of shape (2, 5, 6, 8) and stride (8, 48, 8, 1)", "twice"},
    {ATTUNE_OP_BACKWARD, BACKWARD "bias=f32(5,7) dbias=f32(5,7)", "dbias.stride[0]=1", "dbias of shape (1, 1, 5, 7)",
     "twice"},
    {ATTUNE_OP_APPEND, APPEND, "k_cache.stride[0]=24", "k_cache of shape (2, 32, 3, 8)", "twice"},
};

static void bad_pointers_are_named(void **state) {
    (void)state;
    static struct attune_call call;
    int wrong = 0;
    for (size_t n = 0; n < sizeof refused_rows / sizeof refused_rows[0]; n++) {
        const struct refused_row *row = &refused_rows[n];
        attune_status status = check(row->op, row->base, row->change, false, &call);
        const char *sentence = status == ATTUNE_OK ? "" : attune_last_error();
        if (status != ATTUNE_INVALID_ARGUMENT || strstr(sentence, row->names) == NULL ||
            strstr(sentence, row->rule) == NULL) {
            print_error("%s: %s: \"%s\" lacks \"%s\" or \"%s\"\n", row->change, attune_status_name(status), sentence,
                        row->names, row->rule);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* ---- Accepted ---- */

static const struct accepted_row {
    attune_op op;
    const char *base;
    const char *change;
    int32_t alignment_bytes;
    bool o_is_q;
} accepted_rows[] = {
    {ATTUNE_OP_FORWARD, FORWARD, "", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD, "q.byte_offset=1047616", 16, false}, /* to the last byte */
    {ATTUNE_OP_FORWARD, FORWARD, "k.stride[0]=0 v.stride[1]=0", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0x100008", 8, false},
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0x100008 k.byte_offset=2", 2, false},
    {ATTUNE_OP_FORWARD, FORWARD, "q.data=0x100008 q.byte_offset=8", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD "lse=f32(2,6,5)", "lse.byte_offset=4", 4, false},
    {ATTUNE_OP_FORWARD, FORWARD "mask=u8(5,7)", "mask.byte_offset=5", 1, false},
    /* small tables are held to their size: a length of one sequence, a scale */
    {ATTUNE_OP_FORWARD, "q=f16(1,5,6,8) k=f16(1,7,3,8) v=f16(1,7,3,8) o=f16(1,5,6,8) seqused_k=i32(1)",
     "seqused_k.byte_offset=4", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD "seqused_k=i32(2)", "seqused_k.byte_offset=8", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD "seqused_k=i32(2)", "seqused_k.byte_offset=4", 4, false},
    /* aliases */
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x100000", 16, true},
    {ATTUNE_OP_FORWARD, FORWARD, "o.data=0x100020 q.data=0x100000 q.byte_offset=32", 16, true},
    {ATTUNE_OP_FORWARD, "q=f16(2,1,6,8) k=f16(2,7,3,8) v=f16(2,7,3,8) o=f16(2,1,6,8)",
     "o.data=0x100000 o.stride[1]=999", 16, true},
    {ATTUNE_OP_APPEND, APPEND "q=f16(2,5,6,8) q_out=f16(2,5,6,8)",
     "q_out.data=0x100000 q.data=0x100000 "
     "k_cache.data=0xf00000",
     16, false},
    {ATTUNE_OP_MERGE, MERGE, "part_o[0].data=0x100000 part_lse[0].data=0x200000", 16, false},
    {ATTUNE_OP_QUANTIZE, QUANTIZE, "descale_given=1 descale.data=0x100000", 16, false},
    /* inputs over each other: V as the first columns of K, one tensor twice */
    {ATTUNE_OP_FORWARD, "q=f16(2,5,3,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,3,4)",
     "v.data=0x200000 v.stride[0]=168 v.stride[1]=24 v.stride[2]=8", 16, false},
    {ATTUNE_OP_FORWARD, FORWARD, "v.data=0x200000", 16, false},
    {ATTUNE_OP_MERGE, MERGE, "part_o[2].data=0x400000 part_o[1].data=0x400000", 16, false},
    /* packed qkv, (B, S, 3, H, D), with o in q's place */
    {ATTUNE_OP_FORWARD, "q=f16(2,5,6,8) k=f16(2,5,6,8) v=f16(2,5,6,8) o=f16(2,5,6,8)",
     "q.data=0x100000 q.stride[0]=720 q.stride[1]=144 k.data=0x100000 k.byte_offset=96 k.stride[0]=720 k.stride[1]=144 "
     "v.data=0x100000 v.byte_offset=192 v.stride[0]=720 v.stride[1]=144 "
     "o.data=0x100000 o.stride[0]=720 o.stride[1]=144",
     16, true},
    /* packed dqkv, by heads: (B, S, H, 3, D) */
    {ATTUNE_OP_BACKWARD,
     "q=f16(2,5,6,8) k=f16(2,5,6,8) v=f16(2,5,6,8) o=f16(2,5,6,8) lse=f32(2,6,5) dout=f16(2,5,6,8) dq=f16(2,5,6,8) "
     "dk=f16(2,5,6,8) dv=f16(2,5,6,8)",
     "dq.data=0xf00000 dq.stride[0]=720 dq.stride[1]=144 dq.stride[2]=24 dk.data=0xf00000 dk.byte_offset=16 "
     "dk.stride[0]=720 dk.stride[1]=144 dk.stride[2]=24 dv.data=0xf00000 dv.byte_offset=32 dv.stride[0]=720 "
     "dv.stride[1]=144 dv.stride[2]=24",
     16, false},
    /* K and V in one pool, by page and by head */
    {ATTUNE_OP_APPEND,
     "k_cache=f16(9,16,3,8) v_cache=f16(9,16,3,8) k_new=f16(2,5,3,8) v_new=f16(2,5,3,8) block_table=i32(2,4) "
     "seqused_k=i32(2) page_size=16",
     "k_cache.data=0xf00000 k_cache.stride[0]=768 v_cache.data=0xf00000 v_cache.stride[0]=768 v_cache.byte_offset=768",
     16, false},
    {ATTUNE_OP_APPEND,
     "k_cache=f16(9,16,3,8) v_cache=f16(9,16,3,8) k_new=f16(2,5,3,8) v_new=f16(2,5,3,8) block_table=i32(2,4) "
     "seqused_k=i32(2) page_size=16",
     "k_cache.data=0xf00000 k_cache.stride[0]=768 k_cache.stride[1]=48 k_cache.stride[2]=16 v_cache.data=0xf00000 "
     "v_cache.stride[0]=768 v_cache.stride[1]=48 v_cache.stride[2]=16 v_cache.byte_offset=16",
     16, false},
    /* nothing there, so nothing to point to */
    {ATTUNE_OP_FORWARD, "q=f16(2,0,6,8) k=f16(2,0,3,8) v=f16(2,0,3,8) o=f16(2,0,6,8)",
     "q.data=0 k.data=0xdead00000 v.data=3 o.data=0", 16, false},
};

static void good_pointers_are_accepted(void **state) {
    (void)state;
    static struct attune_call call;
    for (size_t n = 0; n < sizeof accepted_rows / sizeof accepted_rows[0]; n++) {
        const struct accepted_row *row = &accepted_rows[n];
        if (check(row->op, row->base, row->change, false, &call) != ATTUNE_OK) {
            fail_msg("%s: %s", row->change, attune_last_error());
        }
        bool o_is_q = (call.problem.features & ATTUNE_FEATURE_O_IS_Q) != 0;
        if (call.problem.alignment_bytes != row->alignment_bytes || o_is_q != row->o_is_q) {
            fail_msg("%s: alignment %d, o %s q", row->change, (int)call.problem.alignment_bytes,
                     o_is_q ? "is" : "is not");
        }
    }
}

static void each_operand_is_asked_about_once(void **state) {
    (void)state;
    static struct attune_call call;
    assert_int_equal(check(ATTUNE_OP_BACKWARD, BACKWARD, "", false, &call), ATTUNE_OK);
    assert_int_equal(range_calls, 9);
    assert_int_equal(check(ATTUNE_OP_MERGE, MERGE, "", false, &call), ATTUNE_OK);
    assert_int_equal(range_calls, 8);
}

static void plans_are_made_before_the_data_is_there(void **state) {
    (void)state;
    static struct attune_call call;
    assert_int_equal(check(ATTUNE_OP_FORWARD, FORWARD, "q.data=0 k.data=0 v.data=0 o.data=0", true, &call), ATTUNE_OK);
    assert_int_equal(call.problem.alignment_bytes, 16);
    assert_int_equal(range_calls, 0);
    assert_int_equal(check(ATTUNE_OP_FORWARD, FORWARD, "q.data=0 k.data=0x200004", true, &call), ATTUNE_OK);
    assert_int_equal(call.problem.alignment_bytes, 4);
    assert_int_equal(check(ATTUNE_OP_FORWARD, FORWARD, "q.data=0 o.data=0 o.stride[2]=7", true, &call),
                     ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "has an element twice");
    assert_int_equal(check(ATTUNE_OP_FORWARD, FORWARD, "q.data=0 o.data=0x200000", true, &call),
                     ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "share an element");
}

/* A flag from an earlier look at other pointers does not stay. */
static void the_alias_is_looked_for_each_time(void **state) {
    (void)state;
    static struct attune_call call;
    assert_int_equal(check(ATTUNE_OP_FORWARD, FORWARD, "o.data=0x100000", false, &call), ATTUNE_OK);
    assert_true((call.problem.features & ATTUNE_FEATURE_O_IS_Q) != 0);
    call.bindings.operand[ATTUNE_OPERAND_O].data = (void *)0xf00008;
    assert_int_equal(attune_call_check_memory(&device, &call, false), ATTUNE_OK);
    assert_true((call.problem.features & ATTUNE_FEATURE_O_IS_Q) == 0);
    assert_int_equal(call.problem.alignment_bytes, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_pointers_are_named),
        cmocka_unit_test(good_pointers_are_accepted),
        cmocka_unit_test(each_operand_is_asked_about_once),
        cmocka_unit_test(plans_are_made_before_the_data_is_there),
        cmocka_unit_test(the_alias_is_looked_for_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
