/*
 * What devices --verbose adds for one device: its limits and kernel rows. A device that cannot be opened is told of by
 * the reason, and is no failure.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_DEVICES_VERBOSE_H
#define ATTUNE_TOOLS_DEVICES_VERBOSE_H

#include "json.h"

enum tool_exit devices_print_verbose(const char *selector);

/* Adds "limits" and "kernels", or "error". */
enum tool_exit devices_add_verbose(cJSON *device, const char *selector);

#endif
