/*
 * The device that a command works on.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_BACKEND_H
#define ATTUNE_TOOLS_BACKEND_H

#include "attune/device.h"
#include "failure.h"

#define BACKEND_ARGUMENT "B"
#define BACKEND_HELP                                                                                                   \
    "auto, cpu, cuda:1, or several in order, as hip,cpu; default the variable ATTUNE_BACKEND, or auto. A name or "     \
    "device that does not exist is unavailable too (exit 4)"

/* Opens the device that --backend names; NULL: the library's choice. attune_device_close closes it. */
enum tool_exit backend_open(const char *selector, attune_device **out_device);

#endif
