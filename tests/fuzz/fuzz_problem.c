/*
 * Args as bytes, and right args with a few words changed: never a crash, and what is accepted holds what backend.h says
 * of a problem.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/check.h"
#include "core/memory_check.h"
#include "core/operand.h"
#include "core/overlap.h"
#include "core/problem.h"
#include "tests/support/call_bases.h"
#include "tests/support/call_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#define require(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* ---- The input, a byte or a word at a time; zeros after its end ---- */

struct input {
    const uint8_t *bytes;
    size_t left;
};

static uint8_t take_byte(struct input *input) {
    if (input->left == 0) {
        return 0;
    }
    input->left--;
    return *input->bytes++;
}

static void take(struct input *input, void *to, size_t size) {
    memset(to, 0, size);
    size_t taken = size < input->left ? size : input->left;
    memcpy(to, input->bytes, taken);
    input->bytes += taken;
    input->left -= taken;
}

/* ---- A device that answers anything ---- */

static struct input values; /* of the memory */

static attune_status find_range(void *device, attune_memory kind, const void *data, attune_memory_range *out_range) {
    (void)device, (void)kind;
    uint64_t address = (uint64_t)(uintptr_t)data;
    out_range->space = address >> 60;
    out_range->offset = address;
    out_range->size_bytes = (address & 1) != 0 ? UINT64_MAX : 1 << 20;
    return ATTUNE_OK;
}

static attune_status copy_memory(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes) {
    (void)device;
    (void)stream;
    (void)direction;
    (void)source;
    int32_t *to = (int32_t *)destination.data;
    for (uint64_t n = 0; n < bytes / sizeof *to; n++) {
        to[n] = (int8_t)take_byte(&values);
    }
    return ATTUNE_OK;
}

static attune_status sync_stream(void *device, void *stream) {
    (void)device;
    (void)stream;
    return ATTUNE_OK;
}

static const attune_backend backend = {
    .memory_range = find_range, .memory_copy = copy_memory, .stream_sync = sync_stream};
static attune_device device = {.backend = &backend};

/* ---- Args ---- */

/* Bytes other than 0 and 1 in a bool are not args that a C caller can make. */
static void repair(struct call_text *text) {
    static const size_t offsets[] = {
        offsetof(attune_attention_args, has_scale), offsetof(attune_attention_args, causal),
        offsetof(attune_attention_args, window.set), offsetof(attune_attention_args, deterministic),
        offsetof(attune_attention_args, check)};
    unsigned char *bytes = (unsigned char *)&text->args;
    switch (text->op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        for (size_t n = 0; n < sizeof offsets / sizeof offsets[0]; n++) {
            bytes[offsets[n]] &= 1;
        }
        break;
    case ATTUNE_OP_APPEND:
        bytes[offsetof(attune_kvcache_append_args, rotary_interleaved)] &= 1;
        bytes[offsetof(attune_kvcache_append_args, check)] &= 1;
        break;
    case ATTUNE_OP_MERGE:
        text->args.merge.part_o = text->part_o;
        text->args.merge.part_lse = text->part_lse;
        break;
    case ATTUNE_OP_QUANTIZE:
        bytes[offsetof(attune_quantize_args, descale_given)] &= 1;
        break;
    }
}

static size_t size_of_args(attune_op op) {
    switch (op) {
    case ATTUNE_OP_FORWARD:
    case ATTUNE_OP_BACKWARD:
        return sizeof(attune_attention_args);
    case ATTUNE_OP_APPEND:
        return sizeof(attune_kvcache_append_args);
    case ATTUNE_OP_MERGE:
        return sizeof(attune_merge_args);
    case ATTUNE_OP_QUANTIZE:
        return sizeof(attune_quantize_args);
    }
    return 0;
}

static void fill_with_bytes(struct input *input, struct call_text *out_text) {
    call_text_init((attune_op)(1 + take_byte(input) % 5), out_text);
    size_t size = size_of_args(out_text->op);
    take(input, &out_text->args, size);
    memcpy(&out_text->args, &size, sizeof size);
    take(input, out_text->part_o, 4 * sizeof out_text->part_o[0]);
    take(input, out_text->part_lse, 4 * sizeof out_text->part_lse[0]);
}

/* A word is 32 bits: half of an extent, a dtype, a rank. */
static void change_word(struct input *input, uint32_t *words, size_t count) {
    static const uint32_t interesting[] = {
        0, 1, 2, 3, 4, 5, 6, 8, 16, 64, 0x7fffffff, 0x80000000, 0xffffffff, 1u << 28, 0x7ff00000, 0x3fe00000};
    size_t to = (take_byte(input) | (size_t)take_byte(input) << 8) % count;
    size_t from = (take_byte(input) | (size_t)take_byte(input) << 8) % count;
    uint8_t how = take_byte(input);
    if (how < 128) {
        words[to] = words[from];
    } else if (how < 240) {
        words[to] = interesting[how % (sizeof interesting / sizeof interesting[0])];
    } else {
        words[to] += (uint32_t)(how - 247);
    }
}

static void fill_with_a_changed_base(struct input *input, struct call_text *out_text) {
    size_t count = 0;
    while (call_bases[count].name != NULL) {
        count++;
    }
    const struct call_base *base = &call_bases[take_byte(input) % count];
    call_text_init(base->op, out_text);
    call_text_apply(out_text, base->text);
    size_t first = sizeof(size_t) / sizeof(uint32_t); /* struct_size stays */
    size_t words = size_of_args(base->op) / sizeof(uint32_t);
    for (uint8_t changes = take_byte(input) % 8; changes > 0; changes--) {
        bool of_part = base->op == ATTUNE_OP_MERGE && take_byte(input) % 2 == 0;
        if (of_part) {
            change_word(input, (uint32_t *)(void *)out_text->part_o, 3 * sizeof(attune_tensor) / sizeof(uint32_t));
        } else {
            change_word(input, (uint32_t *)(void *)&out_text->args + first, words - first);
        }
    }
}

/* ---- What an accepted call holds ---- */

static void check_layout(const attune_layout *layout) {
    int64_t elements = 1;
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        require(layout->shape[k] >= 0 && layout->stride[k] >= 0);
        require(layout->shape[k] == 0 || elements <= (INT64_C(1) << 60) / layout->shape[k]);
        elements *= layout->shape[k];
    }
    struct attune_strided bytes = attune_strided_make(layout);
    int64_t span = attune_strided_span_bytes(&bytes);
    require(span >= 0 && span <= ATTUNE_SPAN_BYTES_MAX && (span > 0) == (elements > 0));
}

static void check_problem(const attune_problem *problem) {
    static const attune_layout absent;
    require(problem->features >> ATTUNE_FEATURE_COUNT == 0);
    require(problem->batch >= 0 && problem->rows >= 0 && problem->keys >= 0);
    require(problem->heads_total >= 1 && problem->alignment_bytes == 16);
    require(problem->window_left >= -1 && problem->window_left <= INT64_C(1) << 62);
    require(problem->window_right >= -1 && problem->window_right <= INT64_C(1) << 62);
    require(problem->softcap >= 0 && problem->dropout_rate >= 0 && problem->dropout_rate < 1);
    if (problem->op == ATTUNE_OP_FORWARD || problem->op == ATTUNE_OP_BACKWARD) {
        require(problem->heads_kv >= 1 && problem->heads_q % problem->heads_kv == 0);
        require(problem->head_dim >= 1 && problem->head_dim_v >= 1);
    }
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const attune_layout *layout = &problem->operand[operand];
        if (layout->dtype == ATTUNE_DTYPE_NONE) {
            require(memcmp(layout, &absent, sizeof absent) == 0);
        } else {
            require(attune_operand_name(problem->op, (attune_operand)operand)[0] != '\0');
            check_layout(layout);
        }
    }
}

/* Whether its tables can be read in no time. */
static bool is_small(const attune_problem *problem) {
    const int64_t limit = 1 << 12;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const attune_layout *layout = &problem->operand[operand];
        struct attune_strided bytes = attune_strided_make(layout);
        if (layout->dtype == ATTUNE_DTYPE_I32 &&
            (layout->shape[0] > limit || layout->shape[1] > limit || attune_strided_span_bytes(&bytes) > limit)) {
            return false;
        }
    }
    return problem->batch <= limit && problem->heads_q <= limit;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static struct call_text text;
    static struct attune_call call;
    static struct attune_call again;
    struct input input = {bytes, size};
    if (take_byte(&input) % 4 == 0) {
        fill_with_bytes(&input, &text);
    } else {
        fill_with_a_changed_base(&input, &text);
    }
    repair(&text);
    if (attune_call_make(text.op, &text.args, &call) != ATTUNE_OK) {
        require(attune_last_error()[0] != '\0');
        return 0;
    }
    check_problem(&call.problem);
    memset(&again, 0xff, sizeof again);
    require(attune_call_make(text.op, &text.args, &again) == ATTUNE_OK);
    require(memcmp(&call.problem, &again.problem, sizeof call.problem) == 0);

    attune_status status = attune_call_check_memory(&device, &call, (take_byte(&input) & 1) != 0);
    require(status == ATTUNE_OK || status == ATTUNE_INVALID_ARGUMENT);
    int32_t alignment = call.problem.alignment_bytes;
    require(alignment >= 1 && alignment <= 16 && (alignment & (alignment - 1)) == 0);
    if (is_small(&call.problem)) {
        values = input;
        status = attune_call_check_values(&device, NULL, &call);
        require(status == ATTUNE_OK || status == ATTUNE_INVALID_ARGUMENT);
    }
    return 0;
}
