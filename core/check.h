/*
 * ATTUNE_CHECK: reads lengths, offsets and tables back from the device and finds those that lie.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_CHECK_H
#define ATTUNE_CORE_CHECK_H

#include "core/call.h"
#include "core/device_internal.h"

/* Blocks. INVALID_ARGUMENT names tensor, index, value and rule, or says that the stream is being captured. */
attune_status attune_call_check_values(attune_device *device, attune_stream *stream, const struct attune_call *call);

#endif
