/*
 * One problem of bench and tune, on one device: --shape and the other options, with random tensors.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_WORKLOAD_H
#define ATTUNE_TOOLS_WORKLOAD_H

#include "options.h"
#include "tensors.h"

struct workload {
    struct options options; /* borrows from the command's: not released */
    struct tensors tensors;
    attune_op op;
    attune_attention_args attention;   /* FORWARD, BACKWARD; of APPEND q, and the cache as k and v */
    attune_kvcache_append_args append; /* APPEND */
};

/* length: in place of the shape's own, 0 for those. Of backward forward has run once. Released also after an error. */
enum tool_exit workload_create(const struct options *options, attune_device *device, int64_t length,
                               struct workload *out_workload);
void workload_release(struct workload *workload);

/* The args that op names. */
const void *workload_args(const struct workload *workload);

void workload_set_check(struct workload *workload, bool check);
void workload_set_kernel(struct workload *workload, const char *kernel);

#endif
