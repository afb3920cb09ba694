/*
 * How core logs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_LOG_INTERNAL_H
#define ATTUNE_CORE_LOG_INTERNAL_H

#include <stdbool.h>

#include "attune/log.h"

/* Also host->log of backend.h. One line: line ends in the text become spaces. */
void attune_log_write(attune_log_level level, const char *format, ...) ATTUNE_PRINTF(2, 3);

/* The same, but a text that this process has logged in this way before is not said again. */
void attune_log_write_once(attune_log_level level, const char *format, ...) ATTUNE_PRINTF(2, 3);

/* What ATTUNE_LOG says; attune_log_set_level beats it. */
void attune_log_set_environment_level(attune_log_level level);

#endif
