/*
 * Two sets share a byte when a difference of two element offsets falls into a small interval. Counting the indices of
 * one set from its end makes every coefficient positive, and the question becomes: does sum(x_k * stride_k), with
 * 0 <= x_k <= last_k, reach the interval [low, high]? Strides of real layouts nest, so that a search from the largest
 * stride down has one or two candidates for each x_k.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/overlap.h"

#define AXES_MAX  (2 * ATTUNE_RANK_MAX)
#define NODES_MAX 20000

/* The sums that can be reached, axes in descending order of stride. */
struct reachable {
    int32_t count;
    int32_t nodes;
    int64_t stride[AXES_MAX];
    int64_t last[AXES_MAX];
    int64_t rest[AXES_MAX + 1]; /* the largest sum of axis k and those after it */
};

struct attune_strided attune_strided_make(const attune_layout *layout) {
    struct attune_strided bytes = {.element_bytes = (int64_t)attune_dtype_size_bytes(layout->dtype)};
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        bytes.shape[k] = layout->shape[k];
        bytes.stride_bytes[k] = layout->shape[k] > 1 ? layout->stride[k] * bytes.element_bytes : 0;
    }
    return bytes;
}

int64_t attune_strided_span_bytes(const struct attune_strided *set) {
    int64_t span = set->element_bytes;
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        if (set->shape[k] == 0) {
            return 0;
        }
        span += (set->shape[k] - 1) * set->stride_bytes[k];
    }
    return span;
}

bool attune_strided_spans_meet(const struct attune_strided *a, const struct attune_strided *b) {
    uint64_t span_a = (uint64_t)attune_strided_span_bytes(a);
    uint64_t span_b = (uint64_t)attune_strided_span_bytes(b);
    if (span_a == 0 || span_b == 0) {
        return false;
    }
    return a->begin <= b->begin ? b->begin - a->begin < span_a : a->begin - b->begin < span_b;
}

/* Axes with one stride are one axis; those that add nothing are none. */
static void add_axis(struct reachable *sums, int64_t stride, int64_t last) {
    if (stride == 0 || last == 0) {
        return;
    }
    int32_t at = 0;
    while (at < sums->count && sums->stride[at] > stride) {
        at++;
    }
    if (at < sums->count && sums->stride[at] == stride) {
        sums->last[at] += last;
        return;
    }
    for (int32_t k = sums->count; k > at; k--) {
        sums->stride[k] = sums->stride[k - 1];
        sums->last[k] = sums->last[k - 1];
    }
    sums->stride[at] = stride;
    sums->last[at] = last;
    sums->count++;
}

static enum attune_overlap search(struct reachable *sums, int32_t axis, int64_t low, int64_t high) {
    if (low <= 0 && high >= 0) {
        return ATTUNE_OVERLAP_YES;
    }
    if (high < 0 || low > sums->rest[axis]) {
        return ATTUNE_OVERLAP_NO;
    }
    int64_t stride = sums->stride[axis];
    int64_t missing = low - sums->rest[axis + 1]; /* what this axis has to give at least */
    int64_t first = missing > 0 ? (missing - 1) / stride + 1 : 0;
    int64_t last = high / stride < sums->last[axis] ? high / stride : sums->last[axis];
    enum attune_overlap answer = ATTUNE_OVERLAP_NO;
    for (int64_t x = first; x <= last && answer != ATTUNE_OVERLAP_YES; x++) {
        if (++sums->nodes > NODES_MAX) {
            return ATTUNE_OVERLAP_UNDECIDED;
        }
        enum attune_overlap found = search(sums, axis + 1, low - x * stride, high - x * stride);
        answer = found == ATTUNE_OVERLAP_NO ? answer : found;
    }
    return answer;
}

static enum attune_overlap reach(struct reachable *sums, int64_t low, int64_t high) {
    /* An axis whose stride is no more than the interval's width leaves no gap: it widens the interval. */
    while (sums->count > 0 && sums->stride[sums->count - 1] <= high - low + 1) {
        sums->count--;
        low -= sums->stride[sums->count] * sums->last[sums->count];
    }
    sums->rest[sums->count] = 0;
    for (int32_t k = sums->count - 1; k >= 0; k--) {
        sums->rest[k] = sums->rest[k + 1] + sums->stride[k] * sums->last[k];
    }
    return search(sums, 0, low, high);
}

enum attune_overlap attune_strided_overlap(const struct attune_strided *a, const struct attune_strided *b) {
    if (!attune_strided_spans_meet(a, b)) {
        return ATTUNE_OVERLAP_NO;
    }
    struct reachable sums = {0};
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        add_axis(&sums, a->stride_bytes[k], a->shape[k] - 1);
        add_axis(&sums, b->stride_bytes[k], b->shape[k] - 1);
    }
    int64_t end_of_a = attune_strided_span_bytes(a) - a->element_bytes; /* where a's indices are counted from */
    int64_t base = (int64_t)(b->begin - a->begin) - end_of_a;
    return reach(&sums, 1 - b->element_bytes - base, a->element_bytes - 1 - base);
}

/* Two indices of one set differ: take the first axis in which they do, by 1 or more without loss of generality, and let
 * those after it differ by anything. */
enum attune_overlap attune_strided_overlaps_itself(const struct attune_strided *set) {
    if (attune_strided_span_bytes(set) == 0) {
        return ATTUNE_OVERLAP_NO;
    }
    enum attune_overlap answer = ATTUNE_OVERLAP_NO;
    for (int lead = 0; lead < ATTUNE_RANK_MAX && answer != ATTUNE_OVERLAP_YES; lead++) {
        if (set->shape[lead] < 2) {
            continue;
        }
        struct reachable sums = {0};
        int64_t base = set->stride_bytes[lead];
        add_axis(&sums, set->stride_bytes[lead], set->shape[lead] - 2);
        for (int k = lead + 1; k < ATTUNE_RANK_MAX; k++) {
            add_axis(&sums, set->stride_bytes[k], 2 * (set->shape[k] - 1));
            base -= set->stride_bytes[k] * (set->shape[k] - 1);
        }
        enum attune_overlap found = reach(&sums, 1 - set->element_bytes - base, set->element_bytes - 1 - base);
        answer = found == ATTUNE_OVERLAP_NO ? answer : found;
    }
    return answer;
}
