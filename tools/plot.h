/*
 * A plot of lines over lengths, as SVG.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_PLOT_H
#define ATTUNE_TOOLS_PLOT_H

#include <stdio.h>

struct plot_point {
    double x; /* more than 0: the axis is logarithmic */
    double y; /* 0 or more */
};

struct plot_line {
    const char *label;
    const struct plot_point *point; /* by rising x */
    int count;
};

struct plot {
    const char *title;
    const char *x_label;
    const char *y_label;
    const struct plot_line *line; /* those without points are left out */
    int line_count;               /* to PLOT_LINES_MAX */
};

enum { PLOT_LINES_MAX = 64 };

void plot_write_svg(FILE *stream, const struct plot *plot);

#endif
