/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/status_internal.h"

#include <stdarg.h>
#include <string.h>

#include "core/text.h"

static _Thread_local char sentence[ATTUNE_SENTENCE_MAX];

const char *attune_status_name(attune_status status) {
    static const char *const names[] = {
        [ATTUNE_OK] = "OK",
        [ATTUNE_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
        [ATTUNE_UNSUPPORTED] = "UNSUPPORTED",
        [ATTUNE_UNAVAILABLE] = "UNAVAILABLE",
        [ATTUNE_NOT_FOUND] = "NOT_FOUND",
        [ATTUNE_INCOMPATIBLE] = "INCOMPATIBLE",
        [ATTUNE_OUT_OF_MEMORY] = "OUT_OF_MEMORY",
        [ATTUNE_DEVICE_LOST] = "DEVICE_LOST",
        [ATTUNE_INTERNAL] = "INTERNAL",
    };
    size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "UNKNOWN";
}

const char *attune_last_error(void) {
    return sentence;
}

attune_status attune_fail(attune_status status, const char *format, ...) {
    char text[ATTUNE_SENTENCE_MAX];
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(sentence, text, strlen(text) + 1);
    return status;
}

void attune_sentence_save(struct attune_sentence *out_saved) {
    memcpy(out_saved->text, sentence, strlen(sentence) + 1);
}

void attune_sentence_restore(const struct attune_sentence *saved) {
    memcpy(sentence, saved->text, strlen(saved->text) + 1);
}

void attune_sentence_clear(void) {
    sentence[0] = '\0';
}
