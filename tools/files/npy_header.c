/* SPDX-License-Identifier: Apache-2.0 */
#include "npy_header.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char npy_magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    const char *name;
    enum array_type type;
} npy_types[] = {
    {"f8", ARRAY_F64}, {"f4", ARRAY_F32}, {"f2", ARRAY_F16}, {"i8", ARRAY_I64}, {"i4", ARRAY_I32}, {"i2", ARRAY_I16},
    {"i1", ARRAY_I8},  {"u8", ARRAY_U64}, {"u4", ARRAY_U32}, {"u2", ARRAY_U16}, {"u1", ARRAY_U8},  {"b1", ARRAY_BOOL},
};

enum { NPY_TYPE_COUNT = sizeof npy_types / sizeof npy_types[0] };

enum files_status npy_prefix_parse(const unsigned char *bytes, int64_t file_bytes, const struct files_report *report,
                                   int64_t *out_dictionary_offset, int64_t *out_dictionary_bytes) {
    /* The shortest prefix is that of version 1.0. */
    if (file_bytes < 10 || memcmp(bytes, npy_magic, sizeof npy_magic) != 0) {
        return files_report_fail(report, FILES_INVALID,
                                 "does not start as .npy does, with \\x93NUMPY, a version and a "
                                 "length (%" PRId64 " bytes)",
                                 file_bytes);
    }
    const int major = bytes[6], minor = bytes[7];
    if (major < 1 || major > 3 || minor != 0) {
        return files_report_fail(report, FILES_INVALID, ".npy version %d.%d; known are 1.0, 2.0 and 3.0", major, minor);
    }
    const int64_t offset = major == 1 ? 10 : 12;
    if (file_bytes < offset) {
        return files_report_fail(report, FILES_INVALID, "ends after %" PRId64 " bytes, within the length of its header",
                                 file_bytes);
    }
    int64_t length = bytes[8] | (int64_t)bytes[9] << 8;
    if (major > 1) {
        length |= (int64_t)bytes[10] << 16 | (int64_t)bytes[11] << 24;
    }
    if (length > NPY_HEADER_MAX_BYTES) {
        return files_report_fail(report, FILES_INVALID, "header of %" PRId64 " bytes; at most %d are read", length,
                                 (int)NPY_HEADER_MAX_BYTES);
    }
    if (length > file_bytes - offset) {
        return files_report_fail(report, FILES_INVALID,
                                 "header of %" PRId64 " bytes, but %" PRId64 " bytes are left in the file", length,
                                 file_bytes - offset);
    }
    *out_dictionary_offset = offset;
    *out_dictionary_bytes = length;
    return FILES_OK;
}

/* A place in the dictionary's text. */
struct cursor {
    const char *start;
    const char *at;
    const char *end;
    const struct files_report *report;
};

static enum files_status expected(const struct cursor *cursor, const char *what) {
    const long long offset = cursor->at - cursor->start;
    if (cursor->at == cursor->end) {
        return files_report_fail(cursor->report, FILES_INVALID, "header ends at byte %lld where %s is expected", offset,
                                 what);
    }
    return files_report_fail(cursor->report, FILES_INVALID, "header has '%c' at byte %lld where %s is expected",
                             *cursor->at == '\0' ? '?' : *cursor->at, offset, what);
}

static void skip_space(struct cursor *cursor) {
    while (cursor->at < cursor->end && *cursor->at != '\0' && strchr(" \t\r\n", *cursor->at)) {
        cursor->at++;
    }
}

static bool accept(struct cursor *cursor, char wanted) {
    skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted) {
        return false;
    }
    cursor->at++;
    return true;
}

static bool accept_word(struct cursor *cursor, const char *word) {
    const size_t length = strlen(word);
    skip_space(cursor);
    if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) {
        return false;
    }
    cursor->at += length;
    return true;
}

static bool is_digit(const struct cursor *cursor) {
    return cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9';
}

/* Long enough for the keys and for every type we know. */
enum { WORD_BYTES = 24 };

static enum files_status parse_string(struct cursor *cursor, const char *what, char out_word[WORD_BYTES]) {
    skip_space(cursor);
    if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"')) {
        return expected(cursor, what);
    }
    const char quote = *cursor->at++;
    int length = 0;
    while (cursor->at < cursor->end && *cursor->at != quote) {
        if (length == WORD_BYTES - 1 || *cursor->at == '\\' || *cursor->at < ' ') {
            return expected(cursor, "a short string without escapes");
        }
        out_word[length++] = *cursor->at++;
    }
    if (!accept(cursor, quote)) {
        return expected(cursor, "a closing quote");
    }
    out_word[length] = '\0';
    return FILES_OK;
}

static enum files_status parse_descr(struct cursor *cursor, enum array_type *out_type) {
    char descr[WORD_BYTES] = "";
    const enum files_status status = parse_string(cursor, "the type as a string (no structured types)", descr);
    if (status != FILES_OK) {
        return status;
    }
    if (descr[0] == '>') {
        return files_report_fail(cursor->report, FILES_INVALID,
                                 "descr '%s' is big-endian; only little-endian data is read", descr);
    }
    for (int i = 0; i < NPY_TYPE_COUNT; i++) {
        if (descr[0] != '\0' && strchr("<=|", descr[0]) && strcmp(descr + 1, npy_types[i].name) == 0) {
            *out_type = npy_types[i].type;
            return FILES_OK;
        }
    }
    char known[8 * NPY_TYPE_COUNT] = "";
    for (int i = 0; i < NPY_TYPE_COUNT; i++) {
        strcat(known, i == 0 ? "" : ", ");
        strcat(known, npy_types[i].name);
    }
    return files_report_fail(cursor->report, FILES_INVALID, "descr '%s' is not '<' or '|' and one of %s", descr, known);
}

static enum files_status parse_fortran_order(struct cursor *cursor, bool *out_fortran_order) {
    if (accept_word(cursor, "True")) {
        *out_fortran_order = true;
    } else if (accept_word(cursor, "False")) {
        *out_fortran_order = false;
    } else {
        return expected(cursor, "True or False");
    }
    return FILES_OK;
}

static enum files_status parse_size(struct cursor *cursor, int64_t *out_size) {
    if (accept(cursor, '-')) {
        return files_report_fail(cursor->report, FILES_INVALID, "shape has a negative size at byte %lld of the header",
                                 (long long)(cursor->at - 1 - cursor->start));
    }
    if (!is_digit(cursor)) {
        return expected(cursor, "a size");
    }
    const bool leading_zero = *cursor->at == '0';
    int64_t size = *cursor->at++ - '0';
    for (; is_digit(cursor); cursor->at++) {
        if (leading_zero) {
            return expected(cursor, "a size without leading zeros");
        }
        if (__builtin_mul_overflow(size, 10, &size) || __builtin_add_overflow(size, *cursor->at - '0', &size)) {
            return files_report_fail(cursor->report, FILES_INVALID,
                                     "shape has a size past 2^63 - 1 at byte %lld of the header",
                                     (long long)(cursor->at - cursor->start));
        }
    }
    *out_size = size;
    return FILES_OK;
}

static enum files_status parse_shape(struct cursor *cursor, struct array *array) {
    if (!accept(cursor, '(')) {
        return expected(cursor, "the shape as a tuple");
    }
    array->rank = 0;
    while (!accept(cursor, ')')) {
        if (array->rank == ARRAY_MAX_RANK) {
            return files_report_fail(cursor->report, FILES_INVALID, "shape has more than %d sizes; at most %d are read",
                                     (int)ARRAY_MAX_RANK, (int)ARRAY_MAX_RANK);
        }
        const enum files_status status = parse_size(cursor, &array->shape[array->rank]);
        if (status != FILES_OK) {
            return status;
        }
        array->rank++;
        if (accept(cursor, ',')) {
            continue;
        }
        /* In Python, (3) is a number; the tuple is (3,). */
        if (array->rank == 1 || !accept(cursor, ')')) {
            return expected(cursor, array->rank == 1 ? "','" : "',' or ')'");
        }
        break;
    }
    return FILES_OK;
}

enum { KEY_DESCR, KEY_FORTRAN_ORDER, KEY_SHAPE, KEY_COUNT };

static const char *const npy_keys[KEY_COUNT] = {"descr", "fortran_order", "shape"};

static enum files_status parse_key(struct cursor *cursor, bool seen[KEY_COUNT], int *out_key) {
    char word[WORD_BYTES];
    const enum files_status status = parse_string(cursor, "a key or '}'", word);
    if (status != FILES_OK) {
        return status;
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if (strcmp(word, npy_keys[key]) != 0) {
            continue;
        }
        if (seen[key]) {
            return files_report_fail(cursor->report, FILES_INVALID, "header has key '%s' twice", word);
        }
        seen[key] = true;
        *out_key = key;
        return accept(cursor, ':') ? FILES_OK : expected(cursor, "':'");
    }
    return files_report_fail(cursor->report, FILES_INVALID,
                             "header has key '%s'; known are descr, fortran_order and shape", word);
}

static enum files_status parse_entry(struct cursor *cursor, bool seen[KEY_COUNT], struct array *array,
                                     bool *fortran_order) {
    int key = KEY_COUNT;
    const enum files_status status = parse_key(cursor, seen, &key);
    if (status != FILES_OK) {
        return status;
    }
    if (key == KEY_DESCR) {
        return parse_descr(cursor, &array->type);
    }
    if (key == KEY_FORTRAN_ORDER) {
        return parse_fortran_order(cursor, fortran_order);
    }
    return parse_shape(cursor, array);
}

static enum files_status parse_entries(struct cursor *cursor, struct array *array, bool *fortran_order) {
    bool seen[KEY_COUNT] = {false};
    if (!accept(cursor, '{')) {
        return expected(cursor, "'{'");
    }
    while (!accept(cursor, '}')) {
        const enum files_status status = parse_entry(cursor, seen, array, fortran_order);
        if (status != FILES_OK) {
            return status;
        }
        if (accept(cursor, ',')) {
            continue;
        }
        if (!accept(cursor, '}')) {
            return expected(cursor, "',' or '}'");
        }
        break;
    }
    for (int key = 0; key < KEY_COUNT; key++) {
        if (!seen[key]) {
            return files_report_fail(cursor->report, FILES_INVALID, "header has no key '%s'", npy_keys[key]);
        }
    }
    return FILES_OK;
}

enum files_status npy_dictionary_parse(const char *text, int64_t text_bytes, const struct files_report *report,
                                       struct array *out_array, bool *out_fortran_order) {
    struct cursor cursor = {.start = text, .at = text, .end = text + text_bytes, .report = report};
    struct array array = {0};
    bool fortran_order = false;
    const enum files_status status = parse_entries(&cursor, &array, &fortran_order);
    if (status != FILES_OK) {
        return status;
    }
    skip_space(&cursor);
    if (cursor.at != cursor.end) {
        return expected(&cursor, "nothing but spaces");
    }
    if (cursor.end[-1] != '\n') {
        return files_report_fail(report, FILES_INVALID, "header does not end with a newline");
    }
    if (!array_measure(&array)) {
        char shape[ARRAY_SHAPE_TEXT_BYTES];
        array_shape_format(&array, shape);
        return files_report_fail(report, FILES_INVALID, "shape %s of %s has more than 2^63 - 1 bytes", shape,
                                 array_type_name(array.type));
    }
    *out_array = array;
    *out_fortran_order = fortran_order;
    return FILES_OK;
}

static const char *type_name(enum array_type type) {
    for (int i = 0; i < NPY_TYPE_COUNT; i++) {
        if (npy_types[i].type == type) {
            return npy_types[i].name;
        }
    }
    return NULL;
}

enum files_status npy_header_format(const struct array *array, const struct files_report *report,
                                    char out_text[NPY_FORMAT_BYTES], size_t *out_text_bytes) {
    const char *type = type_name(array->type);
    if (type == NULL) {
        return files_report_fail(report, FILES_INVALID, ".npy has no type for %s", array_type_name(array->type));
    }
    char shape[ARRAY_SHAPE_TEXT_BYTES];
    array_shape_format(array, shape);
    const int prefix_bytes = 10;
    const int written = snprintf(out_text + prefix_bytes, NPY_FORMAT_BYTES - (size_t)prefix_bytes,
                                 "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                                 array_type_bytes(array->type) == 1 ? '|' : '<', type, shape);
    /* One byte is the newline. */
    const int total_bytes = (prefix_bytes + written + 1 + 63) / 64 * 64;
    const int dictionary_bytes = total_bytes - prefix_bytes;
    memset(out_text + prefix_bytes + written, ' ', (size_t)(dictionary_bytes - written - 1));
    out_text[total_bytes - 1] = '\n';

    memcpy(out_text, npy_magic, sizeof npy_magic);
    out_text[6] = 1;
    out_text[7] = 0;
    out_text[8] = (char)(dictionary_bytes & 0xff);
    out_text[9] = (char)(dictionary_bytes >> 8);
    *out_text_bytes = (size_t)total_bytes;
    return FILES_OK;
}
