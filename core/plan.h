/*
 * What a plan is inside core, and the steps of a call that one-call functions and plans share.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PLAN_H
#define ATTUNE_CORE_PLAN_H

#include "core/call.h"
#include "core/device_internal.h"
#include "core/kernel_table.h"

struct attune_plan {
    attune_device *device;
    attune_problem problem;
    struct attune_request request; /* kernel is the row's own name, or NULL */
    struct attune_choice choice;
    attune_workspace_map workspace;
    uint64_t tensor_bytes;
    void *handle; /* the backend's */
};

/* Turns args into a call: checks them, applies the device's settings, and looks at the pointers. allow_null: as in
 * attune_call_check_memory. */
attune_status attune_call_prepare(attune_device *device, attune_op op, const void *args, bool allow_null,
                                  struct attune_call *out_call);

/* Lays out the workspace of a choice that has a row. */
attune_status attune_plan_map_workspace(const attune_device *device, const attune_problem *problem,
                                        const struct attune_choice *choice, attune_workspace_map *out_map);

/* Chooses a kernel row, and has the backend build. UNSUPPORTED if no row computes it. Closed with attune_plan_close. */
attune_status attune_plan_build(attune_device *device, const struct attune_call *call, attune_plan **out_plan);

/* Checks the values in device memory if the call asks for it, and launches if there is anything to write. The call is
 * one of the plan's problem, the workspace large enough. lent_bytes: of the workspace, where it is the caller's. */
attune_status attune_plan_launch(const attune_plan *plan, attune_stream *stream, void *stream_handle,
                                 struct attune_call *call, attune_pointer workspace, uint64_t lent_bytes);

#endif
