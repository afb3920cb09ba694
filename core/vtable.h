/*
 * Whether a backend, perhaps compiled against another attune, fits this one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_VTABLE_H
#define ATTUNE_CORE_VTABLE_H

#include "attune/backend.h"

/* Copies a backend's table: entries that it does not know become NULL, those that core does not know are dropped, and
 * groups that it leaves out are filled in. INCOMPATIBLE: ABI, struct sizes, name, an entry that must not be NULL. */
attune_status attune_vtable_import(const attune_backend *backend, attune_backend *out_backend);

#endif
