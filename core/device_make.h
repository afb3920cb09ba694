/*
 * Making a device once it is known which one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_DEVICE_MAKE_H
#define ATTUNE_CORE_DEVICE_MAKE_H

#include "core/device_internal.h"
#include "core/registry.h"

/* Opens the device that attune_entry_describe_device gave info for. Errors: what the driver says; OUT_OF_MEMORY. */
attune_status attune_device_make(const struct attune_backend_entry *entry, int32_t device_index,
                                 const attune_device_info *info, const struct attune_settings *settings,
                                 attune_device **out_device);

#endif
