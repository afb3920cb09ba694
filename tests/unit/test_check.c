/*
 * ATTUNE_CHECK: values in device memory that lie, and those that nobody reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>

#include "attune/status.h"
#include "core/check.h"
#include "core/host.h"
#include "core/problem.h"
#include "core/status_internal.h"
#include "tests/support/call_text.h"

/* ---- A device whose memory is a table of arrays; its pointers are their numbers, not addresses ---- */

#define ARRAYS_MAX 8
#define VALUES_MAX 64

static int32_t arrays[ARRAYS_MAX][VALUES_MAX];
static int array_count;
static int copy_count;
static int pending_count; /* copies that no sync has waited for */
static bool is_capturing;
static attune_status copy_status;

static attune_status copy_memory(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device;
    (void)stream;
    assert_int_equal(direction, ATTUNE_COPY_DEVICE_TO_HOST);
    size_t number = (size_t)(uintptr_t)source.data;
    assert_in_range(number, 1, array_count);
    assert_true(source.byte_offset + bytes <= sizeof arrays[0]);
    memcpy((char *)destination.data + destination.byte_offset, (char *)arrays[number - 1] + source.byte_offset, bytes);
    copy_count++;
    pending_count++;
    return copy_status == ATTUNE_OK ? ATTUNE_OK : attune_fail(copy_status, "the copy failed");
}

static attune_status sync_stream(void *device, void *stream) {
    (void)device;
    (void)stream;
    pending_count = 0;
    return ATTUNE_OK;
}

static attune_status read_capturing(void *device, void *stream, bool *out_capturing) {
    (void)device;
    (void)stream;
    *out_capturing = is_capturing;
    return ATTUNE_OK;
}

static const attune_backend backend = {
    .memory_copy = copy_memory, .stream_sync = sync_stream, .stream_capturing = read_capturing};
static attune_device device = {.backend = &backend};

/* Gives tensors of a call the values of a line: "cu_seqlens_q=0,3,9 seqused_k=4,4". */
static void set_values(struct call_text *text, const char *line) {
    char name[64];
    char values[256];
    int used;
    array_count = 0;
    while (sscanf(line, " %63[^= ]=%255s%n", name, values, &used) == 2) {
        attune_tensor *tensor = call_text_tensor(text, name);
        assert_non_null(tensor);
        assert_true(array_count < ARRAYS_MAX);
        int32_t *array = arrays[array_count++];
        char *at = values;
        for (int n = 0; n < VALUES_MAX && *at != '\0'; n++) {
            array[n] = (int32_t)strtol(at, &at, 0);
            at += *at == ',';
        }
        tensor->data = (void *)(uintptr_t)array_count;
        line += used;
    }
}

static attune_status check(attune_op op, const char *assignments, const char *values) {
    static struct call_text text;
    static struct attune_call call;
    call_text_init(op, &text);
    call_text_apply(&text, assignments);
    set_values(&text, values);
    if (attune_call_make(op, &text.args, &call) != ATTUNE_OK) {
        fail_msg("%s: %s", assignments, attune_last_error());
    }
    copy_count = 0;
    return attune_call_check_values(&device, NULL, &call);
}

#define DENSE  "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) "
#define PACKED "q=f16(10,6,8) k=f16(14,3,8) v=f16(14,3,4) o=f16(10,6,4) cu_seqlens_q=i32(3) cu_seqlens_k=i32(3) "
#define PAGED                                                                                                          \
    "q=f16(2,5,6,8) k=f16(9,4,3,8) v=f16(9,4,3,4) o=f16(2,5,6,4) block_table=i32(2,4) page_size=4 seqused_k=i32(2) "
#define SPARSE                                                                                                         \
    "q=f16(2,5,6,8) k=f16(2,7,3,8) v=f16(2,7,3,4) o=f16(2,5,6,4) block_row_ptr=i32(4) block_col_idx=i32(6) "           \
    "block_rows=2 block_keys=2 "
#define APPEND "k_cache=f16(2,16,3,8) v_cache=f16(2,16,3,4) k_new=f16(2,5,3,8) v_new=f16(2,5,3,4) seqused_k=i32(2) "
#define APPEND_PAGED                                                                                                   \
    "k_cache=f16(9,4,3,8) v_cache=f16(9,4,3,4) k_new=f16(2,5,3,8) v_new=f16(2,5,3,4) seqused_k=i32(2) "                \
    "block_table=i32(2,4) page_size=4 "

static const struct row {
    attune_op op;
    const char *assignments;
    const char *values;
    const char *sentence; /* NULL: nothing is wrong */
} rows[] = {
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=0,3,10 cu_seqlens_k=0,14,14", NULL},
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=2,2,8 cu_seqlens_k=0,7,9", NULL}, /* rows before and after are nobody's */
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=-1,3,10 cu_seqlens_k=0,7,14",
     "cu_seqlens_q[0] = -1: must be 0 to 10, the packed rows"},
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=0,5,4 cu_seqlens_k=0,7,14",
     "cu_seqlens_q[2] = 4: must be 5 to 10, from the offset before it"},
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=0,5,11 cu_seqlens_k=0,7,14", "cu_seqlens_q[2] = 11: must be 5 to 10"},
    {ATTUNE_OP_FORWARD, PACKED, "cu_seqlens_q=0,5,10 cu_seqlens_k=0,15,15", "cu_seqlens_k[1] = 15: must be 0 to 14"},
    {ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=6", "cu_seqlens_q=0,3,10 cu_seqlens_k=0,7,14",
     "cu_seqlens_q[2] = 10: must be 3 to 9, no sequence being longer than max_seqlen"},
    {ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=6", "cu_seqlens_q=0,7,10 cu_seqlens_k=0,7,14",
     "cu_seqlens_q[1] = 7: must be 0 to 6"},
    {ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=3", "cu_seqlens_q=4,7,10 cu_seqlens_k=0,7,14", NULL},
    {ATTUNE_OP_FORWARD, PACKED "max_seqlen_q=7 max_seqlen_k=7", "cu_seqlens_q=0,3,10 cu_seqlens_k=0,7,14", NULL},
    {ATTUNE_OP_FORWARD, PACKED "cu_seqlens_q.stride[0]=2", "cu_seqlens_q=0,99,3,99,10 cu_seqlens_k=0,7,14", NULL},
    {ATTUNE_OP_FORWARD, PACKED "cu_seqlens_q.stride[0]=2", "cu_seqlens_q=0,0,3,0,2 cu_seqlens_k=0,7,14",
     "cu_seqlens_q[2] = 2: must be 3 to 10"},
    {ATTUNE_OP_FORWARD, PACKED "cu_seqlens_q.byte_offset=8", "cu_seqlens_q=77,77,0,4,10 cu_seqlens_k=0,7,14", NULL},

    {ATTUNE_OP_FORWARD, DENSE "seqused_q=i32(2) seqused_k=i32(2)", "seqused_q=0,5 seqused_k=7,0", NULL},
    {ATTUNE_OP_FORWARD, DENSE "seqused_q=i32(2)", "seqused_q=3,6", "seqused_q[1] = 6: must be 0 to 5"},
    {ATTUNE_OP_FORWARD, DENSE "seqused_k=i32(2)", "seqused_k=-2,6", "seqused_k[0] = -2: must be 0 to 7"},
    {ATTUNE_OP_FORWARD, DENSE "seqused_k=i32(2)", "seqused_k=7,8", "seqused_k[1] = 8: must be 0 to 7"},
    {ATTUNE_OP_FORWARD, PACKED "seqused_k=i32(2)", "cu_seqlens_q=0,3,10 cu_seqlens_k=0,5,14 seqused_k=6,9",
     "seqused_k[0] = 6: must be 0 to 5"},
    {ATTUNE_OP_FORWARD, PACKED "seqused_q=i32(2)", "cu_seqlens_q=0,3,10 cu_seqlens_k=0,5,14 seqused_q=3,7", NULL},
    {ATTUNE_OP_FORWARD, DENSE "leftpad_k=i32(2)", "leftpad_k=0,7", NULL},
    {ATTUNE_OP_FORWARD, DENSE "leftpad_k=i32(2)", "leftpad_k=-1,7", "leftpad_k[0] = -1: must be 0 to 7"},
    {ATTUNE_OP_FORWARD, DENSE "leftpad_k=i32(2)", "leftpad_k=0,8", "leftpad_k[1] = 8: must be 0 to 7, the maximal Sk"},
    {ATTUNE_OP_FORWARD, PACKED "max_seqlen_k=9 leftpad_k=i32(2)",
     "cu_seqlens_q=0,3,10 cu_seqlens_k=0,5,14 leftpad_k=9,0", NULL},
    {ATTUNE_OP_FORWARD, PAGED "leftpad_k=i32(2)", "block_table=99,99,99,99,99,99,3,4 seqused_k=9,13 leftpad_k=12,8",
     NULL},
    {ATTUNE_OP_BACKWARD, DENSE "lse=f32(2,6,5) dout=f16(2,5,6,4) dv=f16(2,7,3,4) seqused_k=i32(2)", "seqused_k=7,9",
     "seqused_k[1] = 9"},

    /* Pages: seqused 9 of 16 uses columns 0 to 2. */
    {ATTUNE_OP_FORWARD, PAGED, "block_table=8,0,3,-7,1,2,3,4 seqused_k=9,16", NULL},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=8,0,9,-7,1,2,3,4 seqused_k=9,16",
     "block_table[0, 2] = 9: must be less than "
     "the 9 pages"},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=8,0,3,3,1,2,3,2147483647 seqused_k=9,13", "block_table[1, 3] = 2147483647"},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=8,0,3,3,-1,2,3,4 seqused_k=9,13", "block_table[1, 0] = -1"},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=8,0,3,99,1,2,3,99 seqused_k=8,12", NULL},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=0,0,0,0,0,0,0,0 seqused_k=17,12", "seqused_k[0] = 17: must be 0 to 16"},
    {ATTUNE_OP_FORWARD, PAGED, "block_table=99,99,99,99,99,99,99,99 seqused_k=0,0", NULL},
    {ATTUNE_OP_FORWARD, PAGED "leftpad_k=i32(2)", "block_table=99,0,3,99,99,99,3,4 seqused_k=9,13 leftpad_k=4,8", NULL},
    {ATTUNE_OP_FORWARD, PAGED "leftpad_k=i32(2)", "block_table=99,0,3,99,99,2,3,4 seqused_k=9,13 leftpad_k=3,7",
     "block_table[0, 0] = 99"},
    /* bottom-right, 5 rows: row 0's own key is seqused - 5, and the window starts 2 before it */
    {ATTUNE_OP_FORWARD, PAGED "window.set=1 window.left=2 window.right=0",
     "block_table=99,0,3,3,99,2,3,4 seqused_k=11,13", NULL},
    {ATTUNE_OP_FORWARD, PAGED "window.set=1 window.left=2 window.right=0",
     "block_table=99,0,3,3,99,2,3,4 seqused_k=10,13", "block_table[0, 0] = 99"},
    /* top-left: row 4 sees up to key 4 + 3 */
    {ATTUNE_OP_FORWARD, PAGED "align=1 window.set=1 window.left=-1 window.right=3",
     "block_table=0,0,99,99,0,0,99,99 seqused_k=16,16", NULL},
    {ATTUNE_OP_FORWARD, PAGED "align=1 window.set=1 window.left=-1 window.right=4",
     "block_table=0,0,99,99,0,0,99,99 seqused_k=16,16", "block_table[0, 2] = 99: must be less than the 9 pages"},
    {ATTUNE_OP_FORWARD, PAGED "align=2 diagonal=8 causal=1 window.set=1 window.left=0",
     "block_table=99,99,0,0,99,99,0,0 seqused_k=16,16", NULL},
    {ATTUNE_OP_FORWARD, PAGED "align=2 diagonal=-100 causal=1", "block_table=99,99,99,99,99,99,99,99 seqused_k=16,16",
     NULL},
    {ATTUNE_OP_FORWARD, PAGED "k=f16(9,1,3,8) v=f16(9,1,3,4) page_size=1",
     "block_table=8,99,99,99,-1,1,2,3 seqused_k=1,4",
     "block_table[1, 0] = -1: must be less than the 9 pages, and 0 or more, where positions 0 to 3 are used"},
    /* no rows, no reads */
    {ATTUNE_OP_FORWARD, PAGED "seqused_q=i32(2)", "block_table=99,99,99,99,0,1,2,3 seqused_k=16,16 seqused_q=0,1",
     NULL},
    {ATTUNE_OP_FORWARD, PAGED "seqused_q=i32(2)", "block_table=99,99,99,99,0,1,2,3 seqused_k=16,16 seqused_q=1,1",
     "block_table[0, 0] = 99"},
    {ATTUNE_OP_FORWARD, PAGED "q=f16(10,6,8) o=f16(10,6,4) cu_seqlens_q=i32(3)",
     "block_table=99,99,99,99,0,1,2,3 seqused_k=16,16 cu_seqlens_q=0,0,10", NULL},

    /* Patterns: 3 blocks of rows, 4 of keys. */
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,2,6 block_col_idx=0,3,0,1,2,3", NULL},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=1,2,2,4 block_col_idx=77,3,0,1,77,77", NULL},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,1,6 block_col_idx=0,3,0,1,2,3",
     "block_row_ptr[0, 2] = 1: must be 2 (what comes before it) to 6"},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,2,7 block_col_idx=0,3,0,1,2,3", "block_row_ptr[0, 3] = 7"},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=-1,2,2,6 block_col_idx=0,3,0,1,2,3", "block_row_ptr[0, 0] = -1"},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,2,6 block_col_idx=0,4,0,1,2,3",
     "block_col_idx[1] = 4: must be more than 0"},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,2,6 block_col_idx=-1,3,0,1,2,3", "block_col_idx[0] = -1"},
    {ATTUNE_OP_FORWARD, SPARSE, "block_row_ptr=0,2,2,6 block_col_idx=0,3,0,2,2,3",
     "block_col_idx[4] = 2: must be more than 2"},
    {ATTUNE_OP_FORWARD, SPARSE "block_row_ptr=i32(6,4) block_col_idx=i32(2)",
     "block_row_ptr=0,1,1,1,0,0,0,1,0,2,2,2,1,2,2,2,0,0,0,0,0,1,1,2 block_col_idx=1,3", NULL},
    {ATTUNE_OP_FORWARD, SPARSE "block_row_ptr=i32(6,4) block_col_idx=i32(2)",
     "block_row_ptr=0,1,1,1,0,0,0,1,0,2,2,2,1,2,2,2,0,0,0,0,0,1,1,3 block_col_idx=1,3", "block_row_ptr[5, 3] = 3"},

    {ATTUNE_OP_FORWARD, SPARSE "block_row_ptr=i32(6) block_rows=1 block_keys=7",
     "block_row_ptr=0,1,1,1,2,2 block_col_idx=0,1",
     "block_col_idx[1] = 1: must be more than -1 (the one before it in its row, or -1), and less than the 1 blocks"},

    {ATTUNE_OP_APPEND, APPEND, "seqused_k=0,11", NULL},
    {ATTUNE_OP_APPEND, APPEND, "seqused_k=0,12", "seqused_k[1] = 12: must be 0 to 11"},
    {ATTUNE_OP_APPEND, APPEND, "seqused_k=-1,0", "seqused_k[0] = -1: must be 0 to 11"},
    {ATTUNE_OP_APPEND, APPEND "rotary_cos=f32(9,2) rotary_sin=f32(9,2)", "seqused_k=4,4", NULL},
    {ATTUNE_OP_APPEND, APPEND "rotary_cos=f32(9,2) rotary_sin=f32(9,2)", "seqused_k=4,5",
     "seqused_k[1] = 5: must be 0 to 4, the positions of rotary_cos"},
    {ATTUNE_OP_APPEND, APPEND "rotary_cos=f32(9,2) rotary_sin=f32(9,2) q=f16(2,7,3,8) q_out=f16(2,7,3,8)",
     "seqused_k=2,3", "seqused_k[1] = 3: must be 0 to 2"},
    {ATTUNE_OP_APPEND, APPEND "k_new=f16(2,1,3,8) v_new=f16(2,1,3,4) rotary_cos=f32(9,1) rotary_sin=f32(9,1)",
     "seqused_k=8,9", "seqused_k[1] = 9: must be 0 to 8, the positions of rotary_cos"},
    {ATTUNE_OP_APPEND, APPEND "k_new=f16(2,0,3,8) v_new=f16(2,0,3,4) rotary_cos=f32(9,1) rotary_sin=f32(9,1)",
     "seqused_k=8,10", NULL},
    {ATTUNE_OP_APPEND,
     APPEND_PAGED "k_cache=f16(9,1,3,8) v_cache=f16(9,1,3,4) k_new=f16(2,1,3,8) v_new=f16(2,1,3,4) page_size=1",
     "seqused_k=0,3 block_table=1,99,99,99,99,99,99,9", "block_table[1, 3] = 9"},
    {ATTUNE_OP_APPEND, APPEND_PAGED, "seqused_k=0,7 block_table=1,2,-9,99,-9,3,4,99", NULL},
    {ATTUNE_OP_APPEND, APPEND_PAGED, "seqused_k=4,7 block_table=1,2,9,99,-9,3,4,99", "block_table[0, 2] = 9"},
    {ATTUNE_OP_APPEND, APPEND_PAGED, "seqused_k=12,0 block_table=0,0,0,0,0,0,0,0",
     "seqused_k[0] = 12: must be 0 to 11"},

    {ATTUNE_OP_MERGE, "parts=1 part_o=f32(2,5,6,4) part_lse=f32(2,6,5) o=f32(2,5,6,4)", "", NULL},
    {ATTUNE_OP_FORWARD, DENSE, "", NULL},
};

static void lies_are_named_and_what_nobody_reads_is_left_alone(void **state) {
    (void)state;
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++) {
        attune_status status = check(rows[n].op, rows[n].assignments, rows[n].values);
        const char *sentence = status == ATTUNE_OK ? "" : attune_last_error();
        attune_status expected = rows[n].sentence == NULL ? ATTUNE_OK : ATTUNE_INVALID_ARGUMENT;
        if (status != expected || (rows[n].sentence != NULL && strstr(sentence, rows[n].sentence) == NULL)) {
            fail_msg("%s %s: %s \"%s\"", rows[n].assignments, rows[n].values, attune_status_name(status), sentence);
        }
        assert_int_equal(copy_count, array_count);
        assert_int_equal(pending_count, 0);
    }
}

static void a_captured_stream_is_refused(void **state) {
    (void)state;
    is_capturing = true;
    assert_int_equal(check(ATTUNE_OP_FORWARD, DENSE "seqused_k=i32(2)", "seqused_k=7,7"), ATTUNE_INVALID_ARGUMENT);
    is_capturing = false;
    assert_contains(attune_last_error(), "check = true while the stream is being captured");
    assert_int_equal(copy_count, 0);
}

static void a_failing_copy_is_passed_on(void **state) {
    (void)state;
    copy_status = ATTUNE_DEVICE_LOST;
    assert_int_equal(check(ATTUNE_OP_FORWARD, DENSE "seqused_k=i32(2)", "seqused_k=7,7"), ATTUNE_DEVICE_LOST);
    copy_status = ATTUNE_OK;
    assert_string_equal(attune_last_error(), "the copy failed");
}

static void lack_of_memory_is_told(void **state) {
    (void)state;
    attune_host_limit_allocations(0);
    attune_status status = check(ATTUNE_OP_FORWARD, DENSE "seqused_k=i32(2)", "seqused_k=7,7");
    attune_host_limit_allocations(-1);
    assert_int_equal(status, ATTUNE_OUT_OF_MEMORY);
    assert_contains(attune_last_error(), "8 bytes of lengths and tables");
    attune_host_limit_allocations(0);
    status = check(ATTUNE_OP_FORWARD, DENSE, ""); /* nothing to read */
    attune_host_limit_allocations(-1);
    assert_int_equal(status, ATTUNE_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_named_and_what_nobody_reads_is_left_alone),
        cmocka_unit_test(a_captured_stream_is_refused),
        cmocka_unit_test(a_failing_copy_is_passed_on),
        cmocka_unit_test(lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
