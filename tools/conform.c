/*
 * attune conform: holds a backend to the definition, case by case.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "commands.h"
#include "conform_report.h"
#include "flags.h"
#include "progress.h"
#include "values.h"

static const char usage[] = "attune conform - holds a backend to the definition of attention, case by case\n"
                            "\n"
                            "Usage: attune conform [flags]\n"
                            "\n"
                            "Runs every case on the device and on the CPU's reference kernel in f64, and\n"
                            "judges each element by the error bounds of the definition, and every other byte\n"
                            "by what it was before. A case that no kernel row supports is skipped with its\n"
                            "reason; one that a row claims and refuses has failed. A failed case prints the\n"
                            "line that runs it again. Exit status 1 if a case failed, or if none ran.\n";

struct conform_flags {
    bool help;
    const char *backend;
    const char *glob;
    uint64_t seed;
    bool has_seed;
    struct tile_sides tile;
    int64_t splits;
    bool list;
    bool json;
    bool verbose;
};

static enum tool_exit set_seed(const struct flag *flag, const char *text, void *out_field) {
    struct conform_flags *flags = out_field;
    flags->has_seed = true;
    return flag_set_u64(flag, text, &flags->seed);
}

#define FIELD(name) offsetof(struct conform_flags, name)
static const struct flag flags[] = {
    {"--backend", BACKEND_ARGUMENT, flag_set_text, FIELD(backend), 0, 0, 1, "Flags", BACKEND_HELP},
    {"--case", "GLOB", flag_set_text, FIELD(glob), 0, 0, 1, "Flags",
     "only cases whose whole name matches, as 'B005/*'"},
    {"--seed", "N", set_seed, 0, 0, 0, 1, "Flags", "what inputs and random cases are drawn from; default the time"},
    {"--tile", "BRxBC", flag_set_tile, FIELD(tile), 0, 0, 1, "Flags",
     "ask for this tile in every case that leaves it open"},
    {"--splits", "N", flag_set_integer, FIELD(splits), 1, 1000, 1, "Flags",
     "ask for so many parts of the keys in every case that leaves it open"},
    {"--list", NULL, flag_set_switch, FIELD(list), 0, 0, 1, "Flags", "print the names of the cases, and run none"},
    {"--json", NULL, flag_set_switch, FIELD(json), 0, 0, 1, "Flags", "print JSON; failures go to stderr as they come"},
    {"--verbose", NULL, flag_set_switch, FIELD(verbose), 0, 0, 1, "Flags",
     "print every case, with its kernel row and its largest error over its bound"},
    {"--help", NULL, flag_set_switch, FIELD(help), 0, 0, 1, "Flags", "print this text"},
};

static const struct flag_table table = {flags, sizeof flags / sizeof flags[0], 1};

/* ---- Running ---- */

struct view {
    const struct conform_flags *flags;
    const struct conform_suite *suite;
    const char *selector; /* of the device that was opened */
};

static void show_progress(void *context, int64_t done, int64_t total) {
    (void)context;
    progress_count(done, total);
}

static void show_result(void *context, const struct conform_result *result) {
    const struct view *view = context;
    FILE *stream = view->flags->json ? stderr : stdout;
    const struct conform_outcome *outcome = &result->outcome;
    if (outcome->status == CONFORM_FAILED) {
        conform_print_failure(stream, view->suite, view->selector, result);
    } else if (view->flags->verbose) {
        bool passed = outcome->status == CONFORM_PASSED;
        fprintf(stream, "%-7s %s  %s  %.3g%s%s\n", passed ? "passed" : "skipped", result->name,
                outcome->kernel[0] ? outcome->kernel : "-", outcome->error_ratio, passed ? "" : "  ", outcome->reason);
    }
}

static enum tool_exit run(struct conform_suite *suite, const struct conform_flags *options) {
    attune_device_info info = {.struct_size = sizeof info};
    attune_status status = attune_device_get_info(suite->subject.device, &info);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    if (!options->json) {
        printf("%s (%s), seed %" PRIu64 "\n", info.selector, info.name, suite->seed);
    }
    struct view view = {options, suite, info.selector};
    suite->subject.forced = (struct conform_forced){
        .splits = (int32_t)options->splits,
        .tile_rows = (int32_t)options->tile.rows,
        .tile_keys = (int32_t)options->tile.keys,
    };
    struct conform_observer observer = {show_progress, show_result, &view};
    progress_start();
    progress_stage("conform");
    conform_suite_run(suite, options->glob, &observer);
    progress_stop();
    if (!options->json) {
        conform_print_table(suite);
    }
    enum tool_exit printed = options->json ? conform_print_json(suite) : TOOL_OK;
    if (suite->result_count == 0) {
        return tool_fail(TOOL_FAILED, "--case %s: no case has such a name; --list prints them", options->glob);
    }
    if (printed) {
        return printed;
    }
    return conform_suite_passed(suite) ? TOOL_OK : TOOL_FAILED;
}

static enum tool_exit execute(const struct conform_flags *options) {
    struct conform_suite suite;
    uint64_t seed = options->has_seed ? options->seed : (uint64_t)time(NULL);
    attune_status status = conform_suite_open(options->backend, seed, &suite);
    enum tool_exit result = TOOL_OK;
    if (status == ATTUNE_NOT_FOUND) { /* the device could not be had */
        result = tool_fail(TOOL_UNAVAILABLE, "%s", attune_last_error());
    } else if (status != ATTUNE_OK) {
        result = tool_fail_library(status);
    } else if (options->list && options->json) {
        result = conform_print_names_json(&suite, options->glob);
    } else if (options->list) {
        conform_print_names(&suite, options->glob);
    } else {
        result = run(&suite, options);
    }
    conform_suite_close(&suite);
    return result;
}

int attune_tool_conform(int argc, char **argv) {
    struct conform_flags options = {0};
    enum tool_exit status = flags_parse(&table, argc, argv, &options);
    if (status) {
        return status;
    }
    if (!options.help) {
        return execute(&options);
    }
    flags_print_help(usage, &table, "");
    return TOOL_OK;
}
