/*
 * How attune conform tells what it found: a table for people, or JSON.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_CONFORM_REPORT_H
#define ATTUNE_TOOLS_CONFORM_REPORT_H

#include "failure.h"
#include "tests/conformance/suite.h"

/* A failed case: its name, reason, and the line that runs it again. */
void conform_print_failure(FILE *stream, const struct conform_suite *suite, const char *selector,
                           const struct conform_result *result);

/* The names of the cases that the glob selects, a line each; or JSON, as conform_print_json's, of the names alone. */
void conform_print_names(const struct conform_suite *suite, const char *glob);
enum tool_exit conform_print_names_json(const struct conform_suite *suite, const char *glob);

/* Groups, reasons for what was skipped, rows, and the totals as the last line. */
void conform_print_table(const struct conform_suite *suite);

enum tool_exit conform_print_json(const struct conform_suite *suite);

#endif
