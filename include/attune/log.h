/*
 * What attune says while it works: to stderr, or to the caller's sink.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_LOG_H
#define ATTUNE_LOG_H

#include "attune/version.h"

ATTUNE_EXTERN_C_BEGIN

/* ATTUNE_LOG=off|error|warn|info|debug sets the level; the default is warn. A message is logged if its level is not
 * above the one that is set. */
typedef enum attune_log_level {
    ATTUNE_LOG_OFF = 0,
    ATTUNE_LOG_ERROR = 1, /* something failed and no status could say so */
    ATTUNE_LOG_WARN = 2,  /* the result is right, but probably not what the caller meant */
    ATTUNE_LOG_INFO = 3,  /* what was chosen, once per choice */
    ATTUNE_LOG_DEBUG = 4  /* every plan */
} attune_log_level;

/* Receives one line without its line end. message is valid during the call only. The sink may be called from any
 * thread, several at once; it must not call attune. */
typedef void (*attune_log_sink)(void *user_data, attune_log_level level, const char *message);

/* Replaces where messages go; NULL brings stderr back.
 *
 * Ownership: user_data stays the caller's and must live until the sink is replaced and no call is in flight.
 * Threads: any. Errors: none. */
ATTUNE_API void attune_log_set_sink(attune_log_sink sink, void *user_data);

/* Sets the level; it beats ATTUNE_LOG from then on.
 *
 * level: one of the enum; a value outside is clamped to the nearest. Threads: any. Errors: none. */
ATTUNE_API void attune_log_set_level(attune_log_level level);

ATTUNE_EXTERN_C_END

#endif
