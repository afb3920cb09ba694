/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* getopt_long */

#include "flags.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    LONG_BASE = 256, /* getopt_long's values for long flags, past every letter */
    HELP_COLUMN = 26,
    HELP_WIDTH = 80,
};

/* What getopt_long wants to know. */
struct spelling {
    struct option longs[FLAGS_MAX + 1];
    char letters[2 * FLAGS_MAX + 3];
};

static bool is_long(const struct flag *flag) {
    return flag->name[1] == '-';
}

static bool has(const struct flag_table *table, int index) {
    return (table->flags[index].commands & table->command) != 0;
}

static void spell(const struct flag_table *table, struct spelling *out_spelling) {
    int long_count = 0;
    char *letter = out_spelling->letters;
    *letter++ = '+'; /* stop at the first word that is no flag */
    *letter++ = ':'; /* tell a missing value from an unknown flag */
    for (int i = 0; i < table->count; i++) {
        const struct flag *flag = &table->flags[i];
        if (!has(table, i)) {
            continue;
        }
        if (is_long(flag)) {
            int value = flag->argument ? required_argument : no_argument;
            out_spelling->longs[long_count++] = (struct option){flag->name + 2, value, NULL, LONG_BASE + i};
            continue;
        }
        *letter++ = flag->name[1];
        if (flag->argument) {
            *letter++ = ':';
        }
    }
    out_spelling->longs[long_count] = (struct option){0};
    *letter = '\0';
}

static const struct flag *find(const struct flag_table *table, int value) {
    if (value >= LONG_BASE) {
        return &table->flags[value - LONG_BASE];
    }
    for (int i = 0; i < table->count; i++) {
        if (has(table, i) && !is_long(&table->flags[i]) && table->flags[i].name[1] == value) {
            return &table->flags[i];
        }
    }
    return NULL;
}

/* getopt_long accepts abbreviations; a script that uses one breaks when a flag is added. */
static bool is_abbreviated(const struct flag *flag, const char *word) {
    return is_long(flag) && strcspn(word, "=") != strlen(flag->name);
}

static enum tool_exit refuse_unknown(const char *word) {
    return tool_fail(TOOL_BAD_INPUT, "%s: no such flag; 'attune %s --help' lists them", word, tool_command());
}

/* found: what getopt_long said of word. */
static enum tool_exit take(const struct flag_table *table, int found, const char *word, bool *seen, char *options) {
    bool is_error = found == '?' || found == ':';
    const struct flag *flag = find(table, is_error ? optopt : found);
    if (!flag || is_abbreviated(flag, word)) {
        return refuse_unknown(word);
    }
    if (found == ':') {
        return tool_fail(TOOL_BAD_INPUT, "%s: needs a value, %s", flag->name, flag->argument);
    }
    if (found == '?') {
        return tool_fail(TOOL_BAD_INPUT, "%s: %s takes no value", word, flag->name);
    }
    if (seen[flag - table->flags]) {
        return tool_fail(TOOL_BAD_INPUT, "%s%s%s: the flag is given twice", flag->name, flag->argument ? " " : "",
                         flag->argument ? optarg : "");
    }
    seen[flag - table->flags] = true;
    return flag->set(flag, flag->argument ? optarg : NULL, options + flag->offset);
}

enum tool_exit flags_parse(const struct flag_table *table, int argc, char **argv, void *out_options) {
    struct spelling spelling;
    bool seen[FLAGS_MAX] = {false};
    spell(table, &spelling);
    opterr = 0;
    optind = 0; /* start afresh, whoever used getopt before */
    for (int next = 1;; next = optind) {
        int found = getopt_long(argc, argv, spelling.letters, spelling.longs, NULL);
        if (found == -1) {
            break;
        }
        enum tool_exit status = take(table, found, argv[next], seen, out_options);
        if (status) {
            return status;
        }
    }
    if (optind < argc) {
        return tool_fail(TOOL_BAD_INPUT, "%s: neither a flag nor the value of one", argv[optind]);
    }
    return TOOL_OK;
}

/* The first word of text; what stands in parentheses is one word, so that no shape is torn. */
static int word_length(const char *text) {
    int depth = 0;
    int length = 0;
    for (; text[length] && (depth > 0 || text[length] != ' '); length++) {
        depth += (text[length] == '(') - (text[length] == ')');
    }
    return length;
}

static void print_wrapped(const char *text) {
    int column = HELP_COLUMN;
    while (*text) {
        int length = word_length(text);
        if (column > HELP_COLUMN && column + 1 + length > HELP_WIDTH) {
            printf("\n%*s", HELP_COLUMN, "");
            column = HELP_COLUMN;
        }
        column += printf("%s%.*s", column > HELP_COLUMN ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    printf("\n");
}

static void print_flag(const struct flag *flag) {
    int width = printf("  %s%s%s", flag->name, flag->argument ? " " : "", flag->argument ? flag->argument : "");
    if (width > HELP_COLUMN - 2) {
        printf("\n");
        width = 0;
    }
    printf("%*s", HELP_COLUMN - width, "");
    print_wrapped(flag->help);
}

static void print_flags(const struct flag_table *table) {
    const char *group = NULL;
    for (int i = 0; i < table->count; i++) {
        const struct flag *flag = &table->flags[i];
        if (!has(table, i)) {
            continue;
        }
        if (!group || strcmp(group, flag->group) != 0) {
            printf("\n%s:\n", flag->group);
        }
        group = flag->group;
        print_flag(flag);
    }
}

void flags_print_help(const char *usage, const struct flag_table *table, const char *examples) {
    printf("%s", usage);
    print_flags(table);
    printf("%s\n%s", examples, tool_exit_help);
}
