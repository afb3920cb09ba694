/*
 * What bench and tune compute on: random tensors, since zeros and repeated values draw less power and run faster.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_FILL_H
#define ATTUNE_TOOLS_FILL_H

#include "random.h"
#include "tensors.h"

/* Fills a contiguous float tensor with normal numbers. Absent and empty tensors are left alone. */
enum tool_exit fill_normal(struct tensors *tensors, const attune_tensor *tensor, struct random *random);

/* Makes (count) i32, each the same. */
enum tool_exit fill_lengths(struct tensors *tensors, int64_t count, int64_t length, attune_tensor *out_tensor);

/* Makes a block table (batch, columns) in which each page is named once, in random order. */
enum tool_exit fill_pages(struct tensors *tensors, int64_t batch, int64_t columns, struct random *random,
                          attune_tensor *out_tensor);

#endif
