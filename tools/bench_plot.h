/*
 * Bench's points as a plot: speed against length, a line for each device and kernel.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_BENCH_PLOT_H
#define ATTUNE_TOOLS_BENCH_PLOT_H

#include <stdio.h>

#include "point.h"

void bench_write_plot(FILE *stream, const struct point *points, int count);

#endif
