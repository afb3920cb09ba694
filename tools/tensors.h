/*
 * Arrays of files as tensors of a device, and back.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_TENSORS_H
#define ATTUNE_TOOLS_TENSORS_H

#include "attune/device.h"
#include "failure.h"
#include "files/array.h"

enum { TENSORS_MAX = 320 };

/* The device memory of one command. All zeros but the device is an empty one. */
struct tensors {
    attune_device *device;
    bool shapes_only; /* nothing is put on the device: every tensor's data is NULL */
    void *memory[TENSORS_MAX];
    int count;
};

/* Frees what was made. */
void tensors_release(struct tensors *tensors);

/* A contiguous tensor filled with zeros. rank from 1 to 4. */
enum tool_exit tensors_create(struct tensors *tensors, attune_dtype dtype, int rank, const int64_t *shape,
                              attune_tensor *out_tensor);

/* Another tensor that lies in memory as the model does, without gaps. */
enum tool_exit tensors_create_like(struct tensors *tensors, const attune_tensor *model, attune_tensor *out_tensor);

/* A contiguous tensor with an array's elements: floats rounded to dtype; u8, i32 as they are. A scalar becomes (1).
 * flag names the array where it has more than four axes. */
enum tool_exit tensors_upload(struct tensors *tensors, const char *flag, const struct array *array, attune_dtype dtype,
                              attune_tensor *out_tensor);

/* The elements of a contiguous tensor: f16 as f16, other floats widened to f32. array_release frees the result. */
enum tool_exit tensors_download(struct tensors *tensors, const attune_tensor *tensor, struct array *out_array);

/* Puts bytes of the tensor's own dtype into a contiguous tensor, or takes them off it into memory from malloc: as they
 * lie in memory, whatever axes were exchanged. */
enum tool_exit tensors_set(struct tensors *tensors, const attune_tensor *tensor, const void *data);
enum tool_exit tensors_get(struct tensors *tensors, const attune_tensor *tensor, void **out_data);

int64_t tensor_count(const attune_tensor *tensor);

/* The same elements with the two axes before the last exchanged: (B, H, S, D) seen as (B, S, H, D). rank 3 or 4. */
attune_tensor tensor_exchange_axes(attune_tensor tensor);

#endif
