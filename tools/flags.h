/*
 * Flags by table: one row per flag says how it is written, what it sets and what --help tells of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_FLAGS_H
#define ATTUNE_TOOLS_FLAGS_H

#include <stddef.h>
#include <stdint.h>

#include "failure.h"

struct flag;

/* Parses text into the field, or names flag, value and rule with tool_fail. text is NULL for a switch; else it lives as
 * long as the process's arguments. */
typedef enum tool_exit (*flag_setter)(const struct flag *flag, const char *text, void *out_field);

struct flag {
    const char *name;     /* as it is typed: "--window", "-o" */
    const char *argument; /* what --help calls its value; NULL: a switch, which takes none */
    flag_setter set;
    size_t offset; /* of the field in the command's options */
    int64_t least; /* what flag_set_integer accepts */
    int64_t most;
    unsigned commands; /* bits of the commands that have it */
    const char *group; /* heading in --help; rows of a group follow each other */
    const char *help;
};

struct flag_table {
    const struct flag *flags;
    int count;        /* to FLAGS_MAX */
    unsigned command; /* one bit: rows without it do not exist */
};

enum { FLAGS_MAX = 96 };

/* Sets what argv[1 .. argc - 1] says. A flag takes the next word as its value, a leading '-' included, or what follows
 * '='. Refused: an abbreviation, a flag given twice, a word that is neither flag nor value. */
enum tool_exit flags_parse(const struct flag_table *table, int argc, char **argv, void *out_options);

/* Prints a command's --help: usage, the table, in groups, examples ("" or from a blank line on) and exit statuses. */
void flags_print_help(const char *usage, const struct flag_table *table, const char *examples);

#endif
