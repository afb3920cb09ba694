/*
 * The subcommands. Each takes its own name as argv[0], prints its --help, and returns the exit status.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_COMMANDS_H
#define ATTUNE_TOOLS_COMMANDS_H

int attune_tool_devices(int argc, char **argv);
int attune_tool_run(int argc, char **argv);
int attune_tool_plan(int argc, char **argv);
int attune_tool_bench(int argc, char **argv);
int attune_tool_tune(int argc, char **argv);
int attune_tool_merge(int argc, char **argv);
int attune_tool_conform(int argc, char **argv);

#endif
