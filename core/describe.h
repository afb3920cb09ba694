/*
 * Problems in words, as the caller would say them: for errors, for explain, for the log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_DESCRIBE_H
#define ATTUNE_CORE_DESCRIBE_H

#include <stddef.h>

#include "attune/backend.h"

/* "forward", ...; "unknown" for a value outside the enum. */
const char *attune_op_name(attune_op op);

/* The option or argument behind a feature, by the number of its bit: "softcap", "cu_seqlens_q", ... */
const char *attune_feature_name(int32_t bit);

/* Adds the names of all features in the set, separated by ", ". */
void attune_describe_features(uint64_t features, char *text, size_t capacity);

/* Writes operation, dtype, sizes and options in one line. */
void attune_describe_problem(const attune_problem *problem, char *out_text, size_t capacity);

#endif
