/*
 * How the command fails: one sentence on stderr, and the exit status that scripts read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_FAILURE_H
#define ATTUNE_TOOLS_FAILURE_H

#include "attune/status.h"
#include "files/report.h"

enum tool_exit {
    TOOL_OK = 0,
    TOOL_FAILED = 1,
    TOOL_BAD_INPUT = 2,
    TOOL_UNSUPPORTED = 3,
    TOOL_UNAVAILABLE = 4,
};

/* The same statuses for --help. */
extern const char tool_exit_help[];

/* The subcommand that sentences start with; valid until the next call. */
void tool_set_command(const char *name);
const char *tool_command(void);

/* Prints "attune COMMAND: " and the sentence, and returns the status. */
enum tool_exit tool_fail(enum tool_exit status, const char *format, ...) ATTUNE_PRINTF(2, 3);

/* The same for what the library refused: prints attune_last_error, with its arguments' names as flags. */
enum tool_exit tool_fail_library(attune_status status);

/* The same for a file that a flag named: message is what tools/files said. */
enum tool_exit tool_fail_file(enum files_status status, const char *flag, const char *message);

enum tool_exit tool_fail_memory(void);

/* Makes sure that what was printed has arrived. */
enum tool_exit tool_flush(void);

#endif
