/*
 * What the options ask for, as the args of the library's calls.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_ARGUMENTS_H
#define ATTUNE_TOOLS_ARGUMENTS_H

#include "options.h"
#include "tensors.h"

/* The args of forward, without its outputs: q, k and v from their files. tensors owns what is put on the device. */
enum tool_exit arguments_from_files(const struct options *options, struct tensors *tensors,
                                    attune_attention_args *out_args);

/* The same where --shape stands for q, k and v. */
enum tool_exit arguments_from_shape(const struct options *options, struct tensors *tensors,
                                    attune_attention_args *out_args);

/* Adds --do, rounded to o's dtype, and --dlse. */
enum tool_exit arguments_load_gradients(const struct options *options, struct tensors *tensors,
                                        attune_attention_args *args);

/* --knew or --vnew: rows of the cache's dtype, or f32 under an e4m3 cache, which the append converts. */
enum tool_exit arguments_load_new(const struct options *options, struct tensors *tensors, enum option_file file,
                                  attune_dtype cache_dtype, attune_tensor *out_tensor);

/* B: sequences of the problem. */
int64_t arguments_batch(const attune_attention_args *args);

/* Whether q, or k and v, lie in their files with heads before rows. */
bool arguments_exchange_q(const struct options *options);
bool arguments_exchange_k(const struct options *options);

#endif
