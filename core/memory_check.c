/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/memory_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/operand.h"
#include "core/overlap.h"
#include "core/status_internal.h"
#include "core/tensor_rules.h"

#define ALIGNMENT_MAX 16
#define PLACES_MAX    (ATTUNE_OPERAND_COUNT + 2 * ATTUNE_MERGE_PARTS_MAX)

/* One tensor of the call in memory. Only those with elements and data are placed. */
struct place {
    attune_operand operand;
    int32_t part;   /* merge: which of the parts; -1: not a part */
    bool writes;    /* the call writes it */
    uint64_t space; /* of attune_memory_range, as is begin */
    struct attune_strided bytes;
};

struct places {
    const attune_problem *problem;
    int32_t count;
    struct place place[PLACES_MAX];
};

struct place_name {
    char text[32];
};

static struct place_name name_of(const struct places *places, const struct place *place) {
    struct place_name name;
    const char *argument = attune_operand_name(places->problem->op, place->operand);
    if (place->part < 0) {
        snprintf(name.text, sizeof name.text, "%s", argument);
    } else {
        snprintf(name.text, sizeof name.text, "%s[%" PRId32 "]", argument, place->part);
    }
    return name;
}

/* ---- Where each tensor lies ---- */

static attune_status check_range(const struct places *places, const struct place *place, uint64_t byte_offset,
                                 const attune_memory_range *range) {
    uint64_t element_bytes = (uint64_t)place->bytes.element_bytes;
    uint64_t end = byte_offset + (uint64_t)attune_strided_span_bytes(&place->bytes); /* both at most 2^60 */
    if (range->offset > UINT64_MAX - end) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s ends %" PRIu64 " bytes after its data: must lie in memory, and none is there",
                           name_of(places, place).text, end);
    }
    if (end > range->size_bytes) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s ends %" PRIu64
                           " bytes after its data: must end within its allocation, which ends after %" PRIu64,
                           name_of(places, place).text, end, range->size_bytes);
    }
    if (range->offset % element_bytes != 0) { /* byte_offset is a multiple of it */
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.data is at offset %" PRIu64 " of its memory: must be aligned to its element's %" PRIu64
                           " bytes",
                           name_of(places, place).text, range->offset, element_bytes);
    }
    return ATTUNE_OK;
}

static attune_status add_place(attune_device *device, struct places *places, attune_operand operand, int32_t part,
                               attune_pointer pointer, bool allow_null) {
    struct place *place = &places->place[places->count];
    place->operand = operand;
    place->part = part;
    place->bytes = attune_strided_make(&places->problem->operand[operand]);
    if (attune_strided_span_bytes(&place->bytes) == 0 || (pointer.data == NULL && allow_null)) {
        return ATTUNE_OK;
    }
    if (pointer.data == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.data = NULL: must point to memory where there are elements",
                           name_of(places, place).text);
    }
    attune_memory_range range = {0};
    attune_status status = device->backend->memory_range(device->handle, pointer.memory, pointer.data, &range);
    if (status != ATTUNE_OK) {
        return attune_fail(status, "%s.data: %s", name_of(places, place).text, attune_last_error());
    }
    place->writes = attune_problem_writes(places->problem, operand);
    place->space = range.space;
    place->bytes.begin = range.offset + pointer.byte_offset;
    places->count++;
    return check_range(places, place, pointer.byte_offset, &range);
}

static attune_status find_places(attune_device *device, const struct attune_call *call, bool allow_null,
                                 struct places *out_places) {
    out_places->problem = &call->problem;
    out_places->count = 0;
    attune_status status = ATTUNE_OK;
    for (int k = 0; status == ATTUNE_OK && k < ATTUNE_OPERAND_COUNT; k++) {
        attune_operand operand = (attune_operand)k;
        bool is_part = operand == ATTUNE_OPERAND_PART_O || operand == ATTUNE_OPERAND_PART_LSE;
        if (!is_part && call->problem.operand[k].dtype != ATTUNE_DTYPE_NONE) {
            status = add_place(device, out_places, operand, -1, call->bindings.operand[k], allow_null);
        }
    }
    for (int32_t n = 0; status == ATTUNE_OK && n < call->problem.parts; n++) {
        status = add_place(device, out_places, ATTUNE_OPERAND_PART_O, n, call->part_o[n], allow_null);
        if (status == ATTUNE_OK) {
            status = add_place(device, out_places, ATTUNE_OPERAND_PART_LSE, n, call->part_lse[n], allow_null);
        }
    }
    return status;
}

/* ---- Alignment ---- */

/* What a tensor allows alignment_bytes to be. One that is smaller than that is held to its own size. */
static int32_t alignment_of(const struct attune_strided *bytes) {
    uint64_t alignment = 1;
    while (alignment < ALIGNMENT_MAX && bytes->begin % (2 * alignment) == 0) {
        alignment *= 2;
    }
    bool is_smaller = (uint64_t)attune_strided_span_bytes(bytes) < 2 * alignment;
    return is_smaller ? ALIGNMENT_MAX : (int32_t)alignment;
}

static int32_t find_alignment(const struct places *places) {
    int32_t least = ALIGNMENT_MAX;
    for (int32_t n = 0; n < places->count; n++) {
        int32_t alignment = alignment_of(&places->place[n].bytes);
        least = alignment < least ? alignment : least;
    }
    return least;
}

/* ---- Overlap ---- */

/* An output that may be an input, element for element. */
static const struct {
    attune_op op;
    attune_operand output;
    attune_operand input;
} in_place[] = {
    {ATTUNE_OP_FORWARD, ATTUNE_OPERAND_O, ATTUNE_OPERAND_Q},
    {ATTUNE_OP_APPEND, ATTUNE_OPERAND_Q_OUT, ATTUNE_OPERAND_Q},
    {ATTUNE_OP_MERGE, ATTUNE_OPERAND_O, ATTUNE_OPERAND_PART_O},
    {ATTUNE_OP_MERGE, ATTUNE_OPERAND_LSE, ATTUNE_OPERAND_PART_LSE},
};

static bool is_in_place(const struct places *places, const struct place *output, const struct place *input) {
    const attune_layout *a = &places->problem->operand[output->operand];
    const attune_layout *b = &places->problem->operand[input->operand];
    bool known = false;
    for (size_t k = 0; k < sizeof in_place / sizeof in_place[0]; k++) {
        known = known || (in_place[k].op == places->problem->op && in_place[k].output == output->operand &&
                          in_place[k].input == input->operand);
    }
    return known && input->part <= 0 && output->space == input->space && output->bytes.begin == input->bytes.begin &&
           a->dtype == b->dtype && memcmp(a->shape, b->shape, sizeof a->shape) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

static attune_status fail_overlap(const struct places *places, const struct place *output, const struct place *other) {
    const struct attune_strided *a = &output->bytes;
    const struct attune_strided *b = &other->bytes;
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "%s at bytes %" PRIu64 " to %" PRIu64 " and %s at %" PRIu64 " to %" PRIu64
                       " of their memory share an element: an output must share none with another tensor",
                       name_of(places, output).text, a->begin, a->begin + (uint64_t)attune_strided_span_bytes(a) - 1,
                       name_of(places, other).text, b->begin, b->begin + (uint64_t)attune_strided_span_bytes(b) - 1);
}

static attune_status check_pair(const struct places *places, const struct place *a, const struct place *b) {
    const struct place *output = a->writes ? a : b;
    const struct place *other = a->writes ? b : a;
    if (!output->writes || a->space != b->space || is_in_place(places, output, other) ||
        attune_strided_overlap(&a->bytes, &b->bytes) != ATTUNE_OVERLAP_YES) {
        return ATTUNE_OK;
    }
    return fail_overlap(places, output, other);
}

static attune_status check_overlaps(const struct places *places) {
    for (int32_t n = 0; n < places->count; n++) {
        for (int32_t other = 0; other < n; other++) {
            attune_status status = check_pair(places, &places->place[other], &places->place[n]);
            if (status != ATTUNE_OK) {
                return status;
            }
        }
    }
    return ATTUNE_OK;
}

/* A question of strides alone: asked before the data is there, too. */
static attune_status check_self_overlaps(const attune_problem *problem) {
    for (int k = 0; k < ATTUNE_OPERAND_COUNT; k++) {
        const attune_layout *layout = &problem->operand[k];
        if (layout->dtype == ATTUNE_DTYPE_NONE || !attune_problem_writes(problem, (attune_operand)k)) {
            continue;
        }
        struct attune_strided bytes = attune_strided_make(layout);
        if (attune_strided_overlaps_itself(&bytes) == ATTUNE_OVERLAP_YES) {
            return attune_fail(
                ATTUNE_INVALID_ARGUMENT,
                "%s of shape %s and stride %s (in canonical axes) has an element twice: an output must have each once",
                attune_operand_name(problem->op, (attune_operand)k),
                attune_shape_format(ATTUNE_RANK_MAX, layout->shape).text,
                attune_shape_format(ATTUNE_RANK_MAX, layout->stride).text);
        }
    }
    return ATTUNE_OK;
}

static bool o_is_q(const struct places *places) {
    const struct place *o = NULL;
    const struct place *q = NULL;
    for (int32_t n = 0; n < places->count; n++) {
        o = places->place[n].operand == ATTUNE_OPERAND_O ? &places->place[n] : o;
        q = places->place[n].operand == ATTUNE_OPERAND_Q ? &places->place[n] : q;
    }
    return o != NULL && q != NULL && places->problem->op == ATTUNE_OP_FORWARD && is_in_place(places, o, q);
}

attune_status attune_call_check_memory(attune_device *device, struct attune_call *call, bool allow_null) {
    struct places places;
    attune_status status = check_self_overlaps(&call->problem);
    if (status == ATTUNE_OK) {
        status = find_places(device, call, allow_null, &places);
    }
    if (status == ATTUNE_OK) {
        status = check_overlaps(&places);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    call->problem.alignment_bytes = find_alignment(&places);
    call->problem.features &= ~ATTUNE_FEATURE_O_IS_Q;
    if (o_is_q(&places)) {
        call->problem.features |= ATTUNE_FEATURE_O_IS_Q;
    }
    return ATTUNE_OK;
}
