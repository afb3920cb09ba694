/*
 * Which device a selector opens.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_SELECTION_H
#define ATTUNE_CORE_SELECTION_H

#include "core/device_internal.h"
#include "core/registry.h"

/* attune_device_open. selector NULL or "": settings->backend, and if that is "" too, "auto". A NAME is a device's whole
 * name, or the beginning of exactly one name, in any case of letters; of several devices with the name, the first.
 *
 * A single selector keeps its own status; where several entries failed with different ones, it is UNAVAILABLE, and the
 * sentence has a line for each. */
attune_status attune_selection_open(const struct attune_registry *registry, const struct attune_settings *settings,
                                    const char *selector, attune_device **out_device);

#endif
