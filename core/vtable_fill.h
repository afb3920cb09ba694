/*
 * What stands in for the entries that a backend leaves NULL as a group: memory, streams and events of a device that
 * uses the host's memory and whose work is done when a call returns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_VTABLE_FILL_H
#define ATTUNE_CORE_VTABLE_FILL_H

#include "attune/backend.h"

/* Fills in every group of which all entries are NULL, and device_close. Other entries are left as they are. */
void attune_vtable_fill(attune_backend *backend);

#endif
