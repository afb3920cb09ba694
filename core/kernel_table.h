/*
 * A backend's kernel rows against a problem: which one computes it, and why the others do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_KERNEL_TABLE_H
#define ATTUNE_CORE_KERNEL_TABLE_H

#include "core/call.h"
#include "core/device_internal.h"

/* A row as this library knows it: fields that the backend was compiled without are 0. index is in range. */
attune_kernel_row attune_kernel_row_get(const attune_backend *backend, int32_t index);

int32_t attune_kernel_row_count(const attune_backend *backend);

struct attune_choice {
    int32_t row; /* index; -1: none, and what follows is zero */
    attune_kernel_row kernel;
    attune_schedule schedule;
    bool tile_is_tuned;
};

/* Where refused rows are listed. Rows of other operations are not refused, they are not asked. */
struct attune_refusal_list {
    attune_refusal *refusals; /* NULL: only count */
    int32_t capacity;
    int32_t count; /* however many fit */
};

/* Takes the first row that computes the problem, and of several the first that honours the request for tile and
 * splits. That there is none is not an error: row is -1.
 *
 * refusals: count is added to. Errors: NOT_FOUND (request->kernel names no row of the operation). */
attune_status attune_kernel_choose(const attune_device *device, const attune_problem *problem,
                                   const struct attune_request *request, struct attune_refusal_list *refusals,
                                   struct attune_choice *out_choice);

/* Returns UNSUPPORTED, with the sentence that has a line for each row refused. */
attune_status attune_kernel_fail_unsupported(const attune_device *device, const attune_problem *problem,
                                             const struct attune_request *request);

#endif
