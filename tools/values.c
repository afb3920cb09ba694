/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum tool_exit flag_refuse(const struct flag *flag, const char *text, const char *rule) {
    return tool_fail(TOOL_BAD_INPUT, "%s %s: %s", flag->name, text, rule);
}

enum tool_exit flag_set_switch(const struct flag *flag, const char *text, void *out_field) {
    (void)flag;
    (void)text;
    *(bool *)out_field = true;
    return TOOL_OK;
}

enum tool_exit flag_set_text(const struct flag *flag, const char *text, void *out_field) {
    if (!*text) {
        return flag_refuse(flag, "''", "the value is empty");
    }
    *(const char **)out_field = text;
    return TOOL_OK;
}

bool integer_read(const char *text, const char **out_end, int64_t *out_value) {
    if (!isdigit((unsigned char)text[*text == '-'])) {
        return false;
    }
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno) {
        return false;
    }
    *out_end = end;
    *out_value = value;
    return true;
}

bool integers_read(const char *text, char separator, int count, int64_t *out_values) {
    for (int i = 0; i < count; i++) {
        if (!integer_read(text, &text, &out_values[i])) {
            return false;
        }
        if (*text++ != (i + 1 < count ? separator : '\0')) {
            return false;
        }
    }
    return true;
}

bool number_read(const char *text, double *out_value) {
    if (isspace((unsigned char)*text) || !*text) {
        return false;
    }
    char *end;
    double value = strtod(text, &end);
    if (*end || !isfinite(value)) {
        return false;
    }
    *out_value = value;
    return true;
}

enum tool_exit flag_set_integer(const struct flag *flag, const char *text, void *out_field) {
    int64_t value;
    if (integers_read(text, ',', 1, &value) && value >= flag->least && value <= flag->most) {
        *(int64_t *)out_field = value;
        return TOOL_OK;
    }
    return tool_fail(TOOL_BAD_INPUT, "%s %s: an integer from %" PRId64 " to %" PRId64 " is needed", flag->name, text,
                     flag->least, flag->most);
}

enum tool_exit flag_set_optional_integer(const struct flag *flag, const char *text, void *out_field) {
    struct optional_integer *field = out_field;
    field->given = true;
    return flag_set_integer(flag, text, &field->value);
}

static bool u64_read(const char *text, uint64_t *out_value) {
    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end) {
        return false;
    }
    *out_value = value;
    return true;
}

enum tool_exit flag_set_u64(const struct flag *flag, const char *text, void *out_field) {
    if (u64_read(text, out_field)) {
        return TOOL_OK;
    }
    return flag_refuse(flag, text, "an integer from 0 to 18446744073709551615 is needed");
}

enum tool_exit flag_set_u32(const struct flag *flag, const char *text, void *out_field) {
    uint64_t value;
    if (!u64_read(text, &value) || value > UINT32_MAX) {
        return flag_refuse(flag, text, "an integer from 0 to 4294967295 is needed");
    }
    *(uint32_t *)out_field = (uint32_t)value;
    return TOOL_OK;
}

enum tool_exit flag_set_number(const struct flag *flag, const char *text, void *out_field) {
    struct optional_number *field = out_field;
    if (!number_read(text, &field->value)) {
        return flag_refuse(flag, text, "a finite number is needed");
    }
    field->given = true;
    return TOOL_OK;
}

enum tool_exit flag_set_tile(const struct flag *flag, const char *text, void *out_field) {
    int64_t sides[2];
    if (!integers_read(text, 'x', 2, sides) || sides[0] < 16 || sides[0] > 128 || sides[1] < 16 || sides[1] > 128) {
        return flag_refuse(flag, text, "a tile is BRxBC, each from 16 to 128");
    }
    *(struct tile_sides *)out_field = (struct tile_sides){sides[0], sides[1]};
    return TOOL_OK;
}
