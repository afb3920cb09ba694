/*
 * Numbers of files to numbers of tensors and back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_CONVERT_H
#define ATTUNE_TOOLS_CONVERT_H

#include <stdbool.h>

#include "attune/types.h"
#include "files/array.h"

bool array_type_is_float(enum array_type type);

/* The tensor dtype that holds a file's type as it is; f64 is taken as f32. NONE for all that is no float. */
attune_dtype array_type_to_dtype(enum array_type type);

/* Rounds count floats of a file's type to dtype (f32, f16, bf16 or e4m3), once, to nearest even. What is too large
 * becomes infinity, in e4m3 the largest value; NaN stays NaN. destination may not be source. */
void floats_round(const void *source, enum array_type type, int64_t count, attune_dtype dtype, void *destination);

/* Widens count elements of dtype (f32, f16, bf16 or e4m3) to f32, exactly. */
void floats_widen(const void *source, attune_dtype dtype, int64_t count, float *destination);

#endif
