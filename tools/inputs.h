/*
 * Files that flags name, read and put on the device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_INPUTS_H
#define ATTUNE_TOOLS_INPUTS_H

#include "tensors.h"

/* Reads a file whose elements are floats. array_release frees the result, here and below. */
enum tool_exit input_read_floats(const char *flag, const char *spec, struct array *out_array);

/* Reads int32 or int64, and gives i32. */
enum tool_exit input_read_integers(const char *flag, const char *spec, struct array *out_array);

/* Floats as f32; integers as i32; u8 or bool as u8. */
enum tool_exit input_upload_floats(struct tensors *tensors, const char *flag, const char *spec,
                                   attune_tensor *out_tensor);
enum tool_exit input_upload_integers(struct tensors *tensors, const char *flag, const char *spec,
                                     attune_tensor *out_tensor);
enum tool_exit input_upload_mask(struct tensors *tensors, const char *flag, const char *spec,
                                 attune_tensor *out_tensor);

/* A block table: entries that are not read may hold anything, so what int32 does not have saturates, and names no page.
 */
enum tool_exit input_upload_pages(struct tensors *tensors, const char *flag, const char *spec,
                                  attune_tensor *out_tensor);

#endif
