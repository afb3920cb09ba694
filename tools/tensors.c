/* SPDX-License-Identifier: Apache-2.0 */
#include "tensors.h"

#include <stdlib.h>
#include <string.h>

#include "convert.h"

void tensors_release(struct tensors *tensors) {
    while (tensors->count > 0) {
        attune_memory_free(tensors->device, tensors->memory[--tensors->count]);
    }
}

static enum tool_exit measure(attune_dtype dtype, int rank, const int64_t *shape, int64_t *out_bytes) {
    struct array array = {.type = ARRAY_U8, .rank = rank};
    memcpy(array.shape, shape, (size_t)rank * sizeof *shape);
    int64_t element_bytes = (int64_t)attune_dtype_size_bytes(dtype);
    if (array_measure(&array) && array.bytes <= INT64_MAX / element_bytes) {
        *out_bytes = array.bytes * element_bytes;
        return TOOL_OK;
    }
    char text[ARRAY_SHAPE_TEXT_BYTES];
    array_shape_format(&array, text);
    return tool_fail(TOOL_BAD_INPUT, "a tensor of shape %s and dtype %s: its bytes must fit in 63 bits", text,
                     attune_dtype_name(dtype));
}

static enum tool_exit allocate(struct tensors *tensors, attune_dtype dtype, int rank, const int64_t *shape,
                               attune_tensor *out_tensor, int64_t *out_bytes) {
    void *data = NULL;
    enum tool_exit status = measure(dtype, rank, shape, out_bytes);
    if (status) {
        return status;
    }
    if (!tensors->shapes_only && *out_bytes > 0) {
        if (tensors->count == TENSORS_MAX) {
            return tool_fail(TOOL_FAILED, "more than %d tensors", TENSORS_MAX);
        }
        attune_status allocated =
            attune_memory_alloc(tensors->device, ATTUNE_MEMORY_DEFAULT, (uint64_t)*out_bytes, &data);
        if (allocated != ATTUNE_OK) {
            return tool_fail_library(allocated);
        }
        tensors->memory[tensors->count++] = data;
    }
    *out_tensor = attune_tensor_contiguous(data, dtype, rank, shape);
    return TOOL_OK;
}

/* Waits, since the host's side of a copy may go at once. */
static enum tool_exit finish(struct tensors *tensors, attune_status queued) {
    attune_status status = queued == ATTUNE_OK ? attune_stream_synchronize(tensors->device, NULL) : queued;
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

enum tool_exit tensors_create(struct tensors *tensors, attune_dtype dtype, int rank, const int64_t *shape,
                              attune_tensor *out_tensor) {
    int64_t bytes;
    enum tool_exit status = allocate(tensors, dtype, rank, shape, out_tensor, &bytes);
    if (status || !out_tensor->data) {
        return status;
    }
    return finish(tensors, attune_memory_fill(tensors->device, NULL, out_tensor->data, 0, (uint64_t)bytes, 0));
}

enum tool_exit tensors_create_like(struct tensors *tensors, const attune_tensor *model, attune_tensor *out_tensor) {
    attune_tensor created;
    enum tool_exit status = tensors_create(tensors, model->dtype, model->rank, model->shape, &created);
    if (status) {
        return status;
    }
    *out_tensor = *model;
    out_tensor->data = created.data;
    return TOOL_OK;
}

/* The array's elements as dtype has them. *out_owned is what is to be freed, NULL if they are the array's own. */
static enum tool_exit convert(const struct array *array, attune_dtype dtype, const void **out_data, void **out_owned) {
    *out_data = array->data;
    *out_owned = NULL;
    if (!array_type_is_float(array->type)) {
        return TOOL_OK;
    }
    void *converted = malloc((size_t)array->count * attune_dtype_size_bytes(dtype));
    if (!converted) {
        return tool_fail_memory();
    }
    floats_round(array->data, array->type, array->count, dtype, converted);
    *out_data = *out_owned = converted;
    return TOOL_OK;
}

enum tool_exit tensors_upload(struct tensors *tensors, const char *flag, const struct array *array, attune_dtype dtype,
                              attune_tensor *out_tensor) {
    static const int64_t scalar_shape[] = {1};
    if (array->rank > ATTUNE_RANK_MAX) {
        return tool_fail(TOOL_BAD_INPUT, "%s: the file holds %d axes: a tensor has at most %d", flag, array->rank,
                         ATTUNE_RANK_MAX);
    }
    bool is_scalar = array->rank == 0;
    int64_t bytes;
    enum tool_exit status = allocate(tensors, dtype, is_scalar ? 1 : array->rank,
                                     is_scalar ? scalar_shape : array->shape, out_tensor, &bytes);
    if (status || !out_tensor->data) {
        return status;
    }
    const void *data;
    void *owned;
    status = convert(array, dtype, &data, &owned);
    if (!status) {
        status = finish(tensors, attune_memory_copy(tensors->device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, out_tensor->data,
                                                    0, data, 0, (uint64_t)bytes));
    }
    free(owned);
    return status;
}

int64_t tensor_count(const attune_tensor *tensor) {
    int64_t count = 1;
    for (int axis = 0; axis < tensor->rank; axis++) {
        count *= tensor->shape[axis];
    }
    return count;
}

static uint64_t tensor_bytes(const attune_tensor *tensor) {
    return (uint64_t)tensor_count(tensor) * attune_dtype_size_bytes(tensor->dtype);
}

enum tool_exit tensors_set(struct tensors *tensors, const attune_tensor *tensor, const void *data) {
    uint64_t bytes = tensor_bytes(tensor);
    if (!bytes) {
        return TOOL_OK;
    }
    return finish(tensors, attune_memory_copy(tensors->device, NULL, ATTUNE_COPY_HOST_TO_DEVICE, tensor->data,
                                              tensor->byte_offset, data, 0, bytes));
}

enum tool_exit tensors_get(struct tensors *tensors, const attune_tensor *tensor, void **out_data) {
    uint64_t bytes = tensor_bytes(tensor);
    void *data = malloc(bytes ? bytes : 1);
    if (!data) {
        return tool_fail_memory();
    }
    enum tool_exit status = TOOL_OK;
    if (bytes) {
        status = finish(tensors, attune_memory_copy(tensors->device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, data, 0,
                                                    tensor->data, tensor->byte_offset, bytes));
    }
    if (status) {
        free(data);
    } else {
        *out_data = data;
    }
    return status;
}

enum tool_exit tensors_download(struct tensors *tensors, const attune_tensor *tensor, struct array *out_array) {
    bool is_kept = tensor->dtype == ATTUNE_DTYPE_F16 || tensor->dtype == ATTUNE_DTYPE_F32;
    struct array array = {.type = tensor->dtype == ATTUNE_DTYPE_F16 ? ARRAY_F16 : ARRAY_F32, .rank = tensor->rank};
    memcpy(array.shape, tensor->shape, (size_t)tensor->rank * sizeof array.shape[0]);
    if (!array_measure(&array)) {
        return tool_fail_memory();
    }
    void *data = NULL;
    enum tool_exit status = tensors_get(tensors, tensor, &data);
    if (status) {
        return status;
    }
    array.data = data;
    if (!is_kept) {
        float *widened = malloc(array.bytes ? (size_t)array.bytes : 1);
        if (widened) {
            floats_widen(data, tensor->dtype, array.count, widened);
        }
        free(data);
        array.data = widened;
    }
    if (!array.data) {
        return tool_fail_memory();
    }
    *out_array = array;
    return TOOL_OK;
}

attune_tensor tensor_exchange_axes(attune_tensor tensor) {
    int axis = tensor.rank - 3;
    attune_tensor exchanged = tensor;
    exchanged.shape[axis] = tensor.shape[axis + 1];
    exchanged.shape[axis + 1] = tensor.shape[axis];
    exchanged.stride[axis] = tensor.stride[axis + 1];
    exchanged.stride[axis + 1] = tensor.stride[axis];
    return exchanged;
}
