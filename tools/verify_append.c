/*
 * An append again, by the reference: it writes the same rows, into a cache that is marked so that it shows which.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>
#include <string.h>

#include "closeness.h"
#include "convert.h"
#include "mirror.h"
#include "tests/conformance/number.h"
#include "verify.h"

enum { MARK = 0xA5 };

static const struct {
    const char *name;
    size_t member; /* of attune_kvcache_append_args */
} results[] = {
    {"k_cache", offsetof(attune_kvcache_append_args, k_cache)},
    {"v_cache", offsetof(attune_kvcache_append_args, v_cache)},
    {"q_out", offsetof(attune_kvcache_append_args, q_out)},
};

enum { RESULT_COUNT = sizeof results / sizeof results[0] };

static attune_tensor *tensor_of(attune_kvcache_append_args *args, int result) {
    return (attune_tensor *)((char *)args + results[result].member);
}

static void mark(const attune_tensor *tensor) {
    if (tensor->dtype != ATTUNE_DTYPE_NONE) {
        memset(tensor->data, MARK, (size_t)tensor_count(tensor) * attune_dtype_size_bytes(tensor->dtype));
    }
}

static bool is_marked(const unsigned char *element, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (element[i] != MARK) {
            return false;
        }
    }
    return true;
}

/* Elements that the reference has written. */
static void compare(const attune_tensor *got, const attune_tensor *exact, struct closeness *closeness) {
    size_t bytes = attune_dtype_size_bytes(exact->dtype);
    const unsigned char *x = got->data;
    const unsigned char *g = exact->data;
    for (int64_t i = 0; exact->dtype != ATTUNE_DTYPE_NONE && i < tensor_count(exact); i++, x += bytes, g += bytes) {
        float values[2];
        if (is_marked(g, bytes)) {
            continue;
        }
        floats_widen(x, exact->dtype, 1, &values[0]);
        floats_widen(g, exact->dtype, 1, &values[1]);
        closeness_add(closeness, &values[0], &(double){values[1]}, 1);
    }
}

static void judge(attune_kvcache_append_args *got, attune_kvcache_append_args *exact, struct verdict *out_verdict) {
    *out_verdict = (struct verdict){.is_right = true, .limit = 1, .result = "nothing"};
    for (int result = 0; result < RESULT_COUNT; result++) {
        const attune_tensor *tensor = tensor_of(exact, result);
        struct closeness closeness = {0};
        compare(tensor_of(got, result), tensor, &closeness);
        if (closeness.count > 0) {
            verdict_add(out_verdict, results[result].name, closeness_norm(&closeness),
                        conform_number_norm_limit(tensor->dtype));
        }
    }
}

enum tool_exit verify_append(struct workload *workload, attune_device *reference, struct verdict *out_verdict) {
    struct host_memory memory = {0};
    attune_kvcache_append_args got, exact;
    enum tool_exit status = mirror_append(&workload->tensors, &workload->append, &memory, &got);
    if (!status) {
        status = mirror_append(&workload->tensors, &workload->append, &memory, &exact);
    }
    if (!status) {
        for (int result = 0; result < RESULT_COUNT; result++) {
            mark(tensor_of(&exact, result));
        }
        exact.kernel = "reference_append";
        attune_status computed = attune_kvcache_append(reference, NULL, &exact);
        status = computed == ATTUNE_OK ? TOOL_OK : tool_fail_library(computed);
    }
    if (!status) {
        judge(&got, &exact, out_verdict);
    }
    host_memory_release(&memory);
    return status;
}
