/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_report.h"

#include <inttypes.h>
#include <math.h>

#include "table.h"

static void format_length(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    snprintf(cell, TABLE_CELL_BYTES, "%" PRId64, point->length);
}

static void format_device(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    const char *asked = point->asked_backend ? point->asked_backend : "auto";
    snprintf(cell, TABLE_CELL_BYTES, "%s", point->device[0] ? point->device : asked);
}

static void format_kernel(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    const char *asked = point->asked_kernel ? point->asked_kernel : "-";
    snprintf(cell, TABLE_CELL_BYTES, "%s", point->explanation.kernel[0] ? point->explanation.kernel : asked);
}

static void format_tile(const void *row, char cell[TABLE_CELL_BYTES]) {
    const attune_explanation *explanation = &((const struct point *)row)->explanation;
    cell[0] = '\0';
    if (explanation->tile_rows > 0) {
        snprintf(cell, TABLE_CELL_BYTES, "%" PRId32 "x%" PRId32, explanation->tile_rows, explanation->tile_keys);
    }
}

static void format_splits(const void *row, char cell[TABLE_CELL_BYTES]) {
    const attune_explanation *explanation = &((const struct point *)row)->explanation;
    cell[0] = '\0';
    if (explanation->splits > 1) {
        snprintf(cell, TABLE_CELL_BYTES, "%" PRId32, explanation->splits);
    }
}

/* Empty where nothing was timed, or there is nothing to tell. */
static void format_fixed(const struct point *point, int decimals, double number, char cell[TABLE_CELL_BYTES]) {
    cell[0] = '\0';
    if (point->spread.runs > 0 && number > 0) {
        snprintf(cell, TABLE_CELL_BYTES, "%.*f", decimals, number);
    }
}

/* Four digits, wherever the point is. */
static void format_rate(const struct point *point, double number, char cell[TABLE_CELL_BYTES]) {
    int decimals = number > 0 ? 3 - (int)floor(log10(number)) : 0;
    format_fixed(point, decimals < 0 ? 0 : decimals > 9 ? 9 : decimals, number, cell);
}

static void format_median(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    format_fixed(point, 3, 1e3 * point->spread.median, cell);
}

static void format_spread(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct spread *spread = &((const struct point *)row)->spread;
    cell[0] = '\0';
    if (spread->runs > 1 && spread->median > 0) {
        snprintf(cell, TABLE_CELL_BYTES, "%.1f%%", 100 * (spread->high - spread->low) / spread->median);
    }
}

static void format_flops(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    format_rate(point, 1e-12 * point_flops_per_second(point), cell);
}

static void format_bytes(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    format_rate(point, 1e-9 * point_bytes_per_second(point), cell);
}

static void format_ceiling(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    cell[0] = '\0';
    if (point_ceiling_share(point) > 0) {
        snprintf(cell, TABLE_CELL_BYTES, "%.1f%%", 100 * point_ceiling_share(point));
    }
}

static void format_error(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    cell[0] = '\0';
    if (point->is_verified) {
        snprintf(cell, TABLE_CELL_BYTES, "%.1e", point->verdict.error);
    }
}

static void format_note(const void *row, char cell[TABLE_CELL_BYTES]) {
    const struct point *point = row;
    const char *note = point->cost.is_bound ? "speed at most" : "";
    snprintf(cell, TABLE_CELL_BYTES, "%s", point->status == TOOL_OK ? note : point_status_word(point));
}

void bench_print(const struct point *points, int count) {
    static const struct table_column columns[] = {
        {"LENGTH", false, format_length},      {"DEVICE", true, format_device},  {"KERNEL", true, format_kernel},
        {"TILE", false, format_tile},          {"SPLITS", false, format_splits}, {"MEDIAN ms", false, format_median},
        {"SPREAD", false, format_spread},      {"TFLOP/s", false, format_flops}, {"GB/s", false, format_bytes},
        {"OF CEILING", false, format_ceiling}, {"ERROR", false, format_error},   {"", true, format_note},
    };
    char problem[ATTUNE_REASON_MAX];
    points_format_problem(points, count, problem);
    if (*problem) {
        printf("%s\n\n", problem);
    }
    table_print(columns, sizeof columns / sizeof columns[0], points, count, sizeof *points);
}
