/*
 * What bench has measured, as a table, as comma-separated values and as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_BENCH_REPORT_H
#define ATTUNE_TOOLS_BENCH_REPORT_H

#include <stdio.h>

#include "point.h"

void bench_print(const struct point *points, int count);
void bench_write_csv(FILE *stream, const struct point *points, int count);
enum tool_exit bench_print_json(const struct point *points, int count);

#endif
