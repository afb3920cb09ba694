/*
 * Several streams and several host threads at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>

#include "check.h"
#include "judge.h"

#define LANES_MAX 4
#define TURNS     5

/* A problem on a stream of its own. */
struct lane {
    struct conform_solved solved; /* run.stream is the lane's */
    attune_stream *stream;
    struct conform_outcome outcome;
    bool right;
};

static struct conform_options lane_options(const struct conform_context *context, int n) {
    struct conform_options options = context->test->options;
    options.rows += 5 * n;
    options.keys += 9 * n;
    options.causal = n % 2;
    options.splits = n;
    return options;
}

static bool lane_begin(struct conform_context *context, int n, struct lane *lane) {
    struct conform_options options = lane_options(context, n);
    struct conform_subject *subject = context->subject;
    lane->solved.problem = conform_problem_make(&options, context->seed + (uint64_t)n);
    attune_status status = conform_oracle_run(subject->cpu, lane->solved.problem, &lane->solved.oracle);
    if (!conform_outcome_expect_ok(context->outcome, "the reference", status) ||
        !conform_outcome_expect_ok(context->outcome, "attune_stream_create",
                                   attune_stream_create(subject->device, &lane->stream)) ||
        !conform_run_begin(subject, lane->solved.problem, &lane->solved.run, context->outcome) ||
        !conform_outcome_expect_ok(context->outcome, "attune_stream_synchronize",
                                   attune_stream_synchronize(subject->device, subject->stream))) {
        return false;
    }
    lane->solved.run.stream = lane->stream;
    return conform_run_explain(&lane->solved.run, context->outcome);
}

static void lane_end(struct lane *lane) {
    conform_solved_free(&lane->solved);
    attune_stream_close(lane->stream);
}

static bool lane_judge(struct lane *lane, struct conform_outcome *outcome) {
    return conform_run_check_guard(&lane->solved.run, outcome) &&
           conform_judge_run(&lane->solved.oracle, &lane->solved.run, outcome);
}

static bool begin_all(struct conform_context *context, struct lane *lanes, int count) {
    bool right = true;
    for (int n = 0; right && n < count; n++) {
        right = lane_begin(context, n, &lanes[n]);
    }
    return right;
}

/* ---- Streams: launched in turn, waited for at the end ---- */

/* The second stream's problem begins when the first one's is done, by an event. */
static bool launch_in_turn(struct conform_context *context, struct lane *lanes, attune_event *event) {
    struct conform_outcome *outcome = context->outcome;
    bool right = true;
    for (int turn = 0; right && turn < TURNS; turn++) {
        right =
            conform_run_launch(&lanes[0].solved.run, outcome) &&
            conform_outcome_expect_ok(outcome, "attune_event_record", attune_event_record(event, lanes[0].stream)) &&
            conform_outcome_expect_ok(outcome, "attune_event_wait", attune_event_wait(event, lanes[1].stream)) &&
            conform_run_launch(&lanes[1].solved.run, outcome);
    }
    return right;
}

void conform_check_streams(struct conform_context *context) {
    struct lane lanes[2] = {0};
    attune_event *event = NULL;
    if (begin_all(context, lanes, 2) &&
        conform_outcome_expect_ok(context->outcome, "attune_event_create",
                                  attune_event_create(context->subject->device, &event)) &&
        launch_in_turn(context, lanes, event) && conform_run_fetch(&lanes[1].solved.run, context->outcome) &&
        conform_run_fetch(&lanes[0].solved.run, context->outcome)) {
        (void)(lane_judge(&lanes[0], context->outcome) && lane_judge(&lanes[1], context->outcome));
    }
    for (int n = 0; n < 2; n++) {
        lane_end(&lanes[n]);
    }
    attune_event_close(event);
}

/* ---- Threads ---- */

static void *run_lane(void *argument) {
    struct lane *lane = argument;
    lane->right = true;
    for (int turn = 0; lane->right && turn < TURNS; turn++) {
        lane->right = conform_run_upload(&lane->solved.run, &lane->outcome) &&
                      conform_run_launch(&lane->solved.run, &lane->outcome) &&
                      conform_run_fetch(&lane->solved.run, &lane->outcome);
    }
    return NULL;
}

void conform_check_threads(struct conform_context *context) {
    struct lane lanes[LANES_MAX] = {0};
    pthread_t threads[LANES_MAX];
    int started = 0;
    bool right = begin_all(context, lanes, LANES_MAX);
    while (right && started < LANES_MAX) {
        if (pthread_create(&threads[started], NULL, run_lane, &lanes[started]) != 0) {
            right = conform_outcome_fail(context->outcome, "a thread could not be started");
        } else {
            started++;
        }
    }
    for (int n = 0; n < started; n++) {
        pthread_join(threads[n], NULL);
    }
    for (int n = 0; right && n < LANES_MAX; n++) {
        right = lanes[n].right ? lane_judge(&lanes[n], context->outcome)
                               : conform_outcome_fail(context->outcome, "thread %d: %s", n, lanes[n].outcome.reason);
    }
    for (int n = 0; n < LANES_MAX; n++) {
        lane_end(&lanes[n]);
    }
}
