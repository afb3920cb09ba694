/*
 * How long the runs of a pass took.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_TIMING_H
#define ATTUNE_TOOLS_TIMING_H

#include <stdint.h>

#include "failure.h"

struct timing {
    double fastest_seconds;
    double median_seconds;
    int64_t runs; /* 0: the pass was not run */
};

/* One call of the library and the wait for it. */
typedef attune_status (*timed_call)(void *context, int64_t run);

/* Makes the call runs times, 1 or more, and tells progress. */
enum tool_exit timing_measure(timed_call call, void *context, int64_t runs, struct timing *out_timing);

#endif
