/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_SAFETENSORS_H
#define ATTUNE_TOOLS_FILES_SAFETENSORS_H

#include "array.h"

/* One tensor of a .safetensors file. A file that breaks a rule of the format anywhere in its header
 * is FILES_INVALID. Outputs are written on success only; `message` then is untouched, else it gets
 * the reason, at most `message_bytes` bytes with its NUL. Not to be called on two threads at once:
 * see safetensors_json_parse(). */

/* Reads tensor `name` of the file at `path`, and no other tensor's bytes. array_release() frees the
 * result. */
enum files_status safetensors_read(const char *path, const char *name, struct array *out_array, char *message,
                                   size_t message_bytes);

/* The same from `size_bytes` bytes in memory, which stay the caller's. */
enum files_status safetensors_parse(const void *bytes, size_t size_bytes, const char *name, struct array *out_array,
                                    char *message, size_t message_bytes);

#endif
