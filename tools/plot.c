/* SPDX-License-Identifier: Apache-2.0 */
#include "plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEFT = 72,
    TOP = 64,
    PLOT_WIDTH = 560,
    PLOT_HEIGHT = 360,
    LABELS_GAP = 24,
    LETTER_WIDTH = 8, /* at most, of most letters */
    BOTTOM = 56,
    LABEL_HEIGHT = 16,
    TICK_GAP = 36, /* between two labels of the x axis */
    Y_TICKS = 6,
};

/* Okabe and Ito, Color Universal Design (2008): told apart by colour-blind readers too. */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"};
enum { COLOUR_COUNT = sizeof colours / sizeof colours[0] };

struct scale {
    double x_least; /* log2 */
    double x_most;
    double y_most;
    double y_step;
};

/* ---- Scales ---- */

/* 1, 2 or 5 times a power of ten, at most Y_TICKS of which reach most. */
static double choose_step(double most) {
    double least = most / Y_TICKS;
    double power = pow(10, floor(log10(least)));
    double steps = least / power;
    return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static struct scale choose_scale(const struct plot *plot) {
    struct scale scale = {INFINITY, -INFINITY, 0, 0};
    for (int i = 0; i < plot->line_count; i++) {
        for (int j = 0; j < plot->line[i].count; j++) {
            const struct plot_point *point = &plot->line[i].point[j];
            scale.x_least = fmin(scale.x_least, log2(point->x));
            scale.x_most = fmax(scale.x_most, log2(point->x));
            scale.y_most = fmax(scale.y_most, point->y);
        }
    }
    if (!isfinite(scale.x_least)) {
        scale.x_least = scale.x_most = 0;
    }
    double margin = scale.x_most > scale.x_least ? 0.03 * (scale.x_most - scale.x_least) : 0.5;
    scale.x_least -= margin;
    scale.x_most += margin;
    scale.y_step = choose_step(scale.y_most > 0 ? scale.y_most : 1);
    scale.y_most = scale.y_step * ceil(fmax(scale.y_most, scale.y_step) / scale.y_step);
    return scale;
}

static double place_x(const struct scale *scale, double x) {
    return LEFT + PLOT_WIDTH * (log2(x) - scale->x_least) / (scale->x_most - scale->x_least);
}

static double place_y(const struct scale *scale, double y) {
    return TOP + PLOT_HEIGHT * (1 - y / scale->y_most);
}

/* ---- Pieces ---- */

static void write_escaped(FILE *stream, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", stream);
            break;
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        default:
            fputc(*text, stream);
        }
    }
}

/* anchor: start, middle or end. */
static void write_text(FILE *stream, double x, double y, const char *anchor, const char *colour, const char *text) {
    fprintf(stream, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">", x, y, anchor, colour);
    write_escaped(stream, text);
    fputs("</text>\n", stream);
}

static void write_y_axis(FILE *stream, const struct plot *plot, const struct scale *scale) {
    int ticks = (int)lround(scale->y_most / scale->y_step);
    for (int i = 0; i <= ticks; i++) {
        char text[32];
        double y = place_y(scale, i * scale->y_step);
        snprintf(text, sizeof text, "%.6g", i * scale->y_step);
        fprintf(stream, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>\n", LEFT, y,
                LEFT + PLOT_WIDTH, y, i == 0 ? "#444" : "#ddd");
        write_text(stream, LEFT - 8, y + 4, "end", "#444", text);
    }
    write_text(stream, LEFT - 8, TOP - 14, "end", "#444", plot->y_label);
}

static void format_length(double x, char *out_text, size_t capacity) {
    if (x >= 1024 && fmod(x, 1024) == 0) {
        snprintf(out_text, capacity, "%.0fk", x / 1024);
    } else {
        snprintf(out_text, capacity, "%.0f", x);
    }
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Every x that some point has, by rising value; count of them. NULL if there is no memory. */
static double *collect_x(const struct plot *plot, int *out_count) {
    int count = 0;
    for (int i = 0; i < plot->line_count; i++) {
        count += plot->line[i].count;
    }
    double *x = malloc((size_t)(count + 1) * sizeof *x);
    *out_count = 0;
    if (!x) {
        return NULL;
    }
    for (int i = 0; i < plot->line_count; i++) {
        for (int j = 0; j < plot->line[i].count; j++) {
            x[(*out_count)++] = plot->line[i].point[j].x;
        }
    }
    qsort(x, (size_t)*out_count, sizeof *x, compare);
    return x;
}

static void write_x_axis(FILE *stream, const struct plot *plot, const struct scale *scale) {
    int count;
    double *x = collect_x(plot, &count);
    double last = -TICK_GAP;
    for (int i = 0; i < count; i++) {
        char text[32];
        double at = place_x(scale, x[i]);
        if (at - last < TICK_GAP) {
            continue;
        }
        last = at;
        format_length(x[i], text, sizeof text);
        fprintf(stream, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#444\"/>\n", at, TOP + PLOT_HEIGHT,
                at, TOP + PLOT_HEIGHT + 5);
        write_text(stream, at, TOP + PLOT_HEIGHT + 20, "middle", "#444", text);
    }
    free(x);
    write_text(stream, LEFT + PLOT_WIDTH / 2.0, TOP + PLOT_HEIGHT + 42, "middle", "#444", plot->x_label);
}

static void write_line(FILE *stream, const struct plot_line *line, const struct scale *scale, const char *colour) {
    fprintf(stream, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
    for (int i = 0; i < line->count; i++) {
        fprintf(stream, "%.1f,%.1f ", place_x(scale, line->point[i].x), place_y(scale, line->point[i].y));
    }
    fputs("\"/>\n", stream);
    for (int i = 0; i < line->count; i++) {
        fprintf(stream, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"/>\n", place_x(scale, line->point[i].x),
                place_y(scale, line->point[i].y), colour);
    }
}

/* ---- Labels: beside the ends of their lines, moved apart where they would meet ---- */

struct label {
    double end_x; /* of the line */
    double end_y;
    double y;
    const char *colour;
    const char *text;
};

static int compare_labels(const void *left, const void *right) {
    const struct label *a = left;
    const struct label *b = right;
    return (a->y > b->y) - (a->y < b->y);
}

static void move_apart(struct label *labels, int count) {
    qsort(labels, (size_t)count, sizeof *labels, compare_labels);
    for (int i = 1; i < count; i++) {
        labels[i].y = fmax(labels[i].y, labels[i - 1].y + LABEL_HEIGHT);
    }
    double lowest = TOP + PLOT_HEIGHT;
    for (int i = count - 1; i >= 0; --i) {
        labels[i].y = fmin(labels[i].y, lowest);
        lowest = labels[i].y - LABEL_HEIGHT;
    }
}

static void write_label(FILE *stream, const struct label *label) {
    double x = LEFT + PLOT_WIDTH + LABELS_GAP;
    fprintf(stream,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1\" stroke-dasharray=\"2 3\" points=\"%.1f,%.1f "
            "%d,%.1f %.1f,%.1f\"/>\n",
            label->colour, label->end_x, label->end_y, LEFT + PLOT_WIDTH + 4, label->end_y, x - 4, label->y);
    write_text(stream, x, label->y + 4, "start", label->colour, label->text);
}

/* ---- ---- */

static int measure_labels(const struct plot *plot) {
    size_t longest = 0;
    for (int i = 0; i < plot->line_count; i++) {
        size_t length = strlen(plot->line[i].label);
        longest = length > longest ? length : longest;
    }
    return LABELS_GAP + LETTER_WIDTH * (int)longest;
}

void plot_write_svg(FILE *stream, const struct plot *plot) {
    struct scale scale = choose_scale(plot);
    struct label labels[PLOT_LINES_MAX];
    int count = 0;
    int width = LEFT + PLOT_WIDTH + measure_labels(plot);
    int height = TOP + PLOT_HEIGHT + BOTTOM;
    fprintf(stream,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, height, width, height);
    fprintf(stream, "<g font-size=\"14\" font-weight=\"bold\">\n");
    write_text(stream, LEFT, 24, "start", "#222", plot->title);
    fprintf(stream, "</g>\n");
    write_y_axis(stream, plot, &scale);
    write_x_axis(stream, plot, &scale);
    for (int i = 0; i < plot->line_count && i < PLOT_LINES_MAX; i++) {
        const struct plot_line *line = &plot->line[i];
        if (line->count == 0) {
            continue;
        }
        const char *colour = colours[count % COLOUR_COUNT];
        const struct plot_point *end = &line->point[line->count - 1];
        double x = place_x(&scale, end->x);
        double y = place_y(&scale, end->y);
        write_line(stream, line, &scale, colour);
        labels[count++] = (struct label){x, y, y, colour, line->label};
    }
    move_apart(labels, count);
    for (int i = 0; i < count; i++) {
        write_label(stream, &labels[i]);
    }
    fputs("</svg>\n", stream);
}
