/*
 * How core reports an error: it sets this thread's sentence and returns the status.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_STATUS_INTERNAL_H
#define ATTUNE_CORE_STATUS_INTERNAL_H

#include "attune/status.h"

/* Also host->fail of backend.h. The sentence is cut at a few kilobytes. status must not be ATTUNE_OK. */
attune_status attune_fail(attune_status status, const char *format, ...) ATTUNE_PRINTF(2, 3);

#endif
