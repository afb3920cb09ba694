/*
 * What a CPU could do at best, measured: no driver tells it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_CEILING_H
#define ATTUNE_TOOLS_CEILING_H

#include "attune/device.h"

struct ceiling {
    double flops_per_second; /* f32 multiply-adds in registers, counted as two; 0: unknown */
    double bytes_per_second; /* read from memory; 0: unknown */
};

/* The device's own, or what its limits.processors threads measure in some tenths of a second, once in a process. */
struct ceiling ceiling_of(const attune_device_limits *limits);

#endif
