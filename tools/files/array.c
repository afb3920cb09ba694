/* SPDX-License-Identifier: Apache-2.0 */
#include "array.h"

#include "allocate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Data goes from file to memory as it is, and the formats that we read are little-endian. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the host must be little-endian");

static const struct {
    const char *name;
    int bytes;
} array_types[] = {
    [ARRAY_NONE] = {"none", 0}, [ARRAY_F64] = {"f64", 8},   [ARRAY_F32] = {"f32", 4},   [ARRAY_F16] = {"f16", 2},
    [ARRAY_BF16] = {"bf16", 2}, [ARRAY_E4M3] = {"e4m3", 1}, [ARRAY_I64] = {"i64", 8},   [ARRAY_I32] = {"i32", 4},
    [ARRAY_I16] = {"i16", 2},   [ARRAY_I8] = {"i8", 1},     [ARRAY_U64] = {"u64", 8},   [ARRAY_U32] = {"u32", 4},
    [ARRAY_U16] = {"u16", 2},   [ARRAY_U8] = {"u8", 1},     [ARRAY_BOOL] = {"bool", 1},
};

int array_type_bytes(enum array_type type) {
    return array_types[type].bytes;
}

const char *array_type_name(enum array_type type) {
    return array_types[type].name;
}

bool array_measure(struct array *array) {
    int64_t extent_bytes = array_type_bytes(array->type);
    bool empty = false;
    for (int axis = 0; axis < array->rank; axis++) {
        if (array->shape[axis] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(extent_bytes, array->shape[axis], &extent_bytes)) {
            return false;
        }
    }
    array->bytes = empty ? 0 : extent_bytes;
    array->count = array->bytes / array_type_bytes(array->type);
    return true;
}

void array_shape_format(const struct array *array, char out_text[ARRAY_SHAPE_TEXT_BYTES]) {
    int length = snprintf(out_text, ARRAY_SHAPE_TEXT_BYTES, "(");
    for (int axis = 0; axis < array->rank; axis++) {
        length += snprintf(out_text + length, ARRAY_SHAPE_TEXT_BYTES - (size_t)length,
                           axis == 0 ? "%" PRId64 : ", %" PRId64, array->shape[axis]);
    }
    snprintf(out_text + length, ARRAY_SHAPE_TEXT_BYTES - (size_t)length, array->rank == 1 ? ",)" : ")");
}

enum files_status array_allocate(struct array *array, const struct files_report *report) {
    if (array->bytes == 0) {
        return FILES_OK;
    }
    return files_allocate(array->bytes, report, &array->data);
}

static inline void gather(const unsigned char *from, int64_t stride_bytes, int64_t count, size_t element_bytes,
                          unsigned char *to) {
    for (int64_t i = 0; i < count; i++) {
        memcpy(to + i * (int64_t)element_bytes, from + i * stride_bytes, element_bytes);
    }
}

/* One switch per row and not one per element: each call compiles to loads and stores of one size.
 */
static void gather_row(const unsigned char *from, int64_t stride_bytes, int64_t count, int element_bytes,
                       unsigned char *to) {
    switch (element_bytes) {
    case 1:
        gather(from, stride_bytes, count, 1, to);
        break;
    case 2:
        gather(from, stride_bytes, count, 2, to);
        break;
    case 4:
        gather(from, stride_bytes, count, 4, to);
        break;
    default:
        gather(from, stride_bytes, count, 8, to);
        break;
    }
}

/* Walks the rows of the C order; the odometer keeps where each starts in the Fortran order. */
static void copy_from_fortran(const struct array *array, unsigned char *to) {
    const int element_bytes = array_type_bytes(array->type);
    const int last = array->rank - 1;
    const unsigned char *from = array->data;
    int64_t stride_bytes[ARRAY_MAX_RANK];
    int64_t index[ARRAY_MAX_RANK] = {0};

    stride_bytes[0] = element_bytes;
    for (int axis = 1; axis < array->rank; axis++) {
        stride_bytes[axis] = stride_bytes[axis - 1] * array->shape[axis - 1];
    }

    const int64_t row_length = array->shape[last];
    const int64_t rows = array->count / row_length;
    for (int64_t row = 0; row < rows; row++) {
        gather_row(from, stride_bytes[last], row_length, element_bytes, to);
        to += row_length * element_bytes;
        for (int axis = last - 1; axis >= 0; --axis) {
            from += stride_bytes[axis];
            if (++index[axis] < array->shape[axis]) {
                break;
            }
            from -= stride_bytes[axis] * array->shape[axis];
            index[axis] = 0;
        }
    }
}

enum files_status array_reorder_from_fortran(struct array *array, const struct files_report *report) {
    if (array->rank < 2 || array->count < 2) {
        return FILES_OK;
    }
    void *reordered = NULL;
    const enum files_status status = files_allocate(array->bytes, report, &reordered);
    if (status != FILES_OK) {
        return status;
    }
    copy_from_fortran(array, reordered);
    free(array->data);
    array->data = reordered;
    return FILES_OK;
}

void array_release(struct array *array) {
    free(array->data);
    *array = (struct array){0};
}
