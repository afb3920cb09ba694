/*
 * attune tune: the best tile for a problem, found by measuring and kept.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>

#include "backend.h"
#include "commands.h"
#include "json.h"
#include "measure.h"
#include "progress.h"
#include "table.h"

static const char usage[] = "attune tune - the best tile for a problem, found by measuring and kept\n"
                            "\n"
                            "Usage: attune tune --shape B,Sq,Sk,Hq,Hkv,D[,Dv] [flags]\n"
                            "\n"
                            "Times the kernel row that would be taken with every tile Br x Bc that it can use,\n"
                            "sides 16, 32, 64 and 128, on random inputs, and keeps the fastest in a file of\n"
                            "ATTUNE_CACHE_DIR (default ~/.cache/attune). From then on it is the automatic tile\n"
                            "of devices of the same backend and architecture, for problems with the same\n"
                            "kernel row, dtype, head sizes and kind of mask and score, whatever their lengths\n"
                            "past 128. --tile and ATTUNE_TILE go before it; 'attune plan' tells a tile that is\n"
                            "tuned. To forget what was found remove the file, tiles-BACKEND-ARCHITECTURE.\n"
                            "Flags of outputs say that they are wanted; no tensor is written.\n";

static const char examples[] = "\n"
                               "Examples:\n"
                               "  attune tune --shape 1,4096,4096,16,4,128 --causal\n"
                               "  attune tune --shape 1,2048,2048,16,16,64 --op bwd --backend cpu\n";

static const int32_t sides[] = {16, 32, 64, 128};
enum { SIDE_COUNT = sizeof sides / sizeof sides[0], CANDIDATES_MAX = SIDE_COUNT * SIDE_COUNT };

struct candidate {
    int32_t rows;
    int32_t keys;
    bool is_automatic; /* without any tuning */
    bool is_best;
    bool is_kept;
    struct spread spread;
    double flops;
};

struct tune {
    struct options options;
    attune_device *device;
    struct workload workload;
    attune_explanation automatic; /* what is chosen now */
    struct candidate candidates[CANDIDATES_MAX];
    int count;
    int best;
};

/* ---- Candidates ---- */

static enum tool_exit explain(struct tune *tune, int32_t rows, int32_t keys, attune_explanation *out_explanation) {
    tune->workload.attention.tile_rows = rows;
    tune->workload.attention.tile_keys = keys;
    *out_explanation = attune_explanation_init();
    attune_status status =
        attune_explain(tune->device, tune->workload.op, workload_args(&tune->workload), out_explanation);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

/* Tiles that the row honours are those that it can be given. */
static enum tool_exit list_candidates(struct tune *tune) {
    enum tool_exit status = TOOL_OK;
    for (int i = 0; !status && i < CANDIDATES_MAX; i++) {
        int32_t rows = sides[i / SIDE_COUNT];
        int32_t keys = sides[i % SIDE_COUNT];
        attune_explanation explanation;
        status = explain(tune, rows, keys, &explanation);
        if (!status && explanation.status == ATTUNE_OK && explanation.tile_rows == rows &&
            explanation.tile_keys == keys) {
            tune->candidates[tune->count++] = (struct candidate){
                .rows = rows,
                .keys = keys,
                .is_automatic = rows == tune->automatic.tile_rows && keys == tune->automatic.tile_keys,
            };
        }
    }
    return status;
}

static enum tool_exit find_candidates(struct tune *tune) {
    enum tool_exit status = explain(tune, 0, 0, &tune->automatic);
    if (status) {
        return status;
    }
    if (tune->automatic.status != ATTUNE_OK) {
        return tool_fail(TOOL_UNSUPPORTED, "no kernel row of %s computes this problem", tune->automatic.device);
    }
    workload_set_kernel(&tune->workload, tune->automatic.kernel);
    status = list_candidates(tune);
    if (!status && tune->count < 2) {
        return tool_fail(TOOL_UNSUPPORTED, "kernel %s has a tile of its own, or none: there is nothing to tune",
                         tune->automatic.kernel);
    }
    return status;
}

/* ---- Measuring ---- */

static enum tool_exit time_candidate(struct tune *tune, struct candidate *candidate) {
    struct measure measure;
    tune->workload.attention.tile_rows = candidate->rows;
    tune->workload.attention.tile_keys = candidate->keys;
    enum tool_exit status = measure_start(&tune->workload, &measure);
    candidate->flops = measure.explanation.flops;
    if (!status) {
        status = measure_time(&measure, tune->options.repeat, &candidate->spread);
    }
    measure_release(&measure);
    return status;
}

static enum tool_exit time_all(struct tune *tune) {
    enum tool_exit status = TOOL_OK;
    for (int i = 0; !status && i < tune->count; i++) {
        progress_count(i, tune->count);
        status = time_candidate(tune, &tune->candidates[i]);
        if (!status && tune->candidates[i].spread.median < tune->candidates[tune->best].spread.median) {
            tune->best = i;
        }
    }
    tune->candidates[tune->best].is_best = !status;
    return status;
}

static enum tool_exit keep(struct tune *tune) {
    struct candidate *best = &tune->candidates[tune->best];
    tune->workload.attention.tile_rows = tune->workload.attention.tile_keys = 0;
    attune_status status =
        attune_tile_keep(tune->device, tune->workload.op, workload_args(&tune->workload), best->rows, best->keys);
    best->is_kept = status == ATTUNE_OK;
    if (status == ATTUNE_UNAVAILABLE) { /* of the cache folder, not of a device */
        return tool_fail(TOOL_FAILED, "not kept: %s", attune_last_error());
    }
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

/* ---- What it prints ---- */

static void format_tile(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct candidate *candidate = row;
    snprintf(cell, TABLE_CELL_BYTES, "%" PRId32 "x%" PRId32, candidate->rows, candidate->keys);
}

static void format_median(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct candidate *candidate = row;
    snprintf(cell, TABLE_CELL_BYTES, "%.3f", 1e3 * candidate->spread.median);
}

static void format_spread(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct spread *spread = &((const struct candidate *)row)->spread;
    snprintf(cell, TABLE_CELL_BYTES, "%.1f%%", 100 * (spread->high - spread->low) / spread->median);
}

static void format_note(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct candidate *candidate = row;
    snprintf(cell, TABLE_CELL_BYTES, "%s%s%s",
             candidate->is_kept   ? "best, kept"
             : candidate->is_best ? "best"
                                  : "",
             candidate->is_best && candidate->is_automatic ? "; " : "", candidate->is_automatic ? "until now" : "");
}

static enum tool_exit print_text(const struct tune *tune) {
    static const struct table_column columns[] = {
        {"TILE", false, format_tile},
        {"MEDIAN ms", false, format_median},
        {"SPREAD", false, format_spread},
        {"", true, format_note},
    };
    printf("%s\n%s on %s\n\n", tune->automatic.problem, tune->automatic.kernel, tune->automatic.device);
    table_print(columns, sizeof columns / sizeof columns[0], tune->candidates, tune->count, sizeof *tune->candidates);
    return TOOL_OK;
}

static enum tool_exit print_json(const struct tune *tune) {
    cJSON *root = json_root();
    json_add_text(root, "problem", tune->automatic.problem);
    json_add_text(root, "device", tune->automatic.device);
    json_add_text(root, "kernel", tune->automatic.kernel);
    json_add_number(root, "tile_rows", tune->candidates[tune->best].rows);
    json_add_number(root, "tile_keys", tune->candidates[tune->best].keys);
    cJSON *list = json_add_array(root, "tiles");
    for (int i = 0; i < tune->count; i++) {
        const struct candidate *candidate = &tune->candidates[i];
        cJSON *object = json_add_object(list, NULL);
        json_add_number(object, "tile_rows", candidate->rows);
        json_add_number(object, "tile_keys", candidate->keys);
        json_add_number(object, "runs", (double)candidate->spread.runs);
        json_add_number(object, "fastest_seconds", candidate->spread.fastest);
        json_add_number(object, "median_seconds", candidate->spread.median);
    }
    return json_print(root);
}

static enum tool_exit execute(struct tune *tune) {
    progress_stage("preparing");
    if (tune->options.work == WORK_APPEND) {
        return tool_fail(TOOL_BAD_INPUT, "--op append: it has no tiles");
    }
    enum tool_exit status = backend_open(tune->options.backend, &tune->device);
    if (!status) {
        status = workload_create(&tune->options, tune->device, 0, &tune->workload);
    }
    if (!status) {
        status = find_candidates(tune);
    }
    progress_stage("timing tiles");
    if (!status) {
        status = time_all(tune);
    }
    if (status) {
        return status;
    }
    enum tool_exit kept = keep(tune);
    status = tune->options.json ? print_json(tune) : print_text(tune);
    return kept ? kept : status;
}

int attune_tool_tune(int argc, char **argv) {
    struct tune tune = {0};
    enum tool_exit status = options_parse(COMMAND_TUNE, argc, argv, &tune.options);
    if (!status && tune.options.help) {
        options_print_help(COMMAND_TUNE, usage, examples);
    } else if (!status) {
        progress_start();
        status = execute(&tune);
        progress_stop();
    }
    workload_release(&tune.workload);
    attune_device_close(tune.device);
    options_release(&tune.options);
    return status;
}
