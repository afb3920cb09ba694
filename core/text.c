/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/text.h"

#include <stdio.h>
#include <string.h>

static const char cut_mark[] = "...";

void attune_text_vformat(char *out_text, size_t capacity, const char *format, va_list arguments) {
    int length = vsnprintf(out_text, capacity, format, arguments);
    if (length < 0) {
        out_text[0] = '\0';
    } else if ((size_t)length >= capacity) {
        memcpy(out_text + capacity - sizeof cut_mark, cut_mark, sizeof cut_mark);
    }
}

void attune_text_format(char *out_text, size_t capacity, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(out_text, capacity, format, arguments);
    va_end(arguments);
}

void attune_text_append(char *text, size_t capacity, const char *format, ...) {
    size_t used = strlen(text);
    if (capacity - used < sizeof cut_mark) {
        used = capacity - sizeof cut_mark;
    }
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(text + used, capacity - used, format, arguments);
    va_end(arguments);
}

static int least(int left, int right) {
    return left < right ? left : right;
}

/* Wagner and Fischer, The String-to-String Correction Problem (1974), one row at a time. */
int attune_text_distance(const char *left, const char *right) {
    size_t left_length = strnlen(left, ATTUNE_TEXT_WORD_MAX);
    size_t right_length = strnlen(right, ATTUNE_TEXT_WORD_MAX);
    int row[ATTUNE_TEXT_WORD_MAX + 1];
    for (size_t j = 0; j <= right_length; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= left_length; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= right_length; j++) {
            int replaced = diagonal + (left[i - 1] != right[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[right_length];
}
