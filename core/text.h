/*
 * Sentences in buffers of fixed length.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_TEXT_H
#define ATTUNE_CORE_TEXT_H

#include <stdarg.h>
#include <stddef.h>

#include "attune/version.h"

/* Like snprintf, but a text that does not fit ends in "...". capacity: 4 or more. */
void attune_text_format(char *out_text, size_t capacity, const char *format, ...) ATTUNE_PRINTF(3, 4);
void attune_text_vformat(char *out_text, size_t capacity, const char *format, va_list arguments) ATTUNE_PRINTF(3, 0);

/* Adds to the end of a text that is in the buffer already. */
void attune_text_append(char *text, size_t capacity, const char *format, ...) ATTUNE_PRINTF(3, 4);

/* How many letters have to be added, dropped or replaced to make one word of the other. Only the first
 * ATTUNE_TEXT_WORD_MAX letters count. */
#define ATTUNE_TEXT_WORD_MAX 64
int attune_text_distance(const char *left, const char *right);

#endif
