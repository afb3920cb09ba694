/*
 * Whether a run fits the plan it is given to.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_PLAN_MATCH_H
#define ATTUNE_CORE_PLAN_MATCH_H

#include "core/plan.h"

/* INVALID_ARGUMENT names the first argument that is not as planned, its value and the plan's. */
attune_status attune_plan_match_call(const attune_plan *plan, const struct attune_call *call);

/* INVALID_ARGUMENT if the workspace is too small, not aligned, or shares bytes with a tensor. */
attune_status attune_plan_match_workspace(const attune_plan *plan, const struct attune_call *call,
                                          attune_pointer workspace, uint64_t workspace_bytes);

#endif
