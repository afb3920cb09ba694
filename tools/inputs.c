/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "convert.h"
#include "files/read.h"

static enum tool_exit read_file(const char *flag, const char *spec, struct array *out_array) {
    char message[FILES_MESSAGE_BYTES];
    enum files_status status = array_read(spec, out_array, message, sizeof message);
    return status ? tool_fail_file(status, flag, message) : TOOL_OK;
}

static enum tool_exit refuse_type(const char *flag, const char *spec, struct array *array, const char *rule) {
    enum tool_exit status =
        tool_fail(TOOL_BAD_INPUT, "%s %s: it holds %s: %s", flag, spec, array_type_name(array->type), rule);
    array_release(array);
    return status;
}

enum tool_exit input_read_floats(const char *flag, const char *spec, struct array *out_array) {
    struct array array;
    enum tool_exit status = read_file(flag, spec, &array);
    if (status) {
        return status;
    }
    if (!array_type_is_float(array.type)) {
        return refuse_type(flag, spec, &array, "f32, f16, bf16, e4m3 or f64 is needed");
    }
    *out_array = array;
    return TOOL_OK;
}

/* What becomes of an int64 that int32 does not have. */
enum range { RANGE_REFUSE, RANGE_SATURATE };

static int32_t saturate(int64_t value) {
    if (value > INT32_MAX) {
        return INT32_MAX;
    }
    return value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

/* In place: an element is written where none is read any more. */
static enum tool_exit narrow(const char *flag, const char *spec, enum range range, struct array *array) {
    const int64_t *wide = array->data;
    int32_t *narrowed = array->data;
    for (int64_t i = 0; i < array->count; i++) {
        int64_t value = wide[i];
        if (range == RANGE_REFUSE && saturate(value) != value) {
            return tool_fail(TOOL_BAD_INPUT, "%s %s: element %" PRId64 " is %" PRId64 ": it must fit in 32 bits", flag,
                             spec, i, value);
        }
        narrowed[i] = saturate(value);
    }
    array->type = ARRAY_I32;
    array->bytes = array->count * array_type_bytes(ARRAY_I32);
    return TOOL_OK;
}

static enum tool_exit read_integers(const char *flag, const char *spec, enum range range, struct array *out_array) {
    struct array array;
    enum tool_exit status = read_file(flag, spec, &array);
    if (status) {
        return status;
    }
    if (array.type != ARRAY_I32 && array.type != ARRAY_I64) {
        return refuse_type(flag, spec, &array, "i32 or i64 is needed");
    }
    if (array.type == ARRAY_I64) {
        status = narrow(flag, spec, range, &array);
    }
    if (status) {
        array_release(&array);
    } else {
        *out_array = array;
    }
    return status;
}

enum tool_exit input_read_integers(const char *flag, const char *spec, struct array *out_array) {
    return read_integers(flag, spec, RANGE_REFUSE, out_array);
}

enum tool_exit input_upload_floats(struct tensors *tensors, const char *flag, const char *spec,
                                   attune_tensor *out_tensor) {
    struct array array;
    enum tool_exit status = input_read_floats(flag, spec, &array);
    if (status) {
        return status;
    }
    status = tensors_upload(tensors, flag, &array, ATTUNE_DTYPE_F32, out_tensor);
    array_release(&array);
    return status;
}

static enum tool_exit upload_integers(struct tensors *tensors, const char *flag, const char *spec, enum range range,
                                      attune_tensor *out_tensor) {
    struct array array;
    enum tool_exit status = read_integers(flag, spec, range, &array);
    if (status) {
        return status;
    }
    status = tensors_upload(tensors, flag, &array, ATTUNE_DTYPE_I32, out_tensor);
    array_release(&array);
    return status;
}

enum tool_exit input_upload_integers(struct tensors *tensors, const char *flag, const char *spec,
                                     attune_tensor *out_tensor) {
    return upload_integers(tensors, flag, spec, RANGE_REFUSE, out_tensor);
}

enum tool_exit input_upload_pages(struct tensors *tensors, const char *flag, const char *spec,
                                  attune_tensor *out_tensor) {
    return upload_integers(tensors, flag, spec, RANGE_SATURATE, out_tensor);
}

enum tool_exit input_upload_mask(struct tensors *tensors, const char *flag, const char *spec,
                                 attune_tensor *out_tensor) {
    struct array array;
    enum tool_exit status = read_file(flag, spec, &array);
    if (status) {
        return status;
    }
    if (array.type != ARRAY_U8 && array.type != ARRAY_BOOL) {
        return refuse_type(flag, spec, &array, "u8 or bool is needed");
    }
    status = tensors_upload(tensors, flag, &array, ATTUNE_DTYPE_U8, out_tensor);
    array_release(&array);
    return status;
}
