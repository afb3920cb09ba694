/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/log_internal.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/env.h"
#include "core/intern.h"
#include "core/lock.h"
#include "core/text.h"

#define LINE_MAX_BYTES 4096

#define LEVEL_UNKNOWN (-1)

static atomic_int level_by_code = LEVEL_UNKNOWN;
static atomic_int level_by_environment = LEVEL_UNKNOWN;

static struct {
    attune_log_sink write; /* NULL: stderr */
    void *user_data;
} sink;

void attune_log_set_sink(attune_log_sink new_sink, void *user_data) {
    attune_lock_take(ATTUNE_LOCK_LOG_SINK);
    sink.write = new_sink;
    sink.user_data = user_data;
    attune_lock_release(ATTUNE_LOCK_LOG_SINK);
}

void attune_log_set_level(attune_log_level level) {
    int value = (int)level;
    value = value < ATTUNE_LOG_OFF ? ATTUNE_LOG_OFF : value;
    value = value > ATTUNE_LOG_DEBUG ? ATTUNE_LOG_DEBUG : value;
    atomic_store(&level_by_code, value);
}

void attune_log_set_environment_level(attune_log_level level) {
    atomic_store(&level_by_environment, (int)level);
}

static bool is_logged(attune_log_level level) {
    int most = atomic_load(&level_by_code);
    if (most == LEVEL_UNKNOWN) {
        most = atomic_load(&level_by_environment);
    }
    if (most == LEVEL_UNKNOWN) {
        most = (int)attune_env_log_level();
        attune_log_set_environment_level((attune_log_level)most);
    }
    return level > ATTUNE_LOG_OFF && (int)level <= most;
}

static void write_to_stderr(attune_log_level level, const char *line) {
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    fprintf(stderr, "attune: %s: %s\n", names[level], line);
}

/* The sink is called without the lock: it may be slow, and other threads log meanwhile. */
static void write_line(attune_log_level level, char *line) {
    for (char *at = line; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7F) {
            *at = ' ';
        }
    }
    attune_lock_take(ATTUNE_LOCK_LOG_SINK);
    attune_log_sink write = sink.write;
    void *user_data = sink.user_data;
    attune_lock_release(ATTUNE_LOCK_LOG_SINK);
    if (write != NULL) {
        write(user_data, level, line);
    } else {
        write_to_stderr(level, line);
    }
}

void attune_log_write(attune_log_level level, const char *format, ...) {
    if (!is_logged(level)) {
        return;
    }
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(line, sizeof line, format, arguments);
    va_end(arguments);
    write_line(level, line);
}

void attune_log_write_once(attune_log_level level, const char *format, ...) {
    static struct attune_intern_set said;
    if (!is_logged(level)) {
        return;
    }
    char line[LINE_MAX_BYTES];
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(line, sizeof line, format, arguments);
    va_end(arguments);
    bool is_new;
    if (attune_intern(&said, line, &is_new) == NULL || is_new) {
        write_line(level, line);
    }
}
