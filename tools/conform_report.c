/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform_report.h"
#include "json.h"

static const char *const status_names[] = {"passed", "failed", "skipped"};

void conform_print_failure(FILE *stream, const struct conform_suite *suite, const char *selector,
                           const struct conform_result *result) {
    fprintf(stream, "FAILED %s\n    %s\n", result->name, result->outcome.reason);
    fprintf(stream, "    attune conform --backend %s --seed %" PRIu64 " --case '%s'", selector, suite->seed,
            result->name);
    const struct conform_forced *forced = &suite->subject.forced;
    if (forced->tile_rows > 0) {
        fprintf(stream, " --tile %" PRId32 "x%" PRId32, forced->tile_rows, forced->tile_keys);
    }
    if (forced->splits > 0) {
        fprintf(stream, " --splits %" PRId32, forced->splits);
    }
    fprintf(stream, "\n");
}

/* ---- The names ---- */

void conform_print_names(const struct conform_suite *suite, const char *glob) {
    for (int64_t n = 0; n < suite->list.count; n++) {
        if (conform_suite_selects(glob, suite->list.cases[n].name)) {
            printf("%s\n", suite->list.cases[n].name);
        }
    }
}

enum tool_exit conform_print_names_json(const struct conform_suite *suite, const char *glob) {
    cJSON *root = json_root();
    cJSON *cases = json_add_array(root, "cases");
    for (int64_t n = 0; n < suite->list.count; n++) {
        if (conform_suite_selects(glob, suite->list.cases[n].name)) {
            json_add_text(json_add_object(cases, NULL), "name", suite->list.cases[n].name);
        }
    }
    return json_print(root);
}

/* ---- The table ---- */

/* Results of one group are not always neighbours: they are summed by name. */
struct group {
    char name[32];
    int64_t counts[3];
    double error_ratio;
};

static void group_name(const char *name, char out_name[32]) {
    size_t length = strcspn(name, "/");
    length = length < 31 ? length : 31;
    memcpy(out_name, name, length);
    out_name[length] = '\0';
}

static struct group *find_group(struct group *groups, int64_t *count, const char *name) {
    char wanted[32];
    group_name(name, wanted);
    for (int64_t n = 0; n < *count; n++) {
        if (strcmp(groups[n].name, wanted) == 0) {
            return &groups[n];
        }
    }
    struct group *added = &groups[(*count)++];
    memset(added, 0, sizeof *added);
    memcpy(added->name, wanted, sizeof wanted);
    return added;
}

static int compare_groups(const void *a, const void *b) {
    return strcmp(((const struct group *)a)->name, ((const struct group *)b)->name);
}

static void print_groups(const struct conform_suite *suite) {
    struct group *groups = conform_alloc((uint64_t)suite->result_count, sizeof *groups);
    int64_t count = 0;
    for (int64_t n = 0; n < suite->result_count; n++) {
        const struct conform_result *result = &suite->results[n];
        struct group *group = find_group(groups, &count, result->name);
        group->counts[result->outcome.status]++;
        group->error_ratio = fmax(group->error_ratio, result->outcome.error_ratio);
    }
    qsort(groups, (size_t)count, sizeof *groups, compare_groups);
    printf("%-12s %8s %8s %8s  %s\n", "GROUP", "PASSED", "FAILED", "SKIPPED", "WORST ERROR / BOUND");
    for (int64_t n = 0; n < count; n++) {
        printf("%-12s %8" PRId64 " %8" PRId64 " %8" PRId64 "  %.3g\n", groups[n].name, groups[n].counts[CONFORM_PASSED],
               groups[n].counts[CONFORM_FAILED], groups[n].counts[CONFORM_SKIPPED], groups[n].error_ratio);
    }
    free(groups);
}

/* Every reason once, with the number of cases that were skipped for it. */
static void print_skipped(const struct conform_suite *suite) {
    bool *told = conform_alloc((uint64_t)suite->result_count, sizeof *told);
    for (int64_t n = 0; n < suite->result_count; n++) {
        const struct conform_outcome *outcome = &suite->results[n].outcome;
        int64_t count = 0;
        if (outcome->status != CONFORM_SKIPPED || told[n]) {
            continue;
        }
        for (int64_t m = n; m < suite->result_count; m++) {
            const struct conform_outcome *other = &suite->results[m].outcome;
            if (other->status == CONFORM_SKIPPED && strcmp(outcome->reason, other->reason) == 0) {
                told[m] = true;
                count++;
            }
        }
        printf("skipped %" PRId64 ", as %s: %s\n", count, suite->results[n].name, outcome->reason);
    }
    free(told);
}

static void print_rows(const struct conform_suite *suite) {
    for (int32_t n = 0; n < suite->subject.kernel_count; n++) {
        if (suite->subject.kernels[n].runnable) {
            printf("row %-32s ran %" PRId64 " times\n", suite->subject.kernels[n].name, suite->subject.kernel_hits[n]);
        } else {
            printf("row %-32s not run: %s\n", suite->subject.kernels[n].name, suite->subject.kernels[n].reason);
        }
    }
}

void conform_print_table(const struct conform_suite *suite) {
    printf("\n");
    print_groups(suite);
    printf("\n");
    print_rows(suite);
    print_skipped(suite);
    printf("\n%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", suite->counts[CONFORM_PASSED],
           suite->counts[CONFORM_FAILED], suite->counts[CONFORM_SKIPPED]);
}

/* ---- JSON ---- */

enum tool_exit conform_print_json(const struct conform_suite *suite) {
    char seed[24];
    cJSON *root = json_root();
    cJSON *summary = json_add_object(root, "summary");
    for (int status = CONFORM_PASSED; status <= CONFORM_SKIPPED; status++) {
        json_add_number(summary, status_names[status], (double)suite->counts[status]);
    }
    snprintf(seed, sizeof seed, "%" PRIu64, suite->seed); /* 64 bits: more than a number of JSON holds */
    json_add_text(root, "seed", seed);
    cJSON *cases = json_add_array(root, "cases");
    for (int64_t n = 0; n < suite->result_count; n++) {
        const struct conform_result *result = &suite->results[n];
        cJSON *object = json_add_object(cases, NULL);
        json_add_text(object, "name", result->name);
        json_add_text(object, "status", status_names[result->outcome.status]);
        if (result->outcome.status != CONFORM_PASSED) {
            json_add_text(object, "reason", result->outcome.reason);
        }
        json_add_text(object, "kernel", result->outcome.kernel[0] ? result->outcome.kernel : NULL);
        json_add_number(object, "error_ratio", result->outcome.error_ratio);
        json_add_number(object, "seconds", result->seconds);
    }
    return json_print(root);
}
