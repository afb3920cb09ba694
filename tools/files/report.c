/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>

static void replace_control_characters(char *text) {
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f) {
            *text = '?';
        }
    }
}

enum files_status files_report_fail(const struct files_report *report, enum files_status status, const char *format,
                                    ...) {
    if (report->text_bytes == 0) {
        return status;
    }
    const int prefix = snprintf(report->text, report->text_bytes, "%s: ", report->file);
    if (prefix > 0 && (size_t)prefix < report->text_bytes) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(report->text + prefix, report->text_bytes - (size_t)prefix, format, arguments);
        va_end(arguments);
    }
    replace_control_characters(report->text);
    return status;
}
