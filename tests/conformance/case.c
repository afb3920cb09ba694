/* SPDX-License-Identifier: Apache-2.0 */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"
#include "random.h"
#include "truth.h"

static void put_slot(struct conform_list *list, int64_t index) {
    uint64_t at = conform_random_hash_text(list->cases[index].name) % (uint64_t)list->slot_count;
    while (list->slots[at]) {
        at = (at + 1) % (uint64_t)list->slot_count;
    }
    list->slots[at] = 1 + index;
}

static bool has_name(const struct conform_list *list, const char *name) {
    uint64_t at = conform_random_hash_text(name) % (uint64_t)list->slot_count;
    for (; list->slots[at]; at = (at + 1) % (uint64_t)list->slot_count) {
        if (strcmp(list->cases[list->slots[at] - 1].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void grow(struct conform_list *list) {
    int64_t capacity = list->capacity > 0 ? 2 * list->capacity : 256;
    struct conform_case *cases = conform_alloc((uint64_t)capacity, sizeof *cases);
    if (list->count > 0) {
        memcpy(cases, list->cases, (size_t)list->count * sizeof *cases);
    }
    free(list->cases);
    free(list->slots);
    list->cases = cases;
    list->capacity = capacity;
    list->slot_count = 2 * capacity;
    list->slots = conform_alloc((uint64_t)list->slot_count, sizeof *list->slots);
    for (int64_t n = 0; n < list->count; n++) {
        put_slot(list, n);
    }
}

static struct conform_case *add_named(struct conform_list *list, const char *name) {
    if (list->count == list->capacity) {
        grow(list);
    }
    if (has_name(list, name)) {
        return NULL;
    }
    struct conform_case *added = &list->cases[list->count];
    memcpy(added->name, name, strlen(name) + 1);
    added->check = conform_check_problem;
    put_slot(list, list->count++);
    return added;
}

struct conform_case *conform_list_add(struct conform_list *list, const char *group, const char *detail,
                                      const struct conform_options *options) {
    struct conform_options settled = *options;
    conform_options_settle(&settled);
    char text[CONFORM_NAME_MAX];
    char name[CONFORM_NAME_MAX];
    conform_options_describe(&settled, text);
    if (snprintf(name, sizeof name, "%s/%s/%s", group, detail, text) >= (int)sizeof name) {
        /* Cut names need not differ: the end tells them apart. */
        snprintf(name + sizeof name - 20, 20, ".%016llx", (unsigned long long)conform_random_hash_text(text));
    }
    struct conform_case *added = add_named(list, name);
    if (added) {
        added->options = settled;
    }
    return added;
}

struct conform_case *conform_list_add_check(struct conform_list *list, const char *group, const char *detail,
                                            conform_check_fn check, int64_t variant) {
    char name[CONFORM_NAME_MAX];
    snprintf(name, sizeof name, "%s/%s", group, detail);
    struct conform_case *added = add_named(list, name);
    if (added) {
        added->check = check;
        added->variant = variant;
    }
    return added;
}

void conform_list_free(struct conform_list *list) {
    free(list->cases);
    free(list->slots);
    memset(list, 0, sizeof *list);
}

bool conform_solve_made(struct conform_context *context, struct conform_solved *solved) {
    attune_status status = conform_oracle_run(context->subject->cpu, solved->problem, &solved->oracle);
    return conform_outcome_expect_ok(context->outcome, "the reference", status) &&
           conform_truth_weights(&solved->oracle, context->outcome) &&
           conform_run_whole(context->subject, solved->problem, &solved->run, context->outcome) &&
           conform_judge_run(&solved->oracle, &solved->run, context->outcome);
}

bool conform_solve(struct conform_context *context, const struct conform_options *options,
                   struct conform_solved *out_solved) {
    memset(out_solved, 0, sizeof *out_solved);
    out_solved->problem = conform_problem_make(options, context->seed);
    return conform_solve_made(context, out_solved);
}

void conform_solved_free(struct conform_solved *solved) {
    conform_run_end(&solved->run);
    conform_oracle_free(&solved->oracle);
    conform_problem_free(solved->problem);
}

bool conform_solved_check_same(const struct conform_solved *a, const struct conform_solved *b, const char *what,
                               struct conform_outcome *outcome) {
    for (int n = 0; n < CONFORM_OPERANDS && conform_run_is_same_way(&a->run, &b->run); n++) {
        attune_operand operand = (attune_operand)n;
        bool both = conform_problem_has(a->problem, operand) && conform_problem_has(b->problem, operand);
        if (both && conform_problem_writes(a->problem, operand) &&
            !conform_run_check_same_bits(&a->run, &b->run, operand, what, outcome)) {
            return false;
        }
    }
    return true;
}

void conform_check_problem(struct conform_context *context) {
    struct conform_solved solved;
    bool right = conform_solve(context, &context->test->options, &solved);
    if (right && context->test->truth) {
        context->test->truth(&solved.oracle, context->outcome);
    }
    conform_solved_free(&solved);
}
