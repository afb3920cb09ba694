/*
 * The whole suite on one backend.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_SUITE_H
#define CONFORM_SUITE_H

#include "case.h"

struct conform_result {
    char name[CONFORM_NAME_MAX];
    struct conform_outcome outcome;
    double seconds;
};

struct conform_suite {
    struct conform_subject subject;
    struct conform_list list;
    uint64_t seed;
    struct conform_result *results;
    int64_t result_count;
    int64_t counts[3]; /* by enum conform_status */
};

/* Opens the device and makes the list of cases: the device's kernel rows are part of it. Close it in any case. */
ATTUNE_MUST_CHECK attune_status conform_suite_open(const char *selector, uint64_t seed,
                                                   struct conform_suite *out_suite);
void conform_suite_close(struct conform_suite *suite);

/* Whether the case's name matches; NULL matches all. */
bool conform_suite_selects(const char *glob, const char *name);

/* Called before each case, and once more at the end, with the number done, and after each case with its result. */
struct conform_observer {
    void (*progress)(void *context, int64_t done, int64_t total);
    void (*finished)(void *context, const struct conform_result *result);
    void *context;
};

/* Runs the cases that glob selects. With all of them, rows that no case hit are judged too. */
void conform_suite_run(struct conform_suite *suite, const char *glob, const struct conform_observer *observer);

/* Whether something ran and nothing failed. */
bool conform_suite_passed(const struct conform_suite *suite);

#endif
