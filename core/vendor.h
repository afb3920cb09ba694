/*
 * Backends that people ask for by name although this build or this installation does not have them: the answer names
 * the driver library.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_VENDOR_H
#define ATTUNE_CORE_VENDOR_H

#include <stdint.h>

#include "attune/status.h"

struct attune_vendor {
    const char *name;
    const char *description;
    int32_t priority;      /* that its backend would have */
    const char *variable;  /* names the library in place of these */
    const char *libraries; /* of its driver, as backends/drivers.def has them */
};

/* NULL past the last. */
const struct attune_vendor *attune_vendor_at(int32_t index);

/* Fails with UNAVAILABLE: the backend is missing, and the driver library perhaps too. Opens the library; hold no lock.
 */
attune_status attune_vendor_refuse(const struct attune_vendor *vendor);

#endif
