/*
 * Cases by name, and the list of them. A name tells the whole case: group/detail/options, where options is what
 * conform_options_describe writes. Two cases of one name are one case.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_CASE_H
#define CONFORM_CASE_H

#include "oracle.h"
#include "subject.h"

struct conform_case;

/* What a check works with. The inputs' seed is made from the printed seed and the name. */
struct conform_context {
    struct conform_subject *subject;
    const struct conform_case *test;
    uint64_t seed;
    struct conform_outcome *outcome;
};

/* Judges one case; outcome is passed when it begins. */
typedef void (*conform_check_fn)(struct conform_context *context);

/* What is known of the exact result without the oracle, so that the oracle is judged too. */
typedef bool (*conform_truth_fn)(const struct conform_oracle *oracle, struct conform_outcome *outcome);

struct conform_case {
    char name[CONFORM_NAME_MAX];
    struct conform_options options;
    conform_check_fn check;
    conform_truth_fn truth; /* NULL: nothing */
    int64_t variant;        /* for the check */
};

struct conform_list {
    struct conform_case *cases;
    int64_t count;
    int64_t capacity;
    int64_t *slots; /* open hash of names: 1 + index */
    int64_t slot_count;
};

/* Adds a case that is judged against the oracle. group and detail make the name's beginning: "B005/paged". Options are
 * settled first. Returns the case, for its check, truth and variant to be set; valid until the next one is added. NULL:
 * a case of that name is there. */
struct conform_case *conform_list_add(struct conform_list *list, const char *group, const char *detail,
                                      const struct conform_options *options);

/* Adds a case with its own check, whose name is group/detail. */
struct conform_case *conform_list_add_check(struct conform_list *list, const char *group, const char *detail,
                                            conform_check_fn check, int64_t variant);

void conform_list_free(struct conform_list *list);

/* conform_check_problem: makes the problem, runs oracle and backend, judges all outputs and every other byte. */
void conform_check_problem(struct conform_context *context);

/* A problem with the oracle's results and the backend's, judged. */
struct conform_solved {
    struct conform_problem *problem;
    struct conform_oracle oracle;
    struct conform_run run;
};

/* Free it in any case. */
bool conform_solve(struct conform_context *context, const struct conform_options *options,
                   struct conform_solved *out_solved);
void conform_solved_free(struct conform_solved *solved);

/* The same where the problem is made already, and the rest is zero. */
bool conform_solve_made(struct conform_context *context, struct conform_solved *solved);

/* Fails unless all results have the same bits. Where the two ran in different ways they need not. */
bool conform_solved_check_same(const struct conform_solved *a, const struct conform_solved *b, const char *what,
                               struct conform_outcome *outcome);

/* The lists. seed: what random cases are drawn from. */
void conform_list_matrix(struct conform_list *list);
void conform_list_pairs(struct conform_list *list);
void conform_list_edges(struct conform_list *list);
void conform_list_not_finite(struct conform_list *list);
void conform_list_faults(struct conform_list *list);
void conform_list_kernels(struct conform_list *list, const struct conform_subject *subject);
void conform_list_operations(struct conform_list *list, const struct conform_subject *subject);
void conform_list_running(struct conform_list *list);
void conform_list_random(struct conform_list *list, uint64_t seed);

#endif
