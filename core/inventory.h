/*
 * Which devices a backend has.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_INVENTORY_H
#define ATTUNE_CORE_INVENTORY_H

#include "core/registry.h"

/* A backend that counts on for ever has a fault. */
#define ATTUNE_DEVICES_MAX 256

/* Fails with the reason if the backend cannot be asked for devices. May open a vendor's library. */
attune_status attune_entry_check(const struct attune_backend_entry *entry);

/* Asks for one device; sets the selector. NOT_FOUND past the last; else what the driver says. */
attune_status attune_entry_describe_device(const struct attune_backend_entry *entry, int32_t device_index,
                                           attune_device_info *out_info);

/* A device that cannot be described counts too, unless it is the first: then the backend fails, and with UNAVAILABLE if
 * there is no device at all. */
attune_status attune_entry_count_devices(const struct attune_backend_entry *entry, int32_t *out_count);

#endif
