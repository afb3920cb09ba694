/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/vendor.h"

#include <dlfcn.h>
#include <string.h>

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

/* Left open if it can be opened: vendors' libraries start threads that outlive a dlclose. */
static bool can_open(const char *library) {
    return dlopen(library, RTLD_LAZY | RTLD_LOCAL) != NULL;
}

/* The library that the variable names, or else the first of the driver's that can be opened; false if none can. */
static bool find_library(const struct attune_vendor *vendor, const char *chosen, char *out_name, size_t capacity) {
    if (chosen[0] != '\0') {
        attune_text_format(out_name, capacity, "%s", chosen);
        return can_open(chosen);
    }
    for (int32_t index = 0; attune_name_at(vendor->libraries, index, out_name, capacity); index++) {
        if (can_open(out_name)) {
            return true;
        }
    }
    return false;
}

attune_status attune_vendor_refuse(const struct attune_vendor *vendor) {
    const char *chosen = attune_env_get(vendor->variable);
    char library[ATTUNE_REASON_MAX] = "";
    if (find_library(vendor, chosen, library, sizeof library)) {
        return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend (%s is present)", vendor->name, library);
    }
    const char *reason = dlerror();
    const bool is_one_of_several = chosen[0] == '\0' && strchr(vendor->libraries, ' ') != NULL;
    return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend, and the driver is missing: %s%s%s",
                       vendor->name, is_one_of_several ? vendor->libraries : "", is_one_of_several ? ": " : "",
                       reason == NULL ? library : reason);
}
