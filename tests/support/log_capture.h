/*
 * A log sink that keeps what was said, for tests of one thread or many.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_LOG_CAPTURE_H
#define ATTUNE_TESTS_LOG_CAPTURE_H

#include <pthread.h>
#include <string.h>

#include "attune/log.h"

struct log_capture {
    pthread_mutex_t lock;
    int count;
    char text[16384]; /* a line each; further ones are only counted */
};

static inline void log_capture_sink(void *user_data, attune_log_level level, const char *message) {
    struct log_capture *capture = user_data;
    (void)level;
    pthread_mutex_lock(&capture->lock);
    size_t used = strlen(capture->text);
    if (used + strlen(message) + 2 <= sizeof capture->text) {
        strcpy(capture->text + used, message);
        strcat(capture->text, "\n");
    }
    capture->count++;
    pthread_mutex_unlock(&capture->lock);
}

static inline void log_capture_start(struct log_capture *capture, attune_log_level level) {
    memset(capture, 0, sizeof *capture);
    pthread_mutex_init(&capture->lock, NULL);
    attune_log_set_level(level);
    attune_log_set_sink(log_capture_sink, capture);
}

static inline void log_capture_stop(struct log_capture *capture) {
    attune_log_set_sink(NULL, NULL);
    pthread_mutex_destroy(&capture->lock);
}

#endif
