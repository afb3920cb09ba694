/*
 * What run computes: the tensors for it, and which of them become files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_RESULTS_H
#define ATTUNE_TOOLS_RESULTS_H

#include "options.h"
#include "outputs.h"
#include "tensors.h"

/* Adds o, and lse and probs where they are wanted, filled with zeros: rows that no sequence owns are never written. */
enum tool_exit results_create_forward(const struct options *options, struct tensors *tensors,
                                      attune_attention_args *args);

/* Adds those of dq, dk, dv, dbias and dsink that are wanted; with no flag for any of them dq, dk and dv. */
enum tool_exit results_create_backward(const struct options *options, struct tensors *tensors,
                                       attune_attention_args *args);

/* Adds to outputs every tensor that a flag names, and o in any case. args has those of both passes. */
enum tool_exit results_collect(const struct options *options, struct tensors *tensors,
                               const attune_attention_args *args, struct outputs *outputs);

#endif
