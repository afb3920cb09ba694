/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/axis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/status_internal.h"
#include "core/tensor_rules.h"

/* ---- What each axis is ---- */

static const struct {
    const char *name;
    int64_t minimum;
    bool dense; /* as a tensor's last axis it has stride 1 */
} axis_rules[ATTUNE_AXIS_COUNT] = {
    [ATTUNE_AXIS_B] = {"B", 0, false},
    [ATTUNE_AXIS_SQ] = {"Sq", 0, false},
    [ATTUNE_AXIS_SK] = {"Sk", 0, false},
    [ATTUNE_AXIS_SNEW] = {"Snew", 0, false},
    [ATTUNE_AXIS_HQ] = {"Hq", 1, false},
    [ATTUNE_AXIS_HKV] = {"Hkv", 1, false},
    [ATTUNE_AXIS_D] = {"D", 1, true},
    [ATTUNE_AXIS_DV] = {"Dv", 1, true},
    [ATTUNE_AXIS_TOTAL_Q] = {"total_q", 0, false},
    [ATTUNE_AXIS_TOTAL_K] = {"total_k", 0, false},
    [ATTUNE_AXIS_PAGES] = {"pages", 0, false},
    [ATTUNE_AXIS_PAGE_SIZE] = {"page_size", 1, false},
    [ATTUNE_AXIS_COLUMNS] = {"columns", 0, false},
    [ATTUNE_AXIS_NQ] = {"nq", 0, false},
    [ATTUNE_AXIS_BLOCKS] = {"n", 0, false},
    [ATTUNE_AXIS_DESCALE_Q] = {"ceil(Sq / 128)", 0, false},
    [ATTUNE_AXIS_DESCALE_K] = {"ceil(Sk / 128)", 0, false},
    [ATTUNE_AXIS_POSITIONS] = {"positions", 0, false},
    [ATTUNE_AXIS_ROTARY_PAIRS] = {"rotary_dim / 2", 1, false},
    [ATTUNE_AXIS_ONE] = {"1", 1, false},
};

/* ---- What each form is ---- */

enum condition { ALWAYS, DENSE_Q, PACKED_Q, DENSE_K, PACKED_K, PAGED_K };

#define PLUS_ONE 0x80 /* the tensor has one element more than the axis */

/* One way to write a form: its axes, and the canonical axis of each. A form's pattern is chosen by condition and rank.
 */
struct pattern {
    enum attune_form form;
    enum condition condition;
    int32_t rank;
    uint8_t axis[ATTUNE_RANK_MAX];
    uint8_t canonical[ATTUNE_RANK_MAX];
};

#define AXIS(name) ATTUNE_AXIS_##name

static const struct pattern patterns[] = {
    {ATTUNE_FORM_ROWS_D, DENSE_Q, 4, {AXIS(B), AXIS(SQ), AXIS(HQ), AXIS(D)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_ROWS_D, PACKED_Q, 3, {AXIS(TOTAL_Q), AXIS(HQ), AXIS(D)}, {1, 2, 3}},
    {ATTUNE_FORM_ROWS_DV, DENSE_Q, 4, {AXIS(B), AXIS(SQ), AXIS(HQ), AXIS(DV)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_ROWS_DV, PACKED_Q, 3, {AXIS(TOTAL_Q), AXIS(HQ), AXIS(DV)}, {1, 2, 3}},
    {ATTUNE_FORM_KEYS_D, DENSE_K, 4, {AXIS(B), AXIS(SK), AXIS(HKV), AXIS(D)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_KEYS_D, PACKED_K, 3, {AXIS(TOTAL_K), AXIS(HKV), AXIS(D)}, {1, 2, 3}},
    {ATTUNE_FORM_KEYS_D, PAGED_K, 4, {AXIS(PAGES), AXIS(PAGE_SIZE), AXIS(HKV), AXIS(D)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_KEYS_DV, DENSE_K, 4, {AXIS(B), AXIS(SK), AXIS(HKV), AXIS(DV)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_KEYS_DV, PACKED_K, 3, {AXIS(TOTAL_K), AXIS(HKV), AXIS(DV)}, {1, 2, 3}},
    {ATTUNE_FORM_KEYS_DV, PAGED_K, 4, {AXIS(PAGES), AXIS(PAGE_SIZE), AXIS(HKV), AXIS(DV)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_NEW_D, ALWAYS, 4, {AXIS(B), AXIS(SNEW), AXIS(HKV), AXIS(D)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_NEW_DV, ALWAYS, 4, {AXIS(B), AXIS(SNEW), AXIS(HKV), AXIS(DV)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_LSE, DENSE_Q, 3, {AXIS(B), AXIS(HQ), AXIS(SQ)}, {0, 1, 2}},
    {ATTUNE_FORM_LSE, PACKED_Q, 2, {AXIS(HQ), AXIS(TOTAL_Q)}, {1, 2}},
    {ATTUNE_FORM_SCORES, ALWAYS, 4, {AXIS(B), AXIS(HQ), AXIS(SQ), AXIS(SK)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_BROADCAST, ALWAYS, 4, {AXIS(B), AXIS(HQ), AXIS(SQ), AXIS(SK)}, {0, 1, 2, 3}},
    {ATTUNE_FORM_BROADCAST, ALWAYS, 3, {AXIS(HQ), AXIS(SQ), AXIS(SK)}, {1, 2, 3}},
    {ATTUNE_FORM_BROADCAST, ALWAYS, 2, {AXIS(SQ), AXIS(SK)}, {2, 3}},
    {ATTUNE_FORM_BROADCAST, ALWAYS, 1, {AXIS(SK)}, {3}},
    {ATTUNE_FORM_SLOPES, ALWAYS, 1, {AXIS(HQ)}, {1}},
    {ATTUNE_FORM_SLOPES, ALWAYS, 2, {AXIS(B), AXIS(HQ)}, {0, 1}},
    {ATTUNE_FORM_HEADS, ALWAYS, 1, {AXIS(HQ)}, {0}},
    {ATTUNE_FORM_OFFSETS, ALWAYS, 1, {AXIS(B) | PLUS_ONE}, {0}},
    {ATTUNE_FORM_LENGTHS, ALWAYS, 1, {AXIS(B)}, {0}},
    {ATTUNE_FORM_TABLE, ALWAYS, 2, {AXIS(B), AXIS(COLUMNS)}, {0, 1}},
    {ATTUNE_FORM_ROW_PTR, ALWAYS, 1, {AXIS(NQ) | PLUS_ONE}, {1}},
    {ATTUNE_FORM_ROW_PTR, ALWAYS, 2, {AXIS(HQ), AXIS(NQ) | PLUS_ONE}, {0, 1}},
    {ATTUNE_FORM_COL_IDX, ALWAYS, 1, {AXIS(BLOCKS)}, {0}},
    {ATTUNE_FORM_DESCALE_Q, ALWAYS, 1, {AXIS(ONE)}, {0}},
    {ATTUNE_FORM_DESCALE_Q, ALWAYS, 2, {AXIS(B), AXIS(HKV)}, {0, 1}},
    {ATTUNE_FORM_DESCALE_Q, ALWAYS, 3, {AXIS(B), AXIS(HKV), AXIS(DESCALE_Q)}, {0, 1, 2}},
    {ATTUNE_FORM_DESCALE_K, ALWAYS, 1, {AXIS(ONE)}, {0}},
    {ATTUNE_FORM_DESCALE_K, ALWAYS, 2, {AXIS(B), AXIS(HKV)}, {0, 1}},
    {ATTUNE_FORM_DESCALE_K, ALWAYS, 3, {AXIS(B), AXIS(HKV), AXIS(DESCALE_K)}, {0, 1, 2}},
    {ATTUNE_FORM_ROTARY, ALWAYS, 2, {AXIS(POSITIONS), AXIS(ROTARY_PAIRS)}, {0, 1}},
    {ATTUNE_FORM_ONE, ALWAYS, 1, {AXIS(ONE)}, {0}},
};

static enum attune_axis pattern_axis(const struct pattern *pattern, int32_t k) {
    return (enum attune_axis)(pattern->axis[k] & ~PLUS_ONE);
}

static int64_t pattern_plus(const struct pattern *pattern, int32_t k) {
    return (pattern->axis[k] & PLUS_ONE) != 0 ? 1 : 0;
}

static bool condition_holds(const struct attune_extents *extents, enum condition condition) {
    switch (condition) {
    case ALWAYS:
        return true;
    case DENSE_Q:
        return !extents->packed_q;
    case PACKED_Q:
        return extents->packed_q;
    case DENSE_K:
        return !extents->packed_k && !extents->paged;
    case PACKED_K:
        return extents->packed_k;
    case PAGED_K:
        return extents->paged;
    }
    return false;
}

/* The next pattern of the form after `after` that the problem admits; NULL at the end. */
static const struct pattern *next_pattern(const struct attune_extents *extents, enum attune_form form,
                                          const struct pattern *after) {
    const struct pattern *end = patterns + sizeof patterns / sizeof patterns[0];
    for (const struct pattern *at = after == NULL ? patterns : after + 1; at < end; at++) {
        if (at->form == form && condition_holds(extents, at->condition)) {
            return at;
        }
    }
    return NULL;
}

static const struct pattern *find_pattern(const struct attune_extents *extents, enum attune_form form, int32_t rank) {
    const struct pattern *at = next_pattern(extents, form, NULL);
    while (at != NULL && at->rank != rank) {
        at = next_pattern(extents, form, at);
    }
    return at;
}

/* ---- Extents ---- */

void attune_extents_init(struct attune_extents *out_extents) {
    memset(out_extents, 0, sizeof *out_extents);
    for (int axis = 0; axis < ATTUNE_AXIS_COUNT; axis++) {
        out_extents->value[axis] = -1;
    }
    out_extents->value[ATTUNE_AXIS_ONE] = 1;
}

void attune_extents_set(struct attune_extents *extents, enum attune_axis axis, int64_t value, const char *source) {
    extents->value[axis] = value;
    extents->source[axis] = source;
    extents->tensor[axis] = NULL;
}

static attune_status fail_form(const struct attune_extents *extents, enum attune_form form, const char *argument,
                               const attune_tensor *tensor) {
    char text[160];
    size_t used = 0;
    for (const struct pattern *at = NULL; (at = next_pattern(extents, form, at)) != NULL;) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s(", used == 0 ? "" : " or ");
        for (int32_t k = 0; k < at->rank; k++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s", k == 0 ? "" : ", ",
                                     axis_rules[pattern_axis(at, k)].name, pattern_plus(at, k) ? " + 1" : "");
        }
        used += (size_t)snprintf(text + used, sizeof text - used, ")");
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s has rank %" PRId32 ", shape %s: must be %s", argument, tensor->rank,
                       attune_shape_format(tensor->rank, tensor->shape).text, text);
}

static attune_status fail_extent(const struct attune_extents *extents, enum attune_axis axis, int64_t extent,
                                 const char *argument, const attune_tensor *tensor) {
    const char *name = axis_rules[axis].name;
    struct attune_shape_text shape = attune_shape_format(tensor->rank, tensor->shape);
    const attune_tensor *other = extents->tensor[axis];
    if (other == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s has shape %s, so that %s = %" PRId64 ": by %s must be %" PRId64,
                           argument, shape.text, name, extent, extents->source[axis], extents->value[axis]);
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT,
                       "%s has shape %s, so that %s = %" PRId64 ": by %s of shape %s must be %" PRId64, argument,
                       shape.text, name, extent, extents->source[axis],
                       attune_shape_format(other->rank, other->shape).text, extents->value[axis]);
}

static attune_status bind_axis(struct attune_extents *extents, enum attune_axis axis, int64_t extent,
                               const char *argument, const attune_tensor *tensor) {
    if (extent < axis_rules[axis].minimum) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s has shape %s, so that %s = %" PRId64 ": must be %" PRId64 " or more", argument,
                           attune_shape_format(tensor->rank, tensor->shape).text, axis_rules[axis].name, extent,
                           axis_rules[axis].minimum);
    }
    if (extents->value[axis] < 0) {
        extents->value[axis] = extent;
        extents->source[axis] = argument;
        extents->tensor[axis] = tensor;
    }
    if (extents->value[axis] != extent) {
        return fail_extent(extents, axis, extent, argument, tensor);
    }
    return ATTUNE_OK;
}

attune_status attune_extents_bind(struct attune_extents *extents, enum attune_form form, const char *argument,
                                  const attune_tensor *tensor) {
    const struct pattern *pattern = find_pattern(extents, form, tensor->rank);
    if (pattern == NULL || (pattern_axis(pattern, 0) == ATTUNE_AXIS_ONE && tensor->shape[0] != 1)) {
        return fail_form(extents, form, argument, tensor);
    }
    for (int32_t k = 0; k < pattern->rank; k++) {
        if (form == ATTUNE_FORM_BROADCAST && tensor->shape[k] == 1) {
            continue;
        }
        attune_status status =
            bind_axis(extents, pattern_axis(pattern, k), tensor->shape[k] - pattern_plus(pattern, k), argument, tensor);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    int32_t last = pattern->rank - 1;
    if (axis_rules[pattern_axis(pattern, last)].dense && tensor->shape[last] > 1 && tensor->stride[last] != 1) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.stride[%" PRId32 "] = %" PRId64 ": must be 1, as the last axis is contiguous", argument,
                           last, tensor->stride[last]);
    }
    return ATTUNE_OK;
}

void attune_extents_lay_out(const struct attune_extents *extents, enum attune_form form, const attune_tensor *tensor,
                            attune_layout *out_layout) {
    const struct pattern *pattern = find_pattern(extents, form, tensor->rank);
    memset(out_layout, 0, sizeof *out_layout);
    out_layout->dtype = tensor->dtype;
    out_layout->memory = tensor->memory;
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        out_layout->shape[k] = 1;
    }
    for (int32_t k = 0; pattern != NULL && k < pattern->rank; k++) {
        int canonical = pattern->canonical[k];
        bool dense = axis_rules[pattern_axis(pattern, k)].dense;
        out_layout->shape[canonical] = tensor->shape[k];
        out_layout->stride[canonical] = dense ? 1 : tensor->shape[k] > 1 ? tensor->stride[k] : 0;
    }
}
