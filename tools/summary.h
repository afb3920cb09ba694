/*
 * What run tells on stdout: the problem, the kernels, their times, the checksums of what they wrote, and the memory.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_SUMMARY_H
#define ATTUNE_TOOLS_SUMMARY_H

#include "attune/plan.h"
#include "memory_use.h"
#include "outputs.h"
#include "timing.h"

struct summary_pass {
    attune_op op; /* FORWARD or BACKWARD */
    const attune_attention_args *args;
    struct timing timing;
    char kernel[ATTUNE_NAME_MAX]; /* summary_complete sets it */
};

struct summary {
    struct summary_pass pass[2];
    int pass_count;
    attune_device_info device; /* summary_complete sets it */
    const struct outputs *outputs;
    bool tells_memory;
    struct memory_use memory; /* summary_complete sets it, if it is to be told */
};

/* Asks the library what device and kernels those are. */
enum tool_exit summary_complete(attune_device *device, struct summary *summary);

enum tool_exit summary_print(const struct summary *summary);
enum tool_exit summary_print_json(const struct summary *summary);

#endif
