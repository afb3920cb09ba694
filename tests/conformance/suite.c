/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "random.h"

attune_status conform_suite_open(const char *selector, uint64_t seed, struct conform_suite *out_suite) {
    memset(out_suite, 0, sizeof *out_suite);
    out_suite->seed = seed;
    attune_status status = conform_subject_open(selector, &out_suite->subject);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct conform_list *list = &out_suite->list;
    conform_list_matrix(list);
    conform_list_pairs(list);
    conform_list_edges(list);
    conform_list_not_finite(list);
    conform_list_faults(list);
    conform_list_kernels(list, &out_suite->subject);
    conform_list_operations(list, &out_suite->subject);
    conform_list_running(list);
    conform_list_random(list, seed);
    uint64_t results = (uint64_t)(list->count + out_suite->subject.kernel_count);
    out_suite->results = conform_alloc(results, sizeof *out_suite->results);
    return ATTUNE_OK;
}

void conform_suite_close(struct conform_suite *suite) {
    free(suite->results);
    conform_list_free(&suite->list);
    conform_subject_close(&suite->subject);
}

bool conform_suite_selects(const char *glob, const char *name) {
    return !glob || fnmatch(glob, name, 0) == 0;
}

static struct conform_result *add_result(struct conform_suite *suite, const char *name) {
    struct conform_result *result = &suite->results[suite->result_count++];
    snprintf(result->name, sizeof result->name, "%s", name);
    return result;
}

static void finish(struct conform_suite *suite, struct conform_result *result,
                   const struct conform_observer *observer) {
    suite->counts[result->outcome.status]++;
    observer->finished(observer->context, result);
}

static double now_seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run_case(struct conform_suite *suite, const struct conform_case *test,
                     const struct conform_observer *observer) {
    struct conform_result *result = add_result(suite, test->name);
    struct conform_context context = {&suite->subject, test, 0, &result->outcome};
    context.seed = conform_random_mix(suite->seed ^ conform_random_hash_text(test->name));
    double start = now_seconds();
    test->check(&context);
    result->seconds = now_seconds() - start;
    finish(suite, result, observer);
}

/* A row that the device can run and no case hit has not been judged; one that it cannot run is told. */
static void judge_rows(struct conform_suite *suite, const struct conform_observer *observer) {
    for (int32_t n = 0; n < suite->subject.kernel_count; n++) {
        const attune_kernel_info *row = &suite->subject.kernels[n];
        char name[CONFORM_NAME_MAX];
        snprintf(name, sizeof name, "rows/%s", row->name);
        struct conform_result *result = add_result(suite, name);
        if (!row->runnable) {
            conform_outcome_skip(&result->outcome, "not run: %s", row->reason);
        } else if (suite->subject.kernel_hits[n] == 0) {
            conform_outcome_fail(&result->outcome, "no case hit this row");
        }
        finish(suite, result, observer);
    }
}

void conform_suite_run(struct conform_suite *suite, const char *glob, const struct conform_observer *observer) {
    int64_t total = 0;
    int64_t done = 0;
    for (int64_t n = 0; n < suite->list.count; n++) {
        total += conform_suite_selects(glob, suite->list.cases[n].name);
    }
    for (int64_t n = 0; n < suite->list.count; n++) {
        const struct conform_case *test = &suite->list.cases[n];
        if (conform_suite_selects(glob, test->name)) {
            observer->progress(observer->context, done++, total);
            run_case(suite, test, observer);
        }
    }
    observer->progress(observer->context, done, total);
    if (!glob) {
        judge_rows(suite, observer);
    }
}

bool conform_suite_passed(const struct conform_suite *suite) {
    return suite->counts[CONFORM_FAILED] == 0 && suite->counts[CONFORM_PASSED] > 0;
}
