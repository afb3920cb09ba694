/*
 * What can be said of a call's pointers: alignment, bounds and overlap, as far as the backend knows where they lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_MEMORY_CHECK_H
#define ATTUNE_CORE_MEMORY_CHECK_H

#include "core/call.h"
#include "core/device_internal.h"

/* Sets problem.alignment_bytes and ATTUNE_FEATURE_O_IS_Q of the call. INVALID_ARGUMENT: NULL data with elements, a
 * pointer less aligned than its element, a tensor past the end of its allocation, an output that shares an element with
 * another tensor or with itself where that is decided cheaply. With allow_null (plans made before the data is there) a
 * NULL pointer is taken as aligned to 16 bytes and overlapping nothing. */
attune_status attune_call_check_memory(attune_device *device, struct attune_call *call, bool allow_null);

#endif
