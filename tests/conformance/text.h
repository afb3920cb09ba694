/*
 * Text that is put together in a fixed buffer, and cut where that is full.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_TEXT_H
#define CONFORM_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "attune/version.h"

struct conform_text {
    char *bytes;
    size_t capacity;
    size_t length;
};

static inline void conform_text_add_v(struct conform_text *text, const char *format, va_list list) {
    int count = vsnprintf(text->bytes + text->length, text->capacity - text->length, format, list);
    if (count > 0) {
        text->length += (size_t)count;
    }
    if (text->length >= text->capacity) {
        text->length = text->capacity - 1;
    }
}

ATTUNE_PRINTF(2, 3) static inline void conform_text_add(struct conform_text *text, const char *format, ...) {
    va_list list;
    va_start(list, format);
    conform_text_add_v(text, format, list);
    va_end(list);
}

#endif
