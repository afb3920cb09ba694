/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/vendor.h"

#include <dlfcn.h>

#include "attune/backend_util.h"
#include "core/env.h"
#include "core/status_internal.h"
#include "core/text.h"

static const struct attune_vendor vendors[] = {
#define ATTUNE_DRIVER(name, NAME, priority, description, libraries)                                                    \
    {#name, description, priority, "ATTUNE_" #NAME "_LIBRARY", libraries},
#include "backends/drivers.def"
#undef ATTUNE_DRIVER
};

const struct attune_vendor *attune_vendor_at(int32_t index) {
    return index >= 0 && (size_t)index < sizeof vendors / sizeof vendors[0] ? &vendors[index] : NULL;
}

/* Whether the library could be opened; if not, its reason is added to missing. It is left open: vendors' libraries
 * start threads that outlive a dlclose. */
static bool can_open(const char *library, char *missing, size_t capacity) {
    if (dlopen(library, RTLD_LAZY | RTLD_LOCAL) != NULL) {
        return true;
    }
    const char *reason = dlerror();
    attune_text_append(missing, capacity, "%s%s", missing[0] == '\0' ? "" : "; ", reason == NULL ? library : reason);
    return false;
}

attune_status attune_vendor_refuse(const struct attune_vendor *vendor) {
    const char *chosen = attune_env_get(vendor->variable);
    char name[ATTUNE_NAME_MAX] = "";
    char missing[ATTUNE_REASON_MAX] = "";
    bool is_present = chosen[0] != '\0' && can_open(chosen, missing, sizeof missing);
    for (int32_t n = 0; chosen[0] == '\0' && !is_present && attune_name_at(vendor->libraries, n, name, sizeof name);
         n++) {
        is_present = can_open(name, missing, sizeof missing);
    }
    if (is_present) {
        return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend (%s is present)", vendor->name,
                           chosen[0] != '\0' ? chosen : name);
    }
    return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend, and the driver is missing: %s", vendor->name,
                       missing);
}
