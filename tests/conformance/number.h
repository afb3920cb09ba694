/*
 * The number formats, read and written as the judge understands them: a text of its own, so that a fault in the
 * library's conversions does not hide behind itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_NUMBER_H
#define CONFORM_NUMBER_H

#include "attune/types.h"

/* Half a unit in the last place, relative: u of docs/semantics.md. */
double conform_number_unit(attune_dtype dtype);
double conform_number_smallest_normal(attune_dtype dtype);
double conform_number_largest(attune_dtype dtype);

/* How large ||X - G|| / ||G|| may be for results from inputs of a dtype: docs/semantics.md, "Accuracy". */
double conform_number_norm_limit(attune_dtype dtype);

/* value rounded to nearest even; too large gives infinity, in e4m3 the largest value. Floating dtypes only. */
void conform_number_store(attune_dtype dtype, double value, void *out_bytes);
double conform_number_load(attune_dtype dtype, const void *bytes);
double conform_number_round(attune_dtype dtype, double value);

#endif
