/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/tensor_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/overlap.h"
#include "core/status_internal.h"

struct attune_shape_text attune_shape_format(int32_t rank, const int64_t *shape) {
    struct attune_shape_text out;
    size_t used = 0;
    for (int32_t k = 0; k < rank; k++) {
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, "%s%" PRId64, k == 0 ? "(" : ", ", shape[k]);
    }
    snprintf(out.text + used, sizeof out.text - used, used == 0 ? "()" : ")");
    return out;
}

bool attune_tensor_is_absent(const attune_tensor *tensor) {
    static const attune_tensor absent;
    return memcmp(tensor, &absent, sizeof absent) == 0;
}

int64_t attune_extents_multiply(int64_t a, int64_t b, int64_t c, int64_t d) {
    const int64_t extents[] = {a, b, c, d};
    int64_t product = 1;
    for (size_t k = 0; k < sizeof extents / sizeof extents[0]; k++) {
        int64_t extent = extents[k] > 0 ? extents[k] : 1;
        if (extent > ATTUNE_ELEMENTS_MAX / product) {
            return -1;
        }
        product *= extent;
    }
    return product;
}

static attune_status check_fields(const char *argument, const attune_tensor *tensor) {
    if (tensor->dtype == ATTUNE_DTYPE_NONE) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.dtype = NONE while other fields are set: an absent tensor must be 0 in all of them",
                           argument);
    }
    if (attune_dtype_size_bytes(tensor->dtype) == 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.dtype = %d: must be one of attune_dtype", argument,
                           (int)tensor->dtype);
    }
    if ((uint32_t)tensor->memory > ATTUNE_MEMORY_SVM) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.memory = %d: must be one of attune_memory", argument,
                           (int)tensor->memory);
    }
    if (tensor->rank < 1 || tensor->rank > ATTUNE_RANK_MAX) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.rank = %" PRId32 ": must be 1 to %d", argument, tensor->rank,
                           ATTUNE_RANK_MAX);
    }
    if (tensor->reserved0 != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.reserved0 = %" PRId32 ": must be 0", argument,
                           tensor->reserved0);
    }
    for (int k = 0; k < 2; k++) {
        if (tensor->reserved[k] != 0) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.reserved[%d] = %" PRIu64 ": must be 0", argument, k,
                               tensor->reserved[k]);
        }
    }
    uint64_t size_bytes = attune_dtype_size_bytes(tensor->dtype);
    if (tensor->byte_offset % size_bytes != 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.byte_offset = %" PRIu64 ": must be a multiple of the element's %" PRIu64 " bytes",
                           argument, tensor->byte_offset, size_bytes);
    }
    return ATTUNE_OK;
}

static attune_status check_axis(const char *argument, const attune_tensor *tensor, int32_t axis, bool written) {
    int64_t extent = tensor->shape[axis];
    int64_t stride = tensor->stride[axis];
    if (axis >= tensor->rank && (extent != 0 || stride != 0)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.%s[%" PRId32 "] = %" PRId64 " with a rank of %" PRId32 ": must be 0, as it is not used",
                           argument, extent != 0 ? "shape" : "stride", axis, extent != 0 ? extent : stride,
                           tensor->rank);
    }
    if (extent < 0 || stride < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.%s[%" PRId32 "] = %" PRId64 ": must be 0 or more", argument,
                           extent < 0 ? "shape" : "stride", axis, extent < 0 ? extent : stride);
    }
    if (written && stride == 0 && extent > 1) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s.stride[%" PRId32 "] = 0 where shape[%" PRId32 "] = %" PRId64
                           ": must not be 0 in an output",
                           argument, axis, axis, extent);
    }
    return ATTUNE_OK;
}

/* The end of the tensor in bytes from data; false if that is more than a tensor may reach. */
static bool end_fits(const attune_tensor *tensor) {
    uint64_t size_bytes = attune_dtype_size_bytes(tensor->dtype);
    uint64_t limit = ATTUNE_SPAN_BYTES_MAX;
    if (tensor->byte_offset > limit - size_bytes) {
        return false;
    }
    uint64_t elements_left = (limit - size_bytes - tensor->byte_offset) / size_bytes;
    for (int32_t k = 0; k < tensor->rank; k++) {
        uint64_t steps = tensor->shape[k] > 0 ? (uint64_t)tensor->shape[k] - 1 : 0;
        uint64_t stride = (uint64_t)tensor->stride[k];
        if (stride > 0 && steps > elements_left / stride) {
            return false;
        }
        elements_left -= steps * stride;
    }
    return true;
}

attune_status attune_tensor_check(const char *argument, const attune_tensor *tensor, bool written) {
    attune_status status = check_fields(argument, tensor);
    for (int32_t k = 0; status == ATTUNE_OK && k < ATTUNE_RANK_MAX; k++) {
        status = check_axis(argument, tensor, k, written);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    const int64_t *shape = tensor->shape;
    if (attune_extents_multiply(shape[0], shape[1], shape[2], shape[3]) < 0) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s has shape %s: must have at most 2^60 elements", argument,
                           attune_shape_format(tensor->rank, shape).text);
    }
    if (!end_fits(tensor)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "%s has shape %s, stride %s and byte_offset %" PRIu64
                           ": must end at most 2^60 bytes from its data",
                           argument, attune_shape_format(tensor->rank, shape).text,
                           attune_shape_format(tensor->rank, tensor->stride).text, tensor->byte_offset);
    }
    return ATTUNE_OK;
}

/* "f16, bf16 or f32" */
static void format_dtypes(uint32_t dtypes, char *text, size_t capacity) {
    size_t used = 0;
    text[0] = '\0';
    for (int dtype = 0; dtypes != 0; dtype++) {
        if ((dtypes & ATTUNE_DTYPE_BIT(dtype)) == 0) {
            continue;
        }
        dtypes &= ~ATTUNE_DTYPE_BIT(dtype);
        const char *before = used == 0 ? "" : dtypes == 0 ? " or " : ", ";
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", before, attune_dtype_name((attune_dtype)dtype));
    }
}

attune_status attune_tensor_check_dtype(const char *argument, attune_dtype dtype, uint32_t allowed,
                                        const char *given_argument, attune_dtype given) {
    if ((ATTUNE_DTYPE_BIT(dtype) & allowed) != 0) {
        return ATTUNE_OK;
    }
    char names[80];
    format_dtypes(allowed, names, sizeof names);
    if (given_argument == NULL) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.dtype = %s: must be %s", argument, attune_dtype_name(dtype),
                           names);
    }
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s.dtype = %s: where %s is %s, must be %s", argument,
                       attune_dtype_name(dtype), given_argument, attune_dtype_name(given), names);
}
