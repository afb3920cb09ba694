/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/call_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATA  ((void *)4096)
#define WIDTH 96

/* ---- The fields ---- */

enum kind { TENSOR, BOOLEAN, INT32, INT64, UINT32, UINT64, REAL };

struct field {
    const char *name;
    size_t offset;
    enum kind kind;
};

#define FIELD(name, kind)                                                                                              \
    { #name, offsetof(ARGS, name), kind }

#define ARGS attune_attention_args
static const struct field attention_fields[] = {
    FIELD(q, TENSOR),
    FIELD(k, TENSOR),
    FIELD(v, TENSOR),
    FIELD(o, TENSOR),
    FIELD(lse, TENSOR),
    FIELD(probs, TENSOR),
    FIELD(dout, TENSOR),
    FIELD(dlse, TENSOR),
    FIELD(dq, TENSOR),
    FIELD(dk, TENSOR),
    FIELD(dv, TENSOR),
    FIELD(dbias, TENSOR),
    FIELD(dsink, TENSOR),
    FIELD(bias, TENSOR),
    FIELD(mask, TENSOR),
    FIELD(alibi_slopes, TENSOR),
    FIELD(sink, TENSOR),
    FIELD(cu_seqlens_q, TENSOR),
    FIELD(cu_seqlens_k, TENSOR),
    FIELD(seqused_q, TENSOR),
    FIELD(seqused_k, TENSOR),
    FIELD(leftpad_k, TENSOR),
    FIELD(block_table, TENSOR),
    FIELD(block_row_ptr, TENSOR),
    FIELD(block_col_idx, TENSOR),
    FIELD(descale_q, TENSOR),
    FIELD(descale_k, TENSOR),
    FIELD(descale_v, TENSOR),
    FIELD(dropout_seed_memory, TENSOR),
    FIELD(dropout_offset_memory, TENSOR),
    FIELD(has_scale, BOOLEAN),
    FIELD(scale, REAL),
    FIELD(softcap, REAL),
    FIELD(causal, BOOLEAN),
    FIELD(align, INT32),
    FIELD(diagonal, INT64),
    FIELD(window.set, BOOLEAN),
    FIELD(window.left, INT64),
    FIELD(window.right, INT64),
    FIELD(max_seqlen_q, INT64),
    FIELD(max_seqlen_k, INT64),
    FIELD(page_size, INT64),
    FIELD(block_rows, INT64),
    FIELD(block_keys, INT64),
    FIELD(dropout_rate, REAL),
    FIELD(dropout_seed, UINT64),
    FIELD(dropout_offset, UINT32),
    FIELD(batch_origin, INT64),
    FIELD(head_origin, INT64),
    FIELD(row_origin, INT64),
    FIELD(key_origin, INT64),
    FIELD(heads_total, INT64),
    FIELD(splits, INT32),
    FIELD(tile_rows, INT32),
    FIELD(tile_keys, INT32),
    FIELD(deterministic, BOOLEAN),
    FIELD(check, BOOLEAN),
    {0},
};
#undef ARGS

#define ARGS attune_kvcache_append_args
static const struct field append_fields[] = {
    FIELD(k_cache, TENSOR),   FIELD(v_cache, TENSOR),     FIELD(k_new, TENSOR),      FIELD(v_new, TENSOR),
    FIELD(seqused_k, TENSOR), FIELD(block_table, TENSOR), FIELD(page_size, INT64),   FIELD(descale_k, TENSOR),
    FIELD(descale_v, TENSOR), FIELD(rotary_cos, TENSOR),  FIELD(rotary_sin, TENSOR), FIELD(rotary_interleaved, BOOLEAN),
    FIELD(q, TENSOR),         FIELD(q_out, TENSOR),       FIELD(check, BOOLEAN),     {0},
};
#undef ARGS

#define ARGS attune_merge_args
static const struct field merge_fields[] = {
    FIELD(parts, INT32), FIELD(part_o, UINT64), FIELD(part_lse, UINT64), FIELD(o, TENSOR), FIELD(lse, TENSOR), {0},
};
#undef ARGS

#define ARGS attune_quantize_args
static const struct field quantize_fields[] = {
    FIELD(x, TENSOR), FIELD(y, TENSOR), FIELD(descale, TENSOR), FIELD(descale_given, BOOLEAN), {0},
};
#undef ARGS

#define ARGS attune_tensor
static const struct field tensor_fields[] = {
    FIELD(data, UINT64),
    FIELD(byte_offset, UINT64),
    FIELD(dtype, INT32),
    FIELD(memory, INT32),
    FIELD(rank, INT32),
    FIELD(reserved0, INT32),
    FIELD(shape[0], INT64),
    FIELD(shape[1], INT64),
    FIELD(shape[2], INT64),
    FIELD(shape[3], INT64),
    FIELD(stride[0], INT64),
    FIELD(stride[1], INT64),
    FIELD(stride[2], INT64),
    FIELD(stride[3], INT64),
    FIELD(reserved[0], UINT64),
    FIELD(reserved[1], UINT64),
    {0},
};
#undef ARGS

static const struct field *fields_of(attune_op op) {
    switch (op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        return attention_fields;
    case ATTUNE_OP_APPEND:
        return append_fields;
    case ATTUNE_OP_MERGE:
        return merge_fields;
    case ATTUNE_OP_QUANTIZE:
        return quantize_fields;
    }
    return NULL;
}

static const struct field *find_field(const struct field *fields, const char *name) {
    for (const struct field *at = fields; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    return NULL;
}

/* ---- Values ---- */

static void refuse(const char *what, const char *text) {
    fprintf(stderr, "call_text: no such %s: %s\n", what, text);
    abort();
}

static attune_dtype parse_dtype(const char *text, size_t length) {
    for (int dtype = ATTUNE_DTYPE_F32; dtype <= ATTUNE_DTYPE_F64; dtype++) {
        const char *name = attune_dtype_name((attune_dtype)dtype);
        if (strlen(name) == length && memcmp(name, text, length) == 0) {
            return (attune_dtype)dtype;
        }
    }
    refuse("dtype", text);
    return ATTUNE_DTYPE_NONE;
}

static attune_tensor parse_tensor(const char *text) {
    attune_tensor tensor;
    memset(&tensor, 0, sizeof tensor);
    if (strcmp(text, "none") == 0) {
        return tensor;
    }
    const char *open = strchr(text, '(');
    if (open == NULL) {
        refuse("tensor", text);
        return tensor;
    }
    int64_t shape[ATTUNE_RANK_MAX];
    int32_t rank = 0;
    const char *at = open + 1;
    while (rank < ATTUNE_RANK_MAX && *at != ')') {
        char *end;
        shape[rank++] = strtoll(at, &end, 10);
        at = *end == ',' ? end + 1 : end;
    }
    return attune_tensor_contiguous(DATA, parse_dtype(text, (size_t)(open - text)), rank, shape);
}

static void set_field(void *base, const struct field *field, const char *text) {
    char *place = (char *)base + field->offset;
    bool boolean = strtol(text, NULL, 0) != 0;
    int64_t signed_value = strtoll(text, NULL, 0);
    uint64_t unsigned_value = strtoull(text, NULL, 0);
    int32_t narrow = (int32_t)signed_value;
    uint32_t unsigned_narrow = (uint32_t)unsigned_value;
    double real = strtod(text, NULL);
    attune_tensor tensor;
    switch (field->kind) {
    case TENSOR:
        tensor = parse_tensor(text);
        memcpy(place, &tensor, sizeof tensor);
        break;
    case BOOLEAN:
        memcpy(place, &boolean, sizeof boolean);
        break;
    case INT32:
        memcpy(place, &narrow, sizeof narrow);
        break;
    case INT64:
        memcpy(place, &signed_value, sizeof signed_value);
        break;
    case UINT32:
        memcpy(place, &unsigned_narrow, sizeof unsigned_narrow);
        break;
    case UINT64:
        memcpy(place, &unsigned_value, sizeof unsigned_value);
        break;
    case REAL:
        memcpy(place, &real, sizeof real);
        break;
    }
}

/* ---- Assignments ---- */

void call_text_init(attune_op op, struct call_text *out_call) {
    memset(out_call, 0, sizeof *out_call);
    out_call->op = op;
    switch (op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        out_call->args.attention = attune_attention_args_init();
        break;
    case ATTUNE_OP_APPEND:
        out_call->args.append = attune_kvcache_append_args_init();
        break;
    case ATTUNE_OP_MERGE:
        out_call->args.merge = attune_merge_args_init();
        out_call->args.merge.part_o = out_call->part_o;
        out_call->args.merge.part_lse = out_call->part_lse;
        break;
    case ATTUNE_OP_QUANTIZE:
        out_call->args.quantize = attune_quantize_args_init();
        break;
    }
}

/* The array that "part_o" or "part_o[2]" names, and which element, -1 for all; NULL if it is another name. */
static attune_tensor *find_parts(struct call_text *call, const char *name, int32_t *out_index) {
    const char *bracket = strchr(name, '[');
    size_t length = bracket == NULL ? strlen(name) : (size_t)(bracket - name);
    *out_index = bracket == NULL ? -1 : (int32_t)strtol(bracket + 1, NULL, 10);
    bool is_o = length == strlen("part_o") && strncmp(name, "part_o", length) == 0;
    bool is_lse = length == strlen("part_lse") && strncmp(name, "part_lse", length) == 0;
    if (call->op != ATTUNE_OP_MERGE || (!is_o && !is_lse) || *out_index >= ATTUNE_MERGE_PARTS_MAX) {
        return NULL;
    }
    return is_o ? call->part_o : call->part_lse;
}

attune_tensor *call_text_tensor(struct call_text *call, const char *name) {
    int32_t index;
    attune_tensor *parts = find_parts(call, name, &index);
    if (parts != NULL) {
        return &parts[index < 0 ? 0 : index];
    }
    const struct field *field = find_field(fields_of(call->op), name);
    return field == NULL || field->kind != TENSOR ? NULL
                                                  : (attune_tensor *)(void *)((char *)&call->args + field->offset);
}

static void assign_parts(attune_tensor *parts, int32_t index, const char *part_field, const char *value) {
    const struct field whole = {"", 0, TENSOR};
    const struct field *field = part_field == NULL ? &whole : find_field(tensor_fields, part_field);
    if (field == NULL) {
        refuse("field", part_field);
        return;
    }
    for (int32_t n = 0; n < ATTUNE_MERGE_PARTS_MAX; n++) {
        if (index < 0 || index == n) {
            set_field(&parts[n], field, value);
        }
    }
}

static void assign(struct call_text *call, char *name, const char *value) {
    const struct field *field = find_field(fields_of(call->op), name);
    bool is_number = strchr(value, '(') == NULL && strcmp(value, "none") != 0;
    if (field != NULL && (field->kind == TENSOR || is_number)) {
        set_field(&call->args, field, value);
        return;
    }
    char *dot = strchr(name, '.');
    if (dot != NULL) {
        *dot = '\0';
    }
    int32_t index;
    attune_tensor *parts = find_parts(call, name, &index);
    attune_tensor *tensor = call_text_tensor(call, name);
    const struct field *part = dot == NULL ? NULL : find_field(tensor_fields, dot + 1);
    if (parts != NULL) {
        assign_parts(parts, index, dot == NULL ? NULL : dot + 1, value);
    } else if (tensor != NULL && part != NULL) {
        set_field(tensor, part, value);
    } else {
        refuse("field", name);
    }
}

void call_text_apply(struct call_text *call, const char *text) {
    char name[WIDTH];
    char value[WIDTH];
    int used;
    while (sscanf(text, " %95[^= ]=%95s%n", name, value, &used) == 2) {
        assign(call, name, value);
        text += used;
    }
    if (strspn(text, " ") != strlen(text)) {
        refuse("assignment", text);
    }
}
