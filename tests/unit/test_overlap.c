/*
 * Overlap of strided sets, against marking every byte.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define BYTES_MAX 8192

/* ---- Brute force ---- */

/* How often the set touches each byte. */
static void mark(const struct attune_strided *set, uint8_t touched[BYTES_MAX]) {
    memset(touched, 0, BYTES_MAX);
    for (int64_t a = 0; a < set->shape[0]; a++) {
        for (int64_t b = 0; b < set->shape[1]; b++) {
            for (int64_t c = 0; c < set->shape[2]; c++) {
                for (int64_t d = 0; d < set->shape[3]; d++) {
                    const int64_t *stride = set->stride_bytes;
                    uint64_t at =
                        set->begin + (uint64_t)(a * stride[0] + b * stride[1] + c * stride[2] + d * stride[3]);
                    for (int64_t byte = 0; byte < set->element_bytes; byte++) {
                        assert_true(at + (uint64_t)byte < BYTES_MAX);
                        touched[at + (uint64_t)byte]++;
                    }
                }
            }
        }
    }
}

static enum attune_overlap mark_both(const struct attune_strided *a, const struct attune_strided *b) {
    static uint8_t by_a[BYTES_MAX];
    static uint8_t by_b[BYTES_MAX];
    mark(a, by_a);
    mark(b, by_b);
    for (int byte = 0; byte < BYTES_MAX; byte++) {
        if (by_a[byte] > 0 && by_b[byte] > 0) {
            return ATTUNE_OVERLAP_YES;
        }
    }
    return ATTUNE_OVERLAP_NO;
}

static enum attune_overlap mark_itself(const struct attune_strided *set) {
    static uint8_t touched[BYTES_MAX];
    mark(set, touched);
    for (int byte = 0; byte < BYTES_MAX; byte++) {
        if (touched[byte] > 1) {
            return ATTUNE_OVERLAP_YES;
        }
    }
    return ATTUNE_OVERLAP_NO;
}

/* ---- Random sets ---- */

static uint64_t state_of_random = 20240607;

/* Marsaglia, Xorshift RNGs (2003). */
static int64_t draw(int64_t end) {
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (int64_t)(state_of_random % (uint64_t)end);
}

static struct attune_strided draw_set(void) {
    struct attune_strided set = {0};
    set.element_bytes = INT64_C(1) << draw(4);
    set.begin = (uint64_t)(draw(64) * set.element_bytes);
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        set.shape[k] = draw(40) == 0 ? 0 : 1 + draw(5);
        set.stride_bytes[k] = draw(60) * set.element_bytes;
    }
    return set;
}

/* Strides that nest, in any order, with a gap now and then: what layouts of tensors look like. */
static struct attune_strided draw_nested_set(int64_t gap) {
    struct attune_strided set = {0};
    set.element_bytes = INT64_C(1) << draw(3);
    set.begin = (uint64_t)(draw(40) * set.element_bytes);
    int64_t stride = set.element_bytes;
    int first = (int)draw(ATTUNE_RANK_MAX);
    for (int n = 0; n < ATTUNE_RANK_MAX; n++) {
        int k = (first + n) % ATTUNE_RANK_MAX;
        set.shape[k] = 1 + draw(4);
        set.stride_bytes[k] = stride;
        stride *= set.shape[k] + (draw(2) == 0 ? draw(gap) : 0);
    }
    return set;
}

/* ---- Tests ---- */

static void pairs_agree_with_marking(void **state) {
    (void)state;
    int yes = 0;
    for (int n = 0; n < 6000; n++) {
        struct attune_strided a = n % 2 == 0 ? draw_set() : draw_nested_set(4);
        struct attune_strided b = n % 2 == 0 ? draw_set() : draw_nested_set(4);
        enum attune_overlap expected = mark_both(&a, &b);
        assert_int_equal(attune_strided_overlap(&a, &b), expected);
        assert_int_equal(attune_strided_overlap(&b, &a), expected);
        yes += expected == ATTUNE_OVERLAP_YES;
    }
    assert_in_range(yes, 1000, 5000);
}

/* Views of one grid: they mesh, and share a byte only where a slice does. */
static void slices_of_a_grid_agree_with_marking(void **state) {
    (void)state;
    int yes = 0;
    for (int n = 0; n < 4000; n++) {
        struct attune_strided view[2] = {draw_nested_set(3), {0}};
        view[1] = view[0];
        view[0].begin = 0;
        for (int v = 0; v < 2; v++) {
            for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
                int64_t first = draw(view[v].shape[k] + 1);
                view[v].begin = v == 0 && k == 0 ? 0 : view[v].begin;
                view[v].begin += (uint64_t)(first * view[v].stride_bytes[k]);
                view[v].shape[k] -= first < view[v].shape[k] ? first : 0;
                if (draw(3) == 0) {
                    view[v].shape[k] = (view[v].shape[k] + 1) / 2;
                    view[v].stride_bytes[k] *= 2;
                }
            }
        }
        enum attune_overlap expected = mark_both(&view[0], &view[1]);
        assert_int_equal(attune_strided_overlap(&view[0], &view[1]), expected);
        yes += expected == ATTUNE_OVERLAP_YES;
    }
    assert_in_range(yes, 400, 3600);
}

static void sets_with_themselves_agree_with_marking(void **state) {
    (void)state;
    int yes = 0;
    for (int n = 0; n < 6000; n++) {
        struct attune_strided set = n % 3 == 0 ? draw_set() : draw_nested_set(n % 3 == 1 ? 1 : 4);
        if (n % 3 == 1 && draw(2) == 0) {
            set.stride_bytes[draw(ATTUNE_RANK_MAX)] -= set.element_bytes;
        }
        enum attune_overlap expected = mark_itself(&set);
        assert_int_equal(attune_strided_overlaps_itself(&set), expected);
        yes += expected == ATTUNE_OVERLAP_YES;
    }
    assert_in_range(yes, 1000, 5000);
}

static struct attune_strided make(uint64_t begin, int64_t element_bytes, const int64_t shape[4],
                                  const int64_t stride[4]) {
    struct attune_strided set = {.begin = begin, .element_bytes = element_bytes};
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        set.shape[k] = shape[k];
        set.stride_bytes[k] = stride[k] * element_bytes;
    }
    return set;
}

/* Sizes that no marking could reach; each is decided. */
static void large_interleaved_views_are_told_apart(void **state) {
    (void)state;
    /* Packed qkv: (B, S, 3, H, D) of f16 with B 64, S 32768, H 32, D 128. */
    static const int64_t shape[4] = {64, 32768, 32, 128};
    static const int64_t packed[4] = {INT64_C(32768) * 3 * 4096, 3 * 4096, 128, 1};
    struct attune_strided q = make(4096, 2, shape, packed);
    struct attune_strided k = make(4096 + 4096 * 2, 2, shape, packed);
    struct attune_strided late = make(4096 + 4095 * 2, 2, shape, packed);
    assert_int_equal(attune_strided_overlap(&q, &k), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlap(&q, &late), ATTUNE_OVERLAP_YES);
    assert_int_equal(attune_strided_overlap(&late, &k), ATTUNE_OVERLAP_YES);
    assert_int_equal(attune_strided_overlaps_itself(&q), ATTUNE_OVERLAP_NO);

    /* One pool (pages, 2, page_size, Hkv, D), and one with K and V alternating by head. */
    static const int64_t pool[4] = {1000000, 16, 8, 128};
    static const int64_t by_page[4] = {2 * 16 * 1024, 1024, 128, 1};
    static const int64_t by_head[4] = {2 * 16 * 1024, 2 * 1024, 2 * 128, 1};
    struct attune_strided first = make(0, 1, pool, by_page);
    struct attune_strided second = make(16 * 1024, 1, pool, by_page);
    struct attune_strided odd = make(128, 1, pool, by_head);
    struct attune_strided even = make(0, 1, pool, by_head);
    assert_int_equal(attune_strided_overlap(&first, &second), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlap(&even, &odd), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlap(&first, &odd), ATTUNE_OVERLAP_YES);

    /* BHSD beside BSHD of the same buffer. */
    static const int64_t transposed[4] = {INT64_C(32768) * 4096, 128, 32768 * 128, 1};
    struct attune_strided bhsd = make(0, 2, shape, transposed);
    assert_int_equal(attune_strided_overlaps_itself(&bhsd), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlap(&bhsd, &q), ATTUNE_OVERLAP_YES);
}

static void elements_of_two_sizes_share_bytes(void **state) {
    (void)state;
    static const int64_t shape[4] = {1, 1, 1, 100};
    static const int64_t every_fourth[4] = {0, 0, 0, 4};
    struct attune_strided halves = make(2, 2, shape, every_fourth);                  /* bytes 2 and 3 of every eight */
    struct attune_strided words = make(4, 4, shape, (const int64_t[4]){0, 0, 0, 2}); /* bytes 4 to 7 */
    assert_int_equal(attune_strided_overlap(&halves, &words), ATTUNE_OVERLAP_NO);
    words.begin = 0;
    assert_int_equal(attune_strided_overlap(&halves, &words), ATTUNE_OVERLAP_YES);
}

static void the_largest_spans_do_not_overflow(void **state) {
    (void)state;
    static const int64_t shape[4] = {2, 2, 2, 2};
    int64_t far = ATTUNE_SPAN_BYTES_MAX / 8;
    const int64_t stride[4] = {far, far - 8, far + 8, 32};
    struct attune_strided a = make(UINT64_MAX - (uint64_t)ATTUNE_SPAN_BYTES_MAX, 8, shape, stride);
    struct attune_strided b = make(a.begin + (uint64_t)far, 8, shape, stride);
    for (int k = 0; k < ATTUNE_RANK_MAX; k++) {
        a.stride_bytes[k] = stride[k];
        b.stride_bytes[k] = stride[k];
    }
    assert_int_equal(attune_strided_overlap(&a, &b), ATTUNE_OVERLAP_YES);
    b.begin += 4;
    assert_int_equal(attune_strided_overlap(&a, &b), ATTUNE_OVERLAP_YES);
    b.begin += UINT64_C(1) << 20;
    assert_int_equal(attune_strided_overlap(&a, &b), ATTUNE_OVERLAP_NO);
    b.begin = 0;
    assert_int_equal(attune_strided_overlap(&a, &b), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlaps_itself(&a), ATTUNE_OVERLAP_NO);
}

/* Eight strides without order among them are a knapsack: the search stops, and says so. */
static void a_search_that_is_too_long_is_given_up(void **state) {
    (void)state;
    static const int64_t shape[4] = {3001, 3011, 3019, 3023};
    struct attune_strided a = make(0, 1, shape, (const int64_t[4]){1000003 * 2, 1000033 * 2, 1000037 * 2, 1000039 * 2});
    struct attune_strided b = make(1, 1, shape, (const int64_t[4]){1000081 * 2, 1000099 * 2, 1000117 * 2, 1000121 * 2});
    assert_int_equal(attune_strided_overlap(&a, &b), ATTUNE_OVERLAP_UNDECIDED); /* in truth NO: one is odd */
}

static void sets_without_elements_share_nothing(void **state) {
    (void)state;
    struct attune_strided some = make(0, 4, (const int64_t[4]){1, 1, 1, 8}, (const int64_t[4]){0, 0, 0, 1});
    struct attune_strided none = make(0, 4, (const int64_t[4]){4, 0, 4, 8}, (const int64_t[4]){0, 0, 0, 0});
    attune_layout absent = {0};
    struct attune_strided nothing = attune_strided_make(&absent);
    assert_int_equal(attune_strided_overlap(&some, &none), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_overlaps_itself(&none), ATTUNE_OVERLAP_NO);
    assert_int_equal(attune_strided_span_bytes(&none), 0);
    assert_int_equal(attune_strided_span_bytes(&nothing), 0);
    assert_int_equal(attune_strided_span_bytes(&some), 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_agree_with_marking),
        cmocka_unit_test(slices_of_a_grid_agree_with_marking),
        cmocka_unit_test(sets_with_themselves_agree_with_marking),
        cmocka_unit_test(large_interleaved_views_are_told_apart),
        cmocka_unit_test(elements_of_two_sizes_share_bytes),
        cmocka_unit_test(the_largest_spans_do_not_overflow),
        cmocka_unit_test(a_search_that_is_too_long_is_given_up),
        cmocka_unit_test(sets_without_elements_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
