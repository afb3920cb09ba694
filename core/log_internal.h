/*
 * How core logs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_LOG_INTERNAL_H
#define ATTUNE_CORE_LOG_INTERNAL_H

#include "attune/log.h"

/* Also host->log of backend.h. */
void attune_log_write(attune_log_level level, const char *format, ...) ATTUNE_PRINTF(2, 3);

#endif
