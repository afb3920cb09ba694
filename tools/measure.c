/* SPDX-License-Identifier: Apache-2.0 */
#include "measure.h"

#include <stdlib.h>

/* Clocks and caches settle within this, on a GPU too. */
#define WARM_UP_SECONDS 0.2
#define TIMED_SECONDS   1.0

enum { RUNS_LEAST = 3 };

static enum tool_exit told(attune_status status) {
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static attune_device *device_of(const struct measure *measure) {
    return measure->workload->tensors.device;
}

static attune_status run(struct measure *measure) {
    return attune_plan_run(measure->plan, NULL, workload_args(measure->workload), measure->workspace, 0,
                           measure->workspace_bytes);
}

/* ---- The plan ---- */

static attune_status make_plan(struct measure *measure) {
    attune_device *device = device_of(measure);
    attune_status status =
        attune_plan_create(device, measure->workload->op, workload_args(measure->workload), &measure->plan);
    if (status == ATTUNE_OK) {
        status = attune_plan_get_workspace(measure->plan, &measure->workspace_bytes);
    }
    if (status == ATTUNE_OK && measure->workspace_bytes > 0) {
        status = attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, measure->workspace_bytes, &measure->workspace);
    }
    if (status == ATTUNE_OK) {
        status = attune_plan_explain(measure->plan, &measure->explanation);
    }
    return status;
}

enum tool_exit measure_start(struct workload *workload, struct measure *out_measure) {
    *out_measure = (struct measure){.workload = workload, .explanation = attune_explanation_init()};
    attune_status status = make_plan(out_measure);
    if (status == ATTUNE_OK) {
        workload_set_check(workload, true);
        status = run(out_measure);
        workload_set_check(workload, false);
    }
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(workload->tensors.device, NULL);
    }
    return told(status);
}

void measure_release(struct measure *measure) {
    if (measure->workspace) {
        attune_memory_free(device_of(measure), measure->workspace);
    }
    attune_plan_close(measure->plan);
    *measure = (struct measure){0};
}

/* ---- Time ---- */

/* Runs between events: event i is before run i. */
struct clock {
    attune_event *event[MEASURE_RUNS_MAX + 1];
    int64_t events;
};

static attune_status clock_create(attune_device *device, int64_t events, struct clock *out_clock) {
    attune_status status = ATTUNE_OK;
    out_clock->events = 0;
    while (status == ATTUNE_OK && out_clock->events < events) {
        status = attune_event_create(device, &out_clock->event[out_clock->events]);
        out_clock->events += status == ATTUNE_OK;
    }
    return status;
}

static void clock_release(struct clock *clock) {
    while (clock->events > 0) {
        attune_event_close(clock->event[--clock->events]);
    }
}

static attune_status time_between(struct measure *measure, struct clock *clock, double *out_seconds) {
    int64_t runs = clock->events - 1;
    attune_status status = attune_event_record(clock->event[0], NULL);
    for (int64_t i = 0; status == ATTUNE_OK && i < runs; i++) {
        status = run(measure);
        if (status == ATTUNE_OK) {
            status = attune_event_record(clock->event[i + 1], NULL);
        }
    }
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(device_of(measure), NULL);
    }
    for (int64_t i = 0; status == ATTUNE_OK && i < runs; i++) {
        status = attune_event_elapsed(clock->event[i], clock->event[i + 1], &out_seconds[i]);
    }
    return status;
}

/* Seconds of each of 1 to MEASURE_RUNS_MAX runs. */
static attune_status time_runs(struct measure *measure, int64_t runs, double *out_seconds) {
    struct clock clock;
    attune_status status = clock_create(device_of(measure), runs + 1, &clock);
    if (status == ATTUNE_OK) {
        status = time_between(measure, &clock, out_seconds);
    }
    clock_release(&clock);
    return status;
}

static attune_status warm_up(struct measure *measure, double *out_seconds) {
    attune_status status = ATTUNE_OK;
    for (double total = 0; status == ATTUNE_OK && total < WARM_UP_SECONDS; total += *out_seconds) {
        status = time_runs(measure, 1, out_seconds);
        total += 1e-6; /* so that it ends also where a clock stands still */
    }
    return status;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct spread spread_of(double *seconds, int64_t runs) {
    qsort(seconds, (size_t)runs, sizeof *seconds, compare);
    return (struct spread){
        .runs = runs,
        .fastest = seconds[0],
        .low = seconds[(runs - 1) / 10],
        .median = 0.5 * (seconds[(runs - 1) / 2] + seconds[runs / 2]),
        .high = seconds[runs - 1 - (runs - 1) / 10],
    };
}

static int64_t choose_runs(double seconds) {
    double runs = seconds > 0 ? TIMED_SECONDS / seconds : MEASURE_RUNS_MAX;
    if (runs >= MEASURE_RUNS_MAX) {
        return MEASURE_RUNS_MAX;
    }
    return runs > RUNS_LEAST ? (int64_t)runs : RUNS_LEAST;
}

enum tool_exit measure_time(struct measure *measure, int64_t repeat, struct spread *out_spread) {
    double seconds[MEASURE_RUNS_MAX];
    double last = 0;
    attune_status status = warm_up(measure, &last);
    int64_t runs = repeat > 0 ? repeat : choose_runs(last);
    if (status == ATTUNE_OK) {
        status = time_runs(measure, runs, seconds);
    }
    if (status == ATTUNE_OK) {
        *out_spread = spread_of(seconds, runs);
    }
    return told(status);
}
