/* SPDX-License-Identifier: Apache-2.0 */
#include "point.h"

#include <stdio.h>
#include <string.h>

void point_fail(struct point *point, enum tool_exit status) {
    point->status = status;
    snprintf(point->reason, sizeof point->reason, "%s", attune_last_error());
}

static enum tool_exit check(struct point *point, struct workload *workload, attune_device *reference) {
    const struct verdict *verdict = &point->verdict;
    enum tool_exit status = verify(workload, reference, &point->verdict);
    if (status) {
        return status;
    }
    point->is_verified = true;
    if (verdict->is_right) {
        return TOOL_OK;
    }
    snprintf(point->reason, sizeof point->reason, "%s is off by %.2e of its norm, at most %.2e is right",
             verdict->result, verdict->error, verdict->limit);
    return tool_fail(TOOL_FAILED, "%s, %s, length %lld: %s", point->device, point->explanation.kernel,
                     (long long)point->length, point->reason);
}

static enum tool_exit measure(struct point *point, struct workload *workload, attune_device *reference,
                              int64_t repeat) {
    struct measure measure;
    enum tool_exit status = measure_start(workload, &measure);
    point->explanation = measure.explanation;
    if (!status) {
        status = work_count(workload, &measure.explanation, &point->cost);
    }
    if (!status && reference) {
        status = check(point, workload, reference);
    }
    if (!status) {
        status = measure_time(&measure, repeat, &point->spread);
    }
    measure_release(&measure);
    return status;
}

void point_run(struct point *point, struct workload *workload, attune_device *reference, int64_t repeat) {
    attune_device_info info = {.struct_size = sizeof info};
    point->length = workload->options.shape.keys;
    if (attune_device_get_info(workload->tensors.device, &info) == ATTUNE_OK) {
        snprintf(point->device, sizeof point->device, "%s", info.selector);
    }
    workload_set_kernel(workload, point->asked_kernel);
    point->status = measure(point, workload, reference, repeat);
    if (point->status && !point->reason[0]) {
        point_fail(point, point->status);
    }
}

const char *point_status_word(const struct point *point) {
    static const char *const words[] = {
        [TOOL_OK] = "ok",
        [TOOL_FAILED] = "failed",
        [TOOL_BAD_INPUT] = "refused",
        [TOOL_UNSUPPORTED] = "unsupported",
        [TOOL_UNAVAILABLE] = "unavailable",
    };
    return point->is_verified && !point->verdict.is_right ? "wrong" : words[point->status];
}

static bool lengths_differ(const struct point *points, int count) {
    for (int i = 1; i < count; i++) {
        if (points[i].length != points[0].length) {
            return true;
        }
    }
    return false;
}

void points_format_problem(const struct point *points, int count, char out_text[ATTUNE_REASON_MAX]) {
    const char *problem = "";
    for (int i = 0; i < count && !*problem; i++) {
        problem = points[i].explanation.problem;
    }
    const char *lengths = strstr(problem, ", Sq ");
    const char *rest = strstr(problem, ", Hq ");
    if (lengths && rest && lengths_differ(points, count)) {
        snprintf(out_text, ATTUNE_REASON_MAX, "%.*s%s", (int)(lengths - problem), problem, rest);
    } else {
        snprintf(out_text, ATTUNE_REASON_MAX, "%s", problem);
    }
}

static double per_second(const struct point *point, double amount) {
    return point->spread.median > 0 ? amount / point->spread.median : 0;
}

double point_flops_per_second(const struct point *point) {
    return per_second(point, point->cost.flops);
}

double point_bytes_per_second(const struct point *point) {
    return per_second(point, point->cost.bytes);
}

double point_ceiling_share(const struct point *point) {
    return per_second(point, point->cost.ceiling_seconds);
}
