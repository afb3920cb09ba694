/*
 * The attune command: finds the subcommand and hands it its arguments.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/version.h"
#include "commands.h"
#include "failure.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *purpose;
} commands[] = {
    {"devices", attune_tool_devices, "which backends and devices there are, and why the others are not"},
    {"run", attune_tool_run, "exact attention, forward and backward, on tensors in files"},
    {"plan", attune_tool_plan, "what would be done for a problem, and why"},
    {"bench", attune_tool_bench, "how fast: time, speed and share of the ceiling, over lengths, devices and kernels"},
    {"tune", attune_tool_tune, "the best tile for a problem, found by measuring and kept"},
    {"merge", attune_tool_merge, "one attention state from those of parts of the keys"},
    {"conform", attune_tool_conform, "holds a backend to the definition, case by case"},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const struct command *find(const char *name) {
    for (int i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void print_usage(FILE *stream) {
    fprintf(stream, "attune - exact attention on whatever device there is\n"
                    "\n"
                    "Usage: attune COMMAND [flags]\n"
                    "       attune --version\n"
                    "\n"
                    "Commands; 'attune COMMAND --help' tells each one's flags:\n");
    for (int i = 0; i < COMMAND_COUNT; i++) {
        fprintf(stream, "  %-10s %s\n", commands[i].name, commands[i].purpose);
    }
    fprintf(stream, "\n%s", tool_exit_help);
}

static int run(const struct command *command, int argc, char **argv) {
    tool_set_command(command->name);
    return command->run(argc, argv);
}

static int help(char *name) {
    char flag[] = "--help";
    char *argv[] = {name, flag, NULL};
    const struct command *command = name ? find(name) : NULL;
    if (command) {
        return run(command, 2, argv);
    }
    if (name) {
        return tool_fail(TOOL_BAD_INPUT, "%s: no such command; 'attune --help' lists them", name);
    }
    print_usage(stdout);
    return TOOL_OK;
}

static int dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        print_usage(stderr);
        return TOOL_BAD_INPUT;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
        return help(argc > 2 ? argv[2] : NULL);
    }
    if (strcmp(name, "--version") == 0) {
        printf("attune %s\n", attune_version());
        return TOOL_OK;
    }
    const struct command *command = find(name);
    if (!command) {
        return tool_fail(TOOL_BAD_INPUT, "%s: no such command; 'attune --help' lists them", name);
    }
    return run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    int status = dispatch(argc, argv);
    if (status == TOOL_OK) {
        status = tool_flush();
    }
    return status;
}
