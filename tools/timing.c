/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "timing.h"

#include <stdlib.h>
#include <time.h>

#include "progress.h"

static double now_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static attune_status measure(timed_call call, void *context, int64_t runs, double *out_seconds) {
    for (int64_t run = 0; run < runs; run++) {
        progress_count(run, runs);
        double start = now_seconds();
        attune_status status = call(context, run);
        if (status != ATTUNE_OK) {
            return status;
        }
        out_seconds[run] = now_seconds() - start;
    }
    return ATTUNE_OK;
}

enum tool_exit timing_measure(timed_call call, void *context, int64_t runs, struct timing *out_timing) {
    double *seconds = malloc((size_t)runs * sizeof *seconds);
    if (!seconds) {
        return tool_fail_memory();
    }
    attune_status status = measure(call, context, runs, seconds);
    if (status == ATTUNE_OK) {
        qsort(seconds, (size_t)runs, sizeof *seconds, compare);
        double middle = seconds[runs / 2];
        out_timing->fastest_seconds = seconds[0];
        out_timing->median_seconds = runs % 2 ? middle : 0.5 * (middle + seconds[runs / 2 - 1]);
        out_timing->runs = runs;
    }
    free(seconds);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}
