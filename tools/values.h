/*
 * The values of flags: text to numbers, words and lists, exactly or not at all.
 *
 * Each setter is a flag_setter; the comment names the type of the field.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_VALUES_H
#define ATTUNE_TOOLS_VALUES_H

#include <stdbool.h>

#include "flags.h"

struct optional_number {
    bool given;
    double value;
};

struct optional_integer {
    bool given;
    int64_t value;
};

struct tile_sides {
    int64_t rows; /* 0: automatic */
    int64_t keys;
};

/* Names flag, value and rule. */
enum tool_exit flag_refuse(const struct flag *flag, const char *text, const char *rule);

/* bool */
enum tool_exit flag_set_switch(const struct flag *flag, const char *text, void *out_field);
/* const char *; not empty */
enum tool_exit flag_set_text(const struct flag *flag, const char *text, void *out_field);
/* int64_t in [flag->least, flag->most] */
enum tool_exit flag_set_integer(const struct flag *flag, const char *text, void *out_field);
/* struct optional_integer, likewise */
enum tool_exit flag_set_optional_integer(const struct flag *flag, const char *text, void *out_field);
/* uint64_t */
enum tool_exit flag_set_u64(const struct flag *flag, const char *text, void *out_field);
/* uint32_t */
enum tool_exit flag_set_u32(const struct flag *flag, const char *text, void *out_field);
/* struct optional_number, finite */
enum tool_exit flag_set_number(const struct flag *flag, const char *text, void *out_field);
/* struct tile_sides */
enum tool_exit flag_set_tile(const struct flag *flag, const char *text, void *out_field);

/* A decimal integer from the start of text, an optional '-' and digits; *out_end is what follows. False if there is
 * none or it does not fit. */
bool integer_read(const char *text, const char **out_end, int64_t *out_value);

/* count integers with one separator between them, and nothing else. */
bool integers_read(const char *text, char separator, int count, int64_t *out_values);

/* A finite number in the C locale's notation, and nothing else. */
bool number_read(const char *text, double *out_value);

#endif
