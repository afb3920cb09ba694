/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_plot.h"

#include <stdlib.h>
#include <string.h>

#include "plot.h"

enum { LABEL_BYTES = 2 * ATTUNE_NAME_MAX + 2 };

/* What the y axis shows. */
struct measure_of_speed {
    const char *unit;
    double per_unit;
    double (*get)(const struct point *point);
};

/* Decode and append move bytes, the others compute. */
static struct measure_of_speed choose_measure(const struct point *points, int count) {
    if (points[0].work == WORK_DECODE || points[0].work == WORK_APPEND) {
        return (struct measure_of_speed){"GB/s", 1e-9, point_bytes_per_second};
    }
    double most = 0;
    for (int i = 0; i < count; i++) {
        most = point_flops_per_second(&points[i]) > most ? point_flops_per_second(&points[i]) : most;
    }
    return most >= 1e12 ? (struct measure_of_speed){"TFLOP/s", 1e-12, point_flops_per_second}
                        : (struct measure_of_speed){"GFLOP/s", 1e-9, point_flops_per_second};
}

static void format_label(const struct point *point, char out_label[LABEL_BYTES]) {
    snprintf(out_label, LABEL_BYTES, "%s %s", point->device, point->explanation.kernel);
}

/* The line that a point is on, or where the next one begins. */
static int find_line(char (*labels)[LABEL_BYTES], int line_count, const char *label) {
    int line = 0;
    while (line < line_count && strcmp(labels[line], label) != 0) {
        line++;
    }
    return line;
}

static int compare(const void *left, const void *right) {
    const struct plot_point *a = left;
    const struct plot_point *b = right;
    return (a->x > b->x) - (a->x < b->x);
}

/* Puts the points of one line into a row of its own, by rising length. */
static int collect(const struct point *points, int count, const char *label, const struct measure_of_speed *measure,
                   struct plot_point *out_points) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        char own[LABEL_BYTES];
        format_label(&points[i], own);
        if (points[i].status == TOOL_OK && strcmp(own, label) == 0) {
            out_points[found++] =
                (struct plot_point){(double)points[i].length, measure->per_unit * measure->get(&points[i])};
        }
    }
    qsort(out_points, (size_t)found, sizeof *out_points, compare);
    return found;
}

static int list_labels(const struct point *points, int count, char (*out_labels)[LABEL_BYTES]) {
    int line_count = 0;
    for (int i = 0; i < count; i++) {
        char label[LABEL_BYTES];
        format_label(&points[i], label);
        int line = find_line(out_labels, line_count, label);
        if (points[i].status == TOOL_OK && line == line_count && line_count < PLOT_LINES_MAX) {
            memcpy(out_labels[line_count++], label, LABEL_BYTES);
        }
    }
    return line_count;
}

void bench_write_plot(FILE *stream, const struct point *points, int count) {
    static char labels[PLOT_LINES_MAX][LABEL_BYTES];
    struct plot_line lines[PLOT_LINES_MAX];
    char title[ATTUNE_REASON_MAX];
    struct measure_of_speed measure = choose_measure(points, count);
    int line_count = list_labels(points, count, labels);
    struct plot_point *places = malloc((size_t)(line_count * count + 1) * sizeof *places);
    for (int i = 0; places && i < line_count; i++) {
        struct plot_point *first = places + i * count;
        lines[i] = (struct plot_line){labels[i], first, collect(points, count, labels[i], &measure, first)};
    }
    points_format_problem(points, count, title);
    struct plot plot = {title, "length", measure.unit, lines, places ? line_count : 0};
    plot_write_svg(stream, &plot);
    free(places);
}
