/*
 * A problem's plan, run and timed by events of its device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_MEASURE_H
#define ATTUNE_TOOLS_MEASURE_H

#include "workload.h"

enum { MEASURE_RUNS_MAX = 1000 };

/* Seconds of one run each. */
struct spread {
    int64_t runs;
    double fastest;
    double low; /* a tenth of the runs took no longer, */
    double median;
    double high; /* and a tenth no less */
};

struct measure {
    struct workload *workload;
    attune_plan *plan;
    void *workspace;
    uint64_t workspace_bytes;
    attune_explanation explanation;
};

/* Plans, and runs once with what lies in device memory checked. Released also after an error. */
enum tool_exit measure_start(struct workload *workload, struct measure *out_measure);
void measure_release(struct measure *measure);

/* Warms up, and times repeat runs that follow each other without a gap; 0: as many as take a second, 3 or more. */
enum tool_exit measure_time(struct measure *measure, int64_t repeat, struct spread *out_spread);

#endif
