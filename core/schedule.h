/*
 * How a kernel row goes about a problem: tile, pack, splits and grid, and where its scratch lies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_SCHEDULE_H
#define ATTUNE_CORE_SCHEDULE_H

#include "core/call.h"

/* False, with a sentence, if the row cannot be fitted into the device. Requests are honoured as far as the row can. */
bool attune_schedule_make(const attune_device_limits *limits, const attune_problem *problem,
                          const attune_kernel_row *row, const struct attune_request *request,
                          attune_schedule *out_schedule, char out_reason[ATTUNE_REASON_MAX]);

/* Where each region of scratch begins is a multiple of this; so is the workspace's own address. */
#define ATTUNE_WORKSPACE_ALIGNMENT 256

/* Lays out the partial results of the schedule's splits and own_bytes of the backend's. OUT_OF_MEMORY if their sizes
 * do not fit 64 bits. */
attune_status attune_workspace_map_make(const attune_problem *problem, const attune_schedule *schedule,
                                        uint64_t own_bytes, attune_workspace_map *out_map);

#endif
