/*
 * What a tensor must be by itself, and which dtypes it may have.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_TENSOR_RULES_H
#define ATTUNE_CORE_TENSOR_RULES_H

#include "attune/backend.h"

#define ATTUNE_DTYPE_BIT(dtype) (UINT32_C(1) << (dtype))

/* Elements of a tensor, and bytes from data to its end, go no further than this: 64-bit arithmetic on a few of them
 * cannot overflow. */
#define ATTUNE_ELEMENTS_MAX (INT64_C(1) << 60)

/* "(2, 16, 8, 64)" */
struct attune_shape_text {
    char text[96];
};
struct attune_shape_text attune_shape_format(int32_t rank, const int64_t *shape);

/* Whether a tensor is absent: zero in all fields. */
bool attune_tensor_is_absent(const attune_tensor *tensor);

static inline attune_pointer attune_tensor_pointer(const attune_tensor *tensor) {
    return (attune_pointer){tensor->data, tensor->byte_offset, tensor->memory};
}

/* Checks the fields against each other: known enums, rank, extents and strides that are 0 or more, zeroes where types.h
 * says so, an offset that is a multiple of the element, sizes that fit. written: no stride is 0. */
ATTUNE_MUST_CHECK attune_status attune_tensor_check(const char *argument, const attune_tensor *tensor, bool written);

/* a * b * c * d, each taken as 1 if it is 0; -1 if that is more than ATTUNE_ELEMENTS_MAX. */
int64_t attune_extents_multiply(int64_t a, int64_t b, int64_t c, int64_t d);

/* Checks dtype against the bits allowed. given: what allowed depends on, as "q of e4m3"; NULL if on nothing. */
ATTUNE_MUST_CHECK attune_status attune_tensor_check_dtype(const char *argument, attune_dtype dtype, uint32_t allowed,
                                                          const char *given_argument, attune_dtype given);

#endif
