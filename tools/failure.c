/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wording.h"

const char tool_exit_help[] = "Exit status:\n"
                              "  0  success\n"
                              "  2  bad input: a flag, a file, or a problem that no backend could accept\n"
                              "  3  unsupported: a valid problem that no kernel of the device computes\n"
                              "  4  unavailable: the backend or device could not be had, or does not exist\n"
                              "  1  anything else\n"
                              "On any status but 0 no output file is written.\n";

static const char *command_name = "";

void tool_set_command(const char *name) {
    command_name = name;
}

const char *tool_command(void) {
    return command_name;
}

static void begin_sentence(void) {
    fprintf(stderr, "attune%s%s: ", command_name[0] ? " " : "", command_name);
}

enum tool_exit tool_fail(enum tool_exit status, const char *format, ...) {
    begin_sentence();
    va_list values;
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    return status;
}

enum tool_exit tool_fail_library(attune_status status) {
    static const enum tool_exit exits[] = {
        [ATTUNE_INVALID_ARGUMENT] = TOOL_BAD_INPUT, [ATTUNE_UNSUPPORTED] = TOOL_UNSUPPORTED,
        [ATTUNE_UNAVAILABLE] = TOOL_UNAVAILABLE,    [ATTUNE_NOT_FOUND] = TOOL_BAD_INPUT,
        [ATTUNE_INCOMPATIBLE] = TOOL_UNAVAILABLE,   [ATTUNE_OUT_OF_MEMORY] = TOOL_FAILED,
        [ATTUNE_DEVICE_LOST] = TOOL_FAILED,         [ATTUNE_INTERNAL] = TOOL_FAILED,
    };
    begin_sentence();
    wording_print(stderr, attune_last_error());
    fputc('\n', stderr);
    return exits[status];
}

enum tool_exit tool_fail_file(enum files_status status, const char *flag, const char *message) {
    return tool_fail(status == FILES_INVALID ? TOOL_BAD_INPUT : TOOL_FAILED, "%s: %s", flag, message);
}

enum tool_exit tool_fail_memory(void) {
    return tool_fail(TOOL_FAILED, "out of memory");
}

enum tool_exit tool_flush(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return TOOL_OK;
    }
    return tool_fail(TOOL_FAILED, "standard output: %s", strerror(errno));
}
