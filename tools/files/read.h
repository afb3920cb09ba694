/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_READ_H
#define ATTUNE_TOOLS_FILES_READ_H

#include "array.h"

/* Reads what `spec` spells: PATH.npy, or PATH.safetensors:NAME, split at the first such colon. A
 * spelling that fits both, as in a.safetensors:b.npy, is a .npy file if there is one of that name.
 * FILES_OK is 0; else `message` gets one sentence that names the file, what was found and the rule,
 * and *out_array is not written. array_release() frees the result. Not to be called on two threads
 * at once. */
enum files_status array_read(const char *spec, struct array *out_array, char *message, size_t message_bytes);

#endif
